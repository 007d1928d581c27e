/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/*
 * Sends every message cut at every length, and every field of every request with values at its limits, past them, and
 * of another wire type. The daemon must continue, and serve another client, the witness.
 */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME

static struct wire_client client, witness;
static struct wire_client *const clients[] = { &client, &witness };
static unsigned n_sent, n_answered, n_refused, n_dropped;

static void renew_witness(void)
{
	wire_connect(&witness);
	wire_ask(&witness, OP(HELLO), 0);
	wire_ask(&witness, OP(CREATE_ID), 1);
	ck_assert_int_eq(witness.status, 0);
}

static void set_up(void)
{
	const ProtobufCMessageDescriptor *requests = &rdmabroker__request__descriptor;

	/* The test fails if the protocol has a request that is not covered. */
	for (unsigned i = 0; i < requests->n_fields; i++)
		ck_assert_uint_le(requests->fields[i].id, REQUEST_LAST);
	n_sent = n_answered = n_refused = n_dropped = 0;
	wire_start("allow any\n");
	renew_witness();
	client.sock = -1;
}

static void tear_down(void)
{
	if (client.sock >= 0)
		wire_close(&client);
	wire_close(&witness);
	wire_run(clients, 0);
	wire_end();
}

/* Replaces the client by one that has sent a hello and has an id. */
static void renew_client(void)
{
	if (client.sock >= 0)
		wire_close(&client);
	wire_run(clients, 0);
	wire_connect(&client);
	wire_ask(&client, OP(HELLO), 0);
	wire_ask(&client, OP(CREATE_ID), 1);
	ck_assert_int_eq(client.status, 0);
}

static void send_and_look(const uint8_t *buf, size_t n, const char *what)
{
	wire_send(&client, buf, n, NULL);
	wire_run(clients, 2);
	ck_assert_msg(client.n_answers <= 1, "%s: %u answers", what, client.n_answers);
	ck_assert_msg(client.dropped || client.n_answers == 1 || client.status > 0,
		      "%s: neither answered nor dropped", what);
	n_sent++;
	n_answered += client.n_answers;
	n_refused += client.n_answers > 0 && client.status > 0;
	n_dropped += client.dropped;
	/* The user is an admin, so a request can drain the broker, or end the witness's session. */
	wire.core->draining = false;
	if (strncmp(what, "kick", 4) == 0 && witness.dropped) {
		wire_close(&witness);
		renew_witness();
	}
	ck_assert_msg(!witness.dropped, "%s: the witness is dropped", what);
	if (n_sent % 16 == 0) {
		wire_ask(&witness, OP(LIST_DEVICES), 0);
		ck_assert_int_eq(witness.status, 0);
	}
	/* The request can have changed or destroyed the id. */
	renew_client();
}

static void try(void *userdata, const uint8_t *buf, size_t n, const char *what)
{
	send_and_look(buf, n, what);
}

START_TEST(every_message_cut_at_every_length)
{
	struct request_trial trial = { .serial = &client.serial, .try = try };

	renew_client();
	request_each_cut(&trial);
	printf("%u packets cut: %u answered, %u dropped\n", n_sent, n_answered, n_dropped);
	ck_assert_uint_gt(n_dropped, n_sent / 2);
}
END_TEST

START_TEST(every_field_at_its_limits)
{
	struct request_trial trial = { .serial = &client.serial, .try = try };

	renew_client();
	request_each_field(&trial);
	printf("%u requests with a field changed: %u answered, %u of them with a refusal; "
	       "%u dropped\n",
	       n_sent, n_answered, n_refused, n_dropped);
	ck_assert_uint_gt(n_answered, n_sent / 2);
}
END_TEST

UNIT_MAIN("limits", set_up, tear_down, every_message_cut_at_every_length, every_field_at_its_limits)

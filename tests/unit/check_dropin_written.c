/* SPDX-License-Identifier: BSD-2-Clause */
#include <netinet/in.h>

#include "client/rdmacm/real.h"
#include "tests/unit/ends.h"
#include "tests/unit/unit.h"

/* Events that programs of the drop-in write themselves, and look-ups of addresses whose end is an event. */

static void create(void)
{
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
}

static void write_user(int status, uint64_t arg)
{
	DO(&client,
	   rdma_write_cm_event(client.id, (enum rdma_cm_event_type)EVENT_USER, status, arg));
}

static void take_user(int status, uint64_t arg)
{
	struct rdma_cm_event *event;
	uint64_t got;

	DO(&client, rdma_get_cm_event(client.channel, &event));
	ck_assert_int_eq(event->event, EVENT_USER);
	ck_assert_ptr_eq(event->id, client.id);
	ck_assert_int_eq(event->status, status);
	memcpy(&got, &event->param, sizeof(got));
	ck_assert_uint_eq(got, arg);
	DO(&client, rdma_ack_cm_event(event));
}

/* The descriptor is readable for as long as there is an event. */
START_TEST(in_their_order)
{
	create();
	ck_assert(!is_readable(client.channel));
	write_user(0, 1);
	write_user(-5, UINT64_MAX);
	write_user(7, 0);
	run_daemon();
	ck_assert(is_readable(client.channel));
	take_user(0, 1);
	run_daemon();
	ck_assert(is_readable(client.channel));
	take_user(-5, UINT64_MAX);
	take_user(7, 0);
	run_daemon();
	ck_assert(!is_readable(client.channel));
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* Among the broker's events they come in the order in which they came to the channel. */
START_TEST(among_those_of_the_broker)
{
	create();
	write_user(0, 1);
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	run_daemon();
	take_user(0, 1);
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	write_user(0, 2);
	DO(&client, rdma_resolve_route(client.id, 1000));
	take_user(0, 2);
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

START_TEST(an_id_is_destroyed_with_events)
{
	create();
	write_user(0, 1);
	write_user(0, 2);
	run_daemon();
	DO(&client, rdma_destroy_id(client.id));
	run_daemon();
	ck_assert(!is_readable(client.channel));
}
END_TEST

START_TEST(they_go_with_an_id_that_is_migrated)
{
	struct rdma_event_channel *from = client.channel, *to = rdma_create_event_channel();

	ck_assert_ptr_nonnull(to);
	create();
	write_user(0, 1);
	DO(&client, rdma_migrate_id(client.id, to));
	write_user(0, 2);
	run_daemon();
	ck_assert(!is_readable(from));
	ck_assert(is_readable(to));
	client.channel = to;
	take_user(0, 1);
	take_user(0, 2);
	DO(&client, rdma_destroy_id(client.id));
	rdma_destroy_event_channel(to);
	client.channel = from;
}
END_TEST

START_TEST(of_no_other_type)
{
	create();
	for (int type = -1; type < 70; type++)
		if (type != EVENT_USER)
			REFUSES(rdma_write_cm_event(client.id, (enum rdma_cm_event_type)type, 0, 0),
				EINVAL);
	run_daemon();
	ck_assert(!is_readable(client.channel));
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* ---- look-ups ---- */

static const struct rdma_addrinfo hints = {
	.ai_flags = RAI_NUMERICHOST,
	.ai_port_space = RDMA_PS_TCP,
};

static void take_found(void)
{
	struct rdma_addrinfo *found = NULL;

	REFUSES(rdma_query_addrinfo(client.id, NULL), EINVAL);
	DO(&client, rdma_query_addrinfo(client.id, &found));
	ck_assert_ptr_nonnull(found);
	ck_assert_int_eq(((struct sockaddr_in *)found->ai_dst_addr)->sin_port, htons(7471));
	rdma_freeaddrinfo(found);
	REFUSES(rdma_query_addrinfo(client.id, &found), ENOENT);
}

START_TEST(a_look_up)
{
	struct rdma_addrinfo *found;

	create();
	REFUSES(rdma_query_addrinfo(client.id, &found), ENOENT);
	for (int i = 0; i < 2; i++) {
		DO(&client, rdma_resolve_addrinfo(client.id, "10.9.0.1", "7471", &hints));
		REFUSES(rdma_resolve_addrinfo(client.id, "10.9.0.1", "7471", &hints), EBUSY);
		run_daemon();
		ck_assert(is_readable(client.channel));
		await(&client, (enum rdma_cm_event_type)EVENT_ADDRINFO_RESOLVED);
		take_found();
	}
	/* What is found, and not taken, is freed with the id. */
	DO(&client, rdma_resolve_addrinfo(client.id, "10.9.0.1", "7471", &hints));
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* An id without a channel waits for the event itself. */
START_TEST(a_look_up_that_waits)
{
	DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addrinfo(client.id, "10.9.0.1", "7471", &hints));
	ck_assert_ptr_nonnull(client.id->event);
	ck_assert_int_eq(client.id->event->event, EVENT_ADDRINFO_RESOLVED);
	ck_assert_str_eq(rdma_event_str(client.id->event->event),
			 "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
	take_found();
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* One that fails leaves nothing: the next one is possible. */
START_TEST(look_ups_that_fail)
{
	struct rdma_addrinfo services = { .ai_flags = RAI_SA };

	create();
	REFUSES(rdma_resolve_addrinfo(client.id, "no number", "7471", &hints), ENOENT);
	REFUSES(rdma_resolve_addrinfo(client.id, NULL, NULL, NULL), EINVAL);
	REFUSES(rdma_resolve_addrinfo(NULL, "10.9.0.1", "7471", &hints), EINVAL);
	REFUSES(rdma_resolve_addrinfo(client.id, NULL, "name", &services), EOPNOTSUPP);
	services.ai_flags = RAI_SA | RAI_DNS;
	REFUSES(rdma_resolve_addrinfo(client.id, NULL, "name", &services), EOPNOTSUPP);
	run_daemon();
	ck_assert(!is_readable(client.channel));
	DO(&client, rdma_resolve_addrinfo(client.id, "10.9.0.1", "7471", &hints));
	await(&client, (enum rdma_cm_event_type)EVENT_ADDRINFO_RESOLVED);
	take_found();
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

UNIT_MAIN("dropin_written", set_up, tear_down, in_their_order, among_those_of_the_broker,
	  an_id_is_destroyed_with_events, they_go_with_an_id_that_is_migrated, of_no_other_type,
	  a_look_up, a_look_up_that_waits, look_ups_that_fail)

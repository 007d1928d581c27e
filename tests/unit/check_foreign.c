/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/program.h"
#include "util/clock.h"

/* How status reports ids that the broker did not make. check_nldev.c tests how these ids are found. */

static union {
	struct fabric_holders holders;
	char space[sizeof(struct fabric_holders) +
		   FABRIC_HOLDERS_MAX * sizeof(struct fabric_holder)];
} found;

static void do_set_holders(void *device)
{
	fake_set_holders(harness.core->fabric, device, &found.holders);
}

static void do_count_looks(void *arg)
{
	*(unsigned *)arg = fake_count(harness.core->fabric, FAKE_LOOK);
}

static void do_add_device(void *name)
{
	fake_add_device(harness.core->fabric, name);
}

static void set_holders(const char *device)
{
	in_server(do_set_holders, (void *)device);
}

static void add_device(const char *name)
{
	in_server(do_add_device, (void *)name);
}

static void start_afresh(void)
{
	set_up_ctl();
	memset(&found, 0, sizeof(found));
	found.holders.seen_ms = clock_ms();
}

static struct fabric_holder *add(int pid, unsigned uid, const char *name, unsigned n_ids,
				 const char *state)
{
	struct fabric_holder *holder = &found.holders.holders[found.holders.n_holders++];
	struct sockaddr_in *in = (struct sockaddr_in *)&holder->local;

	holder->pid = pid;
	holder->uid = uid;
	snprintf(holder->name, sizeof(holder->name), "%s", name);
	holder->n_ids = n_ids;
	holder->state = state;
	in->sin_family = AF_INET;
	in->sin_port = htons(7471);
	in->sin_addr.s_addr = htonl(0x0a090001);
	return holder;
}

static void set_peer(struct fabric_holder *holder)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&holder->peer;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(40000);
	ck_assert_int_eq(inet_pton(AF_INET6, "fd09::2", &in6->sin6_addr), 1);
}

static void do_break(void *arg)
{
	fake_break_device(harness.core->fabric, "fake0", *(int *)arg);
}

/* The opener tries it again, see check_opener.c. */
START_TEST(a_device_that_cannot_be_opened)
{
	int error = EAGAIN;

	in_server(do_break, &error);
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out, "the device fake0 cannot be used since ");
	assert_has(got.out, " s, because it cannot be opened: Resource temporarily unavailable; it "
			    "is tried again\n");
	ck_assert_int_eq(ctl("metrics"), 0);
	assert_has(got.out, "rdmabroker_unusable_devices 1\n");
	error = 0;
	in_server(do_break, &error);
	ck_assert_int_eq(ctl("status"), 0);
	assert_lacks(got.out, "cannot be used");
	ck_assert_int_eq(ctl("metrics"), 0);
	assert_has(got.out, "rdmabroker_unusable_devices 0\n");
}
END_TEST

START_TEST(before_the_first_scan)
{
	unsigned n_looks;

	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out, "foreign ids: fake0  not examined yet\n");
	ck_assert_int_eq(ctl("status", "--json"), 0);
	assert_json("d[\"devices\"][0][\"foreign_ids\"] is None");
	/* Each request for the status has called fabric_scan_holders(). */
	in_server(do_count_looks, &n_looks);
	ck_assert_uint_eq(n_looks, 2);
}
END_TEST

START_TEST(no_foreign_ids)
{
	set_holders("fake0");
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out, "foreign ids: none\n");
	ck_assert_int_eq(ctl("status", "--json"), 0);
	assert_json("(lambda f: f.pop(\"age_ms\") < 600000 and f == "
		    "{\"holders\": [], \"more\": 0, \"nameless\": 0})"
		    "(d[\"devices\"][0][\"foreign_ids\"])");
}
END_TEST

START_TEST(foreign_ids_are_reported)
{
	char expected[1024];
	unsigned long age;

	add(812, 1000, "rping", 3, "LISTEN");
	set_peer(add(813, (unsigned)-1, "", 1, "CONNECT"));
	found.holders.n_more_ids = 7;
	found.holders.n_nameless_ids = 2;
	found.holders.seen_ms -= 90500;
	set_holders("fake0");

	ck_assert_int_eq(ctl("status"), 0);
	/* A slow machine takes some seconds more. */
	age = strtoul(strstr(got.out, " ..., ") + 6, NULL, 10);
	ck_assert_uint_ge(age, 90);
	ck_assert_uint_lt(age, 690);
	snprintf(
		expected, sizeof(expected),
		"foreign ids: fake0  process 812 (rping, uid 1000) holds 3: LISTEN 10.9.0.1:7471 ..., %lu s ago\n"
		"             fake0  process 813 (?, uid ?) holds 1: CONNECT 10.9.0.1:7471 to "
		"[fd09::2]:40000, %lu s ago\n"
		"             fake0  other processes hold 7, %lu s ago\n"
		"             fake0  unknown processes hold 2 (the threads that made them have ended), %lu s ago\n",
		age, age, age, age);
	assert_has(got.out, expected);
	assert_lacks(got.out, "foreign ids: none");
	ck_assert_int_eq(ctl("status", "--json"), 0);
	assert_json("(lambda f: 90500 <= f[\"age_ms\"] < 690500 and f[\"more\"] == 7 and "
		    "f[\"nameless\"] == 2 and f[\"holders\"] == ["
		    "{\"pid\": 812, \"uid\": 1000, \"name\": \"rping\", \"ids\": 3, "
		    "\"state\": \"LISTEN\", \"local\": \"10.9.0.1:7471\", \"peer\": None}, "
		    "{\"pid\": 813, \"uid\": None, \"name\": None, \"ids\": 1, "
		    "\"state\": \"CONNECT\", \"local\": \"10.9.0.1:7471\", "
		    "\"peer\": \"[fd09::2]:40000\"}])"
		    "(d[\"devices\"][0][\"foreign_ids\"])");
}
END_TEST

START_TEST(each_device_has_its_own)
{
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_status *status;
	const struct rdmabroker_device_status *devices;

	add_device("fake1");
	add_device("fake2");
	add(812, 1000, "rping", 3, "LISTEN");
	set_holders("fake0");
	add(813, 1001, "ucmatose", 5, "CONNECT");
	set_holders("fake2");
	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	ck_assert_uint_eq(status->n_devices, 3);
	devices = status->devices;
	ck_assert_str_eq(devices[0].name, "fake0");
	ck_assert_uint_eq(devices[0].foreign.n_holders, 1);
	ck_assert_int_eq(devices[0].foreign.holders[0].pid, 812);
	/* fake1 has not been scanned. */
	ck_assert(!devices[1].is_examined);
	ck_assert_str_eq(devices[2].name, "fake2");
	ck_assert(devices[2].is_examined);
	ck_assert_uint_eq(devices[2].foreign.n_holders, 2);
	ck_assert_int_eq(devices[2].foreign.holders[0].pid, 812);
	ck_assert_int_eq(devices[2].foreign.holders[1].pid, 813);
	ck_assert_uint_eq(devices[2].foreign.holders[1].uid, 1001);
	ck_assert_uint_eq(devices[2].foreign.holders[1].n_ids, 5);
	rdmabroker_free(status);
	rdmabroker_close(session);
}
END_TEST

/*
 * A page of the status lists at most 32 holders, and counts the ids of the others. With the longest texts it has fewer
 * than 64 devices.
 */
START_TEST(holders_past_the_maximum_are_counted)
{
	struct rdmabroker *session = open_session(0);
	const struct rdmabroker_foreign_ids *foreign;
	struct rdmabroker_status *status;
	char name[64];

	for (unsigned i = 1; i < 64; i++) {
		snprintf(name, sizeof(name), "%063u", i);
		add_device(name);
	}
	for (int i = 0; i < 40; i++) {
		struct fabric_holder *holder = add(0x7fffff00 + i, 4000000000,
						   "0123456789012345678901234567890", 2,
						   "DEVICE_REMOVAL");

		set_peer(holder);
		holder->local = holder->peer;
	}
	set_holders("fake0");
	set_holders(name);
	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	ck_assert_uint_eq(status->n_devices, 64);
	foreign = &status->devices[0].foreign;
	ck_assert_uint_eq(foreign->n_holders, 32);
	ck_assert_uint_eq(foreign->n_more, 16);
	ck_assert_str_eq(foreign->holders[31].name, "0123456789012345678901234567890");
	foreign = &status->devices[63].foreign;
	ck_assert_uint_eq(foreign->n_holders, 32);
	ck_assert_uint_eq(foreign->n_more, 16);
	rdmabroker_free(status);
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("foreign", start_afresh, tear_down, a_device_that_cannot_be_opened, before_the_first_scan,
	  no_foreign_ids, foreign_ids_are_reported, each_device_has_its_own,
	  holders_past_the_maximum_are_counted)

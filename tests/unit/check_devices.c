/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#include "client/admin.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/succession.h"
#include "tests/unit/unit.h"

/* A host with many devices, of which a program can have the nodes of a few. */

#define DEVICES 1024

static void set_up(void)
{
	fake_start_with_devices(DEVICES);
	succession_set_up();
}

static void tear_down(void)
{
	succession_tear_down();
	hooks_set_devices(0, 1);
}

/* The leases are those of the N devices from FIRST, and the status has all devices, each once and in their order. */
static void expect_leases(unsigned first, unsigned n)
{
	struct rdmabroker_status *status = get_status();

	ck_assert_uint_eq(status->n_leases, n);
	ck_assert_uint_eq(status->n_devices, DEVICES);
	for (unsigned i = 0; i < DEVICES; i++) {
		const struct rdmabroker_device_status *device = &status->devices[i];
		char name[16];

		snprintf(name, sizeof(name), "fake%u", i);
		ck_assert_str_eq(device->name, name);
		ck_assert_uint_eq(device->n_leases, i >= first && i < first + n);
	}
	rdmabroker_free(status);
}

/* The pod of the 40th virtual function: its /dev has no other node. */
START_TEST(one_of_many)
{
	struct ibv_context *context, **devices;
	size_t n;

	hooks_set_devices(40, 1);
	ck_assert_int_eq(rdmabroker_lease_devices(client, NULL), 0);
	expect_leases(40, 1);
	ck_assert_int_eq(rdmabroker_open_device(client, NULL, &context), 0);
	ck_assert_str_eq(context->device->name, "fake40");
	ck_assert_int_eq(rdmabroker_get_devices(client, &devices, &n), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_ptr_eq(devices[0], context);
	rdmabroker_free_devices(client, devices);
	rdmabroker_close_device(client, context);
	expect_leases(40, 1);
}
END_TEST

START_TEST(all)
{
	struct ibv_context **devices;
	size_t n;

	hooks_set_devices(0, DEVICES);
	ck_assert_int_eq(rdmabroker_lease_devices(client, NULL), 0);
	expect_leases(0, DEVICES);
	restart();
	expect_leases(0, DEVICES);
	rdmabroker_close(client);
	run_all();
	client = open_session();
	expect_leases(0, 0);
	ck_assert_int_eq(rdmabroker_get_devices(client, &devices, &n), 0);
	ck_assert_uint_eq(n, DEVICES);
	expect_leases(0, DEVICES);
	rdmabroker_free_devices(client, devices);
	run_all();
	expect_leases(0, 0);
}
END_TEST

/* Devices that the broker does not have, or that policy rejects, do not keep others from being leased. */
START_TEST(some_are_refused)
{
	restart_with("reject device device fake1000\nallow any\n");
	hooks_set_devices(DEVICES - 24, DEVICES);
	ck_assert_int_eq(rdmabroker_lease_devices(client, NULL), 0);
	expect_leases(DEVICES - 23, 23);
}
END_TEST

START_TEST(none)
{
	struct ibv_context *context, **devices;

	hooks_set_devices(0, 0);
	ck_assert_int_eq(rdmabroker_lease_devices(client, NULL), -ENODEV);
	ck_assert_int_eq(rdmabroker_open_device(client, NULL, &context), -ENODEV);
	ck_assert_int_eq(rdmabroker_get_devices(client, &devices, NULL), -ENODEV);
	hooks_set_devices(DEVICES, 1);
	ck_assert_int_eq(rdmabroker_lease_devices(client, NULL), -ENODEV);
	hooks_set_devices(0, 1);
	restart_with("reject device\nallow any\n");
	ck_assert_int_eq(rdmabroker_lease_devices(client, NULL), -ENODEV);
	ck_assert_int_eq(rdmabroker_get_devices(client, &devices, NULL), -ENODEV);
	expect_leases(0, 0);
}
END_TEST

static bool slow_turn(void *userdata)
{
	if (hooks_run(hooks_get_loop()) == 0)
		return false;
	hooks_pass_time(50);
	return true;
}

/* At the start of a program, a broker that answers is waited for, although not for ever; many processes start at once. */
START_TEST(a_broker_that_is_slow_at_the_start)
{
	const struct rdmabroker_options options = {
		.size = sizeof(options), .flags = RDMABROKER_NO_POLL | RDMABROKER_AT_START
	};
	struct rdmabroker_status *status;
	struct rdmabroker *session;

	hooks_set_turn(slow_turn, NULL);
	hooks_set_devices(0, 5);
	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	ck_assert_int_eq(rdmabroker_lease_devices(session, NULL), 0);
	expect_leases(0, 5);
	rdmabroker_close(session);
	hooks_set_devices(0, DEVICES);
	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	ck_assert_int_eq(rdmabroker_lease_devices(session, NULL), 0);
	status = get_status();
	ck_assert_uint_gt(status->n_leases, 0);
	ck_assert_uint_le(status->n_leases, 12);
	rdmabroker_free(status);
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("devices", set_up, tear_down, one_of_many, all, some_are_refused, none,
	  a_broker_that_is_slow_at_the_start)

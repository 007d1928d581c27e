/* SPDX-License-Identifier: BSD-2-Clause */

#include "client/admin.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/succession.h"
#include "tests/unit/unit.h"

/* A client that replies to its peer's disconnect itself, with RDMABROKER_CONFIRM_DISCONNECT, and a daemon that dies. */

/* How often the daemons have disconnected, those included that died. */
static unsigned count_calls(void)
{
	static struct fabric *fabrics[4096];
	unsigned ret = 0;

	for (unsigned i = 0; i < 4096; i++) {
		if (!fabrics[i] || fabrics[i] == fake_last()) {
			fabrics[i] = fake_last();
			return ret + fake_count(fabrics[i], FAKE_DISCONNECT);
		}
		ret += fake_count(fabrics[i], FAKE_DISCONNECT);
	}
	ck_abort_msg("too many daemons");
}

static void open_confirming_server(void)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;

	options.flags = RDMABROKER_CONFIRM_DISCONNECT;
	rdmabroker_close(server);
	ck_assert_int_eq(rdmabroker_open(&options, &server), 0);
}

/* The client disconnects. */
static void disconnect(void)
{
	accepted = NULL;
	connect_ids(17);
	ck_assert_int_eq(rdmabroker_disconnect(id), 0);
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
}

START_TEST(the_library_replies)
{
	unsigned n;

	open_confirming_server();
	start_listening();
	disconnect();
	n = count_calls();
	ck_assert_int_eq(rdmabroker_disconnect(accepted), 0);
	ck_assert_uint_eq(count_calls(), n + 1);
	/* The forms that wait do not wait for another DISCONNECTED. */
	ck_assert_int_eq(rdmabroker_disconnect_wait(accepted, T), 0);
	ck_assert_int_eq(rdmabroker_wait_disconnected(accepted, T), 0);
	ck_assert_uint_eq(count_calls(), n + 1);
}
END_TEST

START_TEST(the_library_leaves_it_to_the_broker)
{
	unsigned n;

	start_listening();
	disconnect();
	n = count_calls();
	hooks_start_counting();
	ck_assert_int_eq(rdmabroker_disconnect(accepted), 0);
	ck_assert_uint_eq(hooks_get_traffic().packets, 0);
	ck_assert_uint_eq(count_calls(), n);
}
END_TEST

START_TEST(the_reply_comes_after_a_restart)
{
	unsigned n;

	open_confirming_server();
	start_listening();
	disconnect();
	n = count_calls();
	restart();
	ck_assert_uint_eq(count_calls(), n);
	ck_assert_int_eq(rdmabroker_disconnect(accepted), 0);
	ck_assert_uint_eq(count_calls(), n + 1);
	/* The next process knows that the reply was sent. */
	restart();
	ck_assert_int_eq(rdmabroker_disconnect(accepted), 0);
	ck_assert_uint_eq(count_calls(), n + 1);
}
END_TEST

/* The library has told the program that the broker is gone, so there is nobody who waits for the reply. */
START_TEST(the_broker_is_gone)
{
	open_confirming_server();
	start_listening();
	disconnect();
	ck_assert_int_eq(rdmabroker_kick(client, 3, 0), 0);
	expect_end(server);
	ck_assert_int_eq(rdmabroker_disconnect(accepted), 0);
}
END_TEST

/* The daemon dies at each instant of the reply. */
START_TEST(the_reply_is_not_lost)
{
	bool was_killed = true;
	unsigned n, i;

	allow_leaks();
	open_confirming_server();
	start_listening();
	for (i = 1; was_killed; i++) {
		disconnect();
		n = count_calls();
		hooks_kill_at(i, on_kill);
		ck_assert_int_eq(rdmabroker_disconnect(accepted), 0);
		was_killed = hooks_left_until_kill() == 0;
		hooks_kill_at(0, NULL);
		ck_assert_msg(count_calls() > n, "the reply is lost if the daemon dies at call %u",
			      i);
		rdmabroker_destroy_id(id);
		rdmabroker_destroy_id(accepted);
		hooks_run(hooks_get_loop());
	}
	ck_assert_uint_gt(i, 3);
}
END_TEST

UNIT_MAIN("disconnect_restart", succession_set_up, succession_tear_down, the_library_replies,
	  the_library_leaves_it_to_the_broker, the_reply_comes_after_a_restart, the_broker_is_gone,
	  the_reply_is_not_lost)

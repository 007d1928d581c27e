/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/rule/enforce.h"
#include "core/object/session.h"
#include "tests/unit/be_user.h"
#include "tests/unit/harness.h"

/* OnReload=enforce: what a new policy does to what exists. */

/* Each connection gets its own QP number, because timewait delays the reuse of a QP number. */
static const struct rdmabroker_conn_param *new_param(void)
{
	static _Thread_local struct rdmabroker_conn_param param;
	static atomic_uint n = 16;

	param = (struct rdmabroker_conn_param){ .size = sizeof(struct rdmabroker_conn_param),
						.qp_num = ++n };
	return &param;
}

static void do_enforce(void *arg)
{
	enforce_start(harness.core);
}

/* Gives the newest session to another user, who is no admin. */
static void do_estrange_last(void *arg)
{
	struct session *last = container_of(harness.core->sessions.prev, struct session, link);

	be_user(last, 65533);
	last->door = DOOR_COMMON;
}

START_TEST(enforcement_revokes_what_is_not_allowed)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471);
	struct rdmabroker_id *pending, *resolved;
	struct rdmabroker_status *status;
	struct rdmabroker_event *event;
	struct ibv_context *verbs;

	ck_assert_int_eq(rdmabroker_connect(active, new_param()), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_accept(event->id, new_param()), 0);
	rdmabroker_free_event(event);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(rdmabroker_establish(active), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	pending = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(pending, new_param()), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_CONNECT_REQUEST));
	resolved = resolve(c, 7471);

	/* Objects that are still allowed are not affected. */
	set_policy("allow session\nallow connect\nallow accept\nallow listen\n");
	in_server(do_enforce, NULL);
	ck_assert_int_eq(rdmabroker_get_event(c, 0, &event), -EAGAIN);

	set_policy("allow session\nallow connect\nallow listen\n");
	in_server(do_enforce, NULL);
	event = expect(c, RDMABROKER_EVENT_DISCONNECTED);
	ck_assert_ptr_eq(event->id, active);
	rdmabroker_free_event(event);
	event = expect(c, RDMABROKER_EVENT_REJECTED);
	ck_assert_ptr_eq(event->id, pending);
	ck_assert_int_eq(event->reject_code, RDMABROKER_REJECT_DENIED);
	ck_assert_str_eq(event->text, "policy has changed");
	rdmabroker_free_event(event);
	event = expect(s, RDMABROKER_EVENT_CONNECT_ERROR);
	ck_assert_int_eq(event->status, -EACCES);
	rdmabroker_free_event(event);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DISCONNECTED));

	set_policy("allow session\n");
	in_server(do_enforce, NULL);
	event = expect(s, RDMABROKER_EVENT_DEVICE_REMOVAL);
	ck_assert_ptr_eq(event->id, listener);
	ck_assert_int_eq(event->status, -EACCES);
	rdmabroker_free_event(event);
	expect_failure(rdmabroker_listen(listener, 0), EINVAL, "revoked by policy");
	ck_assert_int_lt(rdmabroker_set_option(listener, RDMABROKER_OPTION_TOS, 1), 0);
	ck_assert_int_lt(rdmabroker_disconnect(listener), 0);
	ck_assert_int_lt(rdmabroker_notify(listener, IBV_EVENT_COMM_EST), 0);
	event = expect(c, RDMABROKER_EVENT_CONNECT_ERROR);
	ck_assert_ptr_eq(event->id, resolved);
	rdmabroker_free_event(event);

	/* Session C of the other user ends. The admin's session S stays, although no rule allows it. */
	in_server(do_estrange_last, NULL);
	set_policy("reject any\n");
	in_server(do_enforce, NULL);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_LOST));
	ck_assert_int_eq(rdmabroker_get_status(s, &status), 0);
	rdmabroker_free(status);
	expect_failure(rdmabroker_open_device(s, "fake0", &verbs), EACCES, "no session rule");
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

static void do_raise_limits(void *arg)
{
	harness.core->settings.max_ids_per_session = 256;
	harness.core->account.limit[ACCOUNT_IDS] = 512;
	harness.core->account.limit_per_user[ACCOUNT_IDS] = 512;
}

/* One turn of the loop checks 256 sessions and ids. The last of these is the session of an admin, who has an id. */
START_TEST(enforcement_at_the_end_of_a_turn)
{
	struct rdmabroker_id *listener, *id;
	struct rdmabroker *other, *s;

	in_server(do_raise_limits, NULL);
	other = open_session(0);
	s = open_session(0);
	for (uint16_t i = 0; i < 254; i++) {
		ck_assert_int_eq(rdmabroker_create_id(other, RDMABROKER_PS_TCP, NULL, &id), 0);
		ck_assert_int_eq(rdmabroker_bind_addr(id, addr(20000 + i)), 0);
	}
	listener = start_listening(s, 7471);
	await_counts(2, 255);
	set_policy("reject any\n");
	in_server(do_enforce, NULL);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DEVICE_REMOVAL));
	expect_failure(rdmabroker_listen(listener, 0), EACCES, "no session rule");
	rdmabroker_close(s);
	rdmabroker_close(other);
	await_counts(0, 0);
}
END_TEST

START_TEST(a_revoked_listener_with_groups_and_exports)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_id *joined, *exported = start_listening(s, 7472), *imported;
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	int fd;

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_UDP, NULL, &joined), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(joined, addr(7471)), 0);
	ck_assert_int_eq(rdmabroker_listen(joined, 0), 0);
	ck_assert_int_eq(rdmabroker_join_multicast_wait(joined, addr(1), 1, T, &ud), 0);
	ck_assert_int_eq(rdmabroker_export_id(exported, &fd), 0);

	set_policy("allow session\n");
	in_server(do_enforce, NULL);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DEVICE_REMOVAL));
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DEVICE_REMOVAL));
	ck_assert_int_lt(rdmabroker_import_id(c, fd, &imported), 0);
	close(fd);
	rdmabroker_destroy_id(joined);
	rdmabroker_destroy_id(exported);
	await_counts(2, 0);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

/* A rule with data matches if the private data begins with the rule's data. */

static void write_rules(const char *rules)
{
	FILE *f = fopen(harness.rules_path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(rules, f);
	ck_assert_int_eq(fclose(f), 0);
}

/* Whether the rules of DRY_RUN allow of each session and id what EXPECTED says, in the order of the list. */
static void assert_denied(struct rdmabroker *session, uint64_t dry_run, size_t n,
			  const char *const *expected)
{
	struct rdmabroker_list *list;

	ck_assert_int_eq(rdmabroker_get_list(session, dry_run, &list), 0);
	ck_assert_uint_eq(list->n_sessions + list->n_ids, n);
	for (size_t i = 0; i < n; i++) {
		const char *denied = i < list->n_sessions ? list->sessions[i].denied :
							    list->ids[i - list->n_sessions].denied;

		ck_assert_msg(expected[i] ? denied && strstr(denied, expected[i]) : !denied,
			      "%zu: %s", i, denied ?: "allowed");
	}
	rdmabroker_free(list);
}

static uint64_t try_rules(struct rdmabroker *session, const char *rules)
{
	struct rdmabroker_reload_result *result;
	uint64_t dry_run;

	write_rules(rules);
	ck_assert_int_eq(rdmabroker_reload(session, true, &result), 0);
	ck_assert(result->ok);
	dry_run = result->dry_run;
	ck_assert_uint_gt(dry_run, 0);
	rdmabroker_free(result);
	return dry_run;
}

/* It is what enforce would end, and it goes on. */
START_TEST(dry_run)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0), *admin = open_session(0);
	const char *const none[7] = { NULL };
	const char *const some[] = { NULL,           "device fake0", NULL, "listen on",
				     "request from", NULL,           NULL };
	const char *const all[] = { "session",      "session",    NULL, "listen on",
				    "request from", "connect to", NULL };
	struct rdmabroker_list *list;
	struct rdmabroker_event *event;
	struct rdmabroker_id *active, *idle;
	uint64_t first, second;

	start_listening(s, 7471);
	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &idle), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(idle, addr(8000)), 0);
	ck_assert_int_eq(rdmabroker_lease_devices(c, "fake0"), 0);
	ck_assert_int_eq(rdmabroker_connect(active, new_param()), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_accept(event->id, new_param()), 0);
	rdmabroker_free_event(event);

	/* ADMIN has requested nothing that needs a rule. */
	first = try_rules(admin, "allow any\n");
	assert_denied(admin, first, 7, none);
	second = try_rules(admin, "allow session\nallow connect\n");
	expect_failure(rdmabroker_get_list(admin, first, &list), EINVAL, "read again");
	assert_denied(admin, second, 7, some);
	assert_denied(admin, try_rules(admin, "reject any\n"), 7, all);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(rdmabroker_establish(active), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	/* It is of no dry run. */
	expect_failure(rdmabroker_get_list(admin, 4711, &list), EINVAL, "read again");
	rdmabroker_close(admin);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

UNIT_MAIN("enforce", set_up, tear_down, enforcement_revokes_what_is_not_allowed,
	  enforcement_at_the_end_of_a_turn, a_revoked_listener_with_groups_and_exports, dry_run)

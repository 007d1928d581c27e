/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/rule/enforce.h"
#include "core/object/session.h"
#include "core/admit/watch.h"
#include "tests/unit/be_user.h"
#include "tests/unit/program.h"
#include "tests/unit/watch.h"

/* Admins who watch are notified of events. These tests use the library, those of check_events.c use rdmabrokerctl. */

static uint32_t last_qpn = 16;

/* Each connection gets its own QP number, because timewait delays the reuse of a QP number. */
static const struct rdmabroker_conn_param *new_param(void)
{
	static struct rdmabroker_conn_param param;

	param = (struct rdmabroker_conn_param){ .size = sizeof(struct rdmabroker_conn_param),
						.qp_num = ++last_qpn };
	return &param;
}

static struct rdmabroker *open_watcher(const struct rdmabroker_filter *filter)
{
	struct rdmabroker *session = open_session(0);

	ck_assert_int_eq(rdmabroker_watch(session, filter), 0);
	return session;
}

static struct rdmabroker *open_client(void)
{
	struct rdmabroker *session = open_session(0);

	be_client(session);
	return session;
}

static const char *what_of(const struct rdmabroker_notice *notice)
{
	return notice->operation ?: notice->event;
}

/* Takes the next notice, and checks that its operation or event is WHAT. */
static struct rdmabroker_notice *expect_notice(struct rdmabroker *session, const char *what)
{
	struct rdmabroker_notice *notice;

	AWAIT_INPUT(rdmabroker_get_fd(session), "the notice %s", what);
	ck_assert_int_eq(rdmabroker_get_notice(session, T, &notice), 0);
	ck_assert_str_eq(what_of(notice), what);
	return notice;
}

static void expect_notices(struct rdmabroker *session, const char *const *whats)
{
	for (; *whats; whats++)
		rdmabroker_free(expect_notice(session, *whats));
}

#define EXPECT(session, ...) expect_notices(session, (const char *const[]){ __VA_ARGS__, NULL })

/* Checks that there is no notice. Notices of earlier requests arrive before the reply to get_status. */
static void expect_no_notice(struct rdmabroker *session)
{
	struct rdmabroker_notice *notice;
	struct rdmabroker_status *status;

	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	rdmabroker_free(status);
	ck_assert_int_eq(rdmabroker_get_notice(session, 0, &notice), -EAGAIN);
}

START_TEST(decisions_are_reported)
{
	struct rdmabroker *w, *s;
	struct rdmabroker_notice *notice;
	uint64_t before = (uint64_t)time(NULL) * 1000000000;

	set_policy(watch_rules);
	s = open_client();
	w = open_watcher(NULL);
	start_listening(s, 7471);
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->kind, "decision");
	ck_assert_str_eq(notice->outcome, "allowed");
	ck_assert_uint_ge(notice->time_ns, before);
	ck_assert_uint_le(notice->time_ns, before + 1000000000ULL * UNIT_TIMEOUT);
	ck_assert_uint_eq(notice->n_lost, 0);
	ck_assert_uint_eq(notice->session, number_of(w, 0));
	ck_assert_uint_eq(notice->who.uid, geteuid());
	ck_assert_int_eq(notice->who.pid, getpid());
	ck_assert_uint_eq(notice->id, 1);
	ck_assert_int_eq(notice->ps, RDMABROKER_PS_TCP);
	ck_assert_int_eq(notice->local.ss_family, AF_INET);
	ck_assert_int_eq(notice->peer.ss_family, AF_UNSPEC);
	ck_assert_str_eq(notice->rule, "test.rules:2");
	ck_assert_str_eq(notice->rule_text, "allow listen port 7471-7479 max 2");
	ck_assert_ptr_null(notice->reason);
	rdmabroker_free(notice);

	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_str_eq(notice->rule, "test.rules:3");
	ck_assert_str_eq(notice->reason, "not here");
	ck_assert_uint_eq(notice->id, 2);
	rdmabroker_free(notice);

	/* No rule matches. */
	ck_assert_int_eq(try_to_listen(s, 8000), -EACCES);
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_str_eq(notice->reason, "no-rule");
	ck_assert_ptr_null(notice->rule);
	ck_assert_ptr_null(notice->rule_text);
	rdmabroker_free(notice);

	/* The rule allows the request, but its limit is reached. */
	start_listening(s, 7472);
	EXPECT(w, "listen");
	ck_assert_int_eq(try_to_listen(s, 7473), -EBUSY);
	EXPECT(w, "listen");
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->outcome, "busy");
	ck_assert_str_eq(notice->rule, "test.rules:2");
	ck_assert_str_eq(notice->reason, "max 2");
	ck_assert_uint_gt(notice->retry_after_ms, 0);
	rdmabroker_free(notice);
	expect_no_notice(w);
	rdmabroker_free(NULL);
	rdmabroker_close(w);
	rdmabroker_close(s);
}
END_TEST

START_TEST(cm_events_are_reported)
{
	struct rdmabroker *s, *c, *w;
	struct rdmabroker_event *event;
	struct rdmabroker_notice *notice;
	struct rdmabroker_id *id;
	uint32_t request;

	set_policy(watch_rules);
	s = open_client();
	c = open_client();
	start_listening(s, 7471);
	w = open_watcher(NULL);
	id = resolve(c, 7471);
	EXPECT(w, "connect", "addr-resolved", "route-resolved");
	ck_assert_int_eq(rdmabroker_connect(id, new_param()), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_accept(event->id, new_param()), 0);
	rdmabroker_free_event(event);

	/* This notice names the listener. The connection request gets an id of its own. */
	notice = expect_notice(w, "accept");
	ck_assert_str_eq(notice->outcome, "allowed");
	ck_assert_uint_eq(notice->id, 1);
	ck_assert_uint_eq(notice->session, number_of(w, 0));
	ck_assert_int_eq(notice->peer.ss_family, AF_INET);
	rdmabroker_free(notice);
	notice = expect_notice(w, "connect-request");
	ck_assert_str_eq(notice->kind, "cm");
	ck_assert_ptr_null(notice->outcome);
	ck_assert_uint_eq(notice->id, 1);
	request = notice->request_id;
	ck_assert_uint_ge(request, SESSION_FIRST_REQUEST);
	ck_assert_int_eq(notice->peer.ss_family, AF_INET);
	ck_assert_str_eq(notice->rule, "test.rules:5");
	rdmabroker_free(notice);

	notice = expect_notice(w, "connect-response");
	ck_assert_uint_eq(notice->session, number_of(w, 1));
	ck_assert_uint_eq(notice->id, 1);
	ck_assert_uint_eq(notice->qp_num, last_qpn - 1);
	ck_assert_str_eq(notice->device, "fake0");
	ck_assert_str_eq(notice->rule, "test.rules:4");
	rdmabroker_free(notice);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	notice = expect_notice(w, "established");
	ck_assert_uint_eq(notice->id, request);
	ck_assert_uint_eq(notice->qp_num, last_qpn);
	rdmabroker_free(notice);
	ck_assert_int_eq(rdmabroker_disconnect(id), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DISCONNECTED));
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_DISCONNECTED));
	EXPECT(w, "disconnected", "disconnected");

	/* A failure has a number, and the text that the peer's broker sent. */
	set_policy("allow session\nallow connect\nreject accept reason \"not you\"\n");
	id = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect_wait(id, new_param(), T), -ECONNREFUSED);
	EXPECT(w, "connect", "addr-resolved", "route-resolved");
	notice = expect_notice(w, "accept");
	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_str_eq(notice->reason, "not you");
	rdmabroker_free(notice);
	notice = expect_notice(w, "rejected");
	ck_assert_int_eq(notice->status, 28);
	ck_assert_str_eq(notice->reason, "not you");
	ck_assert_uint_eq(notice->session, number_of(w, 1));
	rdmabroker_free(notice);
	rdmabroker_close(w);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

static void do_hide(void *arg)
{
	fake_hide_qp(harness.core->fabric, *(uint32_t *)arg);
}

/* The QP number is offered after the connect was decided, so it gets a notice of its own. */
START_TEST(reserved_numbers_are_reported)
{
	struct rdmabroker_conn_param p = *new_param();
	struct rdmabroker *s, *c, *w;
	struct rdmabroker_notice *notice;
	struct rdmabroker_id *id;

	set_policy("allow session\nallow listen\nallow connect qp reserved\nallow accept\n");
	in_server(do_hide, &p.qp_num);
	s = open_client();
	c = open_client();
	start_listening(s, 7471);
	w = open_watcher(NULL);
	id = resolve(c, 7471);
	notice = expect_notice(w, "connect");
	ck_assert_ptr_null(notice->reason);
	rdmabroker_free(notice);
	EXPECT(w, "addr-resolved", "route-resolved");
	ck_assert_int_eq(rdmabroker_connect(id, &p), 0);
	notice = expect_notice(w, "connect");
	ck_assert_str_eq(notice->kind, "decision");
	ck_assert_str_eq(notice->outcome, "allowed");
	ck_assert_uint_eq(notice->id, 1);
	ck_assert_str_eq(notice->rule, "test.rules:3");
	assert_has(notice->reason, "qp reserved: QP ");
	rdmabroker_free(notice);
	EXPECT(w, "accept", "connect-request");
	expect_no_notice(w);
	rdmabroker_close(w);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(sessions_are_reported)
{
	struct rdmabroker *w = open_watcher(NULL), *s;
	struct rdmabroker_notice *notice;

	set_policy(watch_rules);
	s = open_session(0);
	notice = expect_notice(w, "opened");
	ck_assert_str_eq(notice->kind, "session");
	ck_assert_uint_eq(notice->session, number_of(w, 1));
	ck_assert_uint_eq(notice->id, 0);
	ck_assert_ptr_null(notice->rule);
	rdmabroker_free(notice);
	/* It is an admin's session, which needs a rule as soon as it is a client's. */
	be_client(s);
	notice = expect_notice(w, "session");
	ck_assert_str_eq(notice->rule, "test.rules:1");
	rdmabroker_free(notice);
	rdmabroker_close(s);
	notice = expect_notice(w, "closed");
	ck_assert_ptr_null(notice->reason);
	rdmabroker_free(notice);

	s = open_session(0);
	EXPECT(w, "opened");
	ck_assert_int_eq(rdmabroker_kick(w, number_of(w, 1), 0), 0);
	notice = expect_notice(w, "closed");
	assert_has(notice->reason, "ended by uid ");
	rdmabroker_free(notice);
	rdmabroker_close(s);

	rdmabroker_close(w);
}
END_TEST

static void do_enforce(void *arg)
{
	enforce_start(harness.core);
}

START_TEST(enforcement_is_reported)
{
	struct rdmabroker *w, *s;
	struct rdmabroker_notice *notice;

	set_policy(watch_rules);
	s = open_session(0);
	start_listening(s, 7471);
	w = open_watcher(NULL);
	set_policy("allow session\nreject listen reason \"no more\"\n");
	in_server(do_enforce, NULL);
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_str_eq(notice->reason, "no more");
	ck_assert_uint_eq(notice->id, 1);
	rdmabroker_free(notice);
	/* The id has no address any more. */
	notice = expect_notice(w, "device-removal");
	ck_assert_int_eq(notice->status, -EACCES);
	ck_assert_int_eq(notice->local.ss_family, AF_UNSPEC);
	rdmabroker_free(notice);
	expect_no_notice(w);
	rdmabroker_close(w);
	rdmabroker_close(s);
}
END_TEST

/* Gives the newest session to a user who is no admin, and enforces the policy twice before the session ends. */
static void do_enforce_on_stranger(void *arg)
{
	struct session *last = container_of(harness.core->sessions.prev, struct session, link);

	be_user(last, 65533);
	last->door = DOOR_COMMON;
	enforce_start(harness.core);
	enforce_start(harness.core);
}

/* A session that a new policy ends is reported as closed, and only once. */
START_TEST(sessions_that_a_policy_ends_are_reported)
{
	struct rdmabroker_filter filter = { .kind = "session" };
	struct rdmabroker_options options = { .size = sizeof(options),
					      .socket = harness.socket_path,
					      .call_timeout_ms = T };
	struct rdmabroker *w = open_watcher(&filter), *s, *refused;
	struct rdmabroker_notice *notice;

	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = 2;
	s = open_client();
	EXPECT(w, "opened");
	set_policy("reject any\n");
	in_server(do_enforce_on_stranger, NULL);
	notice = expect_notice(w, "closed");
	ck_assert_str_eq(notice->reason, "the policy no longer allows this session");
	ck_assert_uint_eq(notice->who.uid, 65533);
	ck_assert_str_eq(notice->rule, "test.rules:1");
	rdmabroker_free(notice);
	await_counts(1, 0);
	expect_no_notice(w);
	rdmabroker_close(s);

	/* A session that was refused was not opened, so it is not reported as closed. */
	s = open_session(0);
	EXPECT(w, "opened");
	ck_assert_int_eq(rdmabroker_open(&options, &refused), -EDQUOT);
	await_counts(2, 0);
	expect_no_notice(w);
	rdmabroker_close(w);
	rdmabroker_close(s);
}
END_TEST

/*
 * The new policy allows the user sessions, but not to observe. A session that only watches ends. A session that also
 * has ids gets no more notices.
 */
START_TEST(observers_that_a_policy_forbids)
{
	struct rdmabroker_filter filter = { NULL };
	struct rdmabroker *s = open_session(0), *w = open_watcher(&filter);
	struct rdmabroker_notice *notice;
	struct rdmabroker_id *id;
	int r, tos;

	set_policy("allow session\nallow listen\n");
	in_server(do_enforce_on_stranger, NULL);
	do {
		r = rdmabroker_get_notice(w, T, &notice);
		if (r == 0)
			rdmabroker_free(notice);
	} while (r == 0);
	ck_assert_int_eq(r, -ECONNRESET);
	rdmabroker_close(w);
	await_counts(1, 0);

	w = open_watcher(&filter);
	id = start_listening(w, 7471);
	in_server(do_enforce_on_stranger, NULL);
	/* When the reply has come, the notices that were sent before have come, too. */
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &tos), 0);
	while (rdmabroker_get_notice(w, 0, &notice) == 0)
		rdmabroker_free(notice);
	rdmabroker_close(s);
	await_counts(1, 1);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &tos), 0);
	ck_assert_int_eq(rdmabroker_get_notice(w, 0, &notice), -EAGAIN);
	rdmabroker_close(w);
}
END_TEST

/*
 * The notices that each filter selects while a session listens, listens on a rejected port, and connects to itself.
 */
static const struct {
	struct rdmabroker_filter filter;
	const char *const expected[8];
} filters[] = {
	{ { .kind = "session" }, { "opened", "closed" } },
	{ { .kind = "decision" }, { "session", "listen", "listen", "connect", "accept" } },
	{ { .kind = "cm" }, { "addr-resolved", "route-resolved", "connect-request" } },
	{ { .operation = "listen" }, { "listen", "listen" } },
	{ { .operation = "join" }, { NULL } },
	{ { .outcome = "rejected" }, { "listen" } },
	{ { .outcome = "busy" }, { NULL } },
	{ { .port = 7480 }, { "listen" } },
	{ { .kind = "decision", .port = 7471 }, { "listen", "connect", "accept" } },
	{ { .port = 9 }, { NULL } },
};

#define N_FILTERS (sizeof(filters) / sizeof(filters[0]))

START_TEST(filters_select_notices)
{
	struct rdmabroker *w[N_FILTERS], *s;
	struct rdmabroker_notice *notice;
	struct rdmabroker_filter filter;
	struct rdmabroker_id *id;

	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = N_FILTERS + 1;
	set_policy(watch_rules);
	for (size_t i = 0; i < N_FILTERS; i++) {
		filter = filters[i].filter;
		w[i] = open_watcher(&filter);
	}
	/* Drop the notices about later watchers. */
	for (size_t i = 0; i < N_FILTERS; i++)
		while (rdmabroker_get_notice(w[i], 0, &notice) == 0)
			rdmabroker_free(notice);
	s = open_session(0);
	start_listening(s, 7471);
	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	id = resolve(s, 7471);
	ck_assert_int_eq(rdmabroker_connect(id, new_param()), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_CONNECT_REQUEST));
	rdmabroker_close(s);
	await_counts(N_FILTERS, 0);
	for (size_t i = 0; i < N_FILTERS; i++)
		expect_notices(w[i], filters[i].expected);
	for (size_t i = 0; i < N_FILTERS; i++)
		expect_no_notice(w[i]);
	/* The watchers are closed last, because the end of a watcher is reported to the others. */
	for (size_t i = 0; i < N_FILTERS; i++)
		rdmabroker_close(w[i]);
}
END_TEST

static void apply(struct rdmabroker *w, const uint32_t *uid, uint64_t session,
		  const struct sockaddr *peer)
{
	struct rdmabroker_filter filter = {
		.kind = "decision",
		.uid = uid,
		.session = session,
		.peer = peer,
	};

	ck_assert_int_eq(rdmabroker_watch(w, &filter), 0);
}

START_TEST(filters_are_changed)
{
	struct rdmabroker *w = open_watcher(NULL), *s = open_client();
	const uint32_t me = geteuid(), another = me + 1;
	struct rdmabroker_filter bad;

	EXPECT(w, "opened", "session");
	apply(w, &another, 0, NULL);
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	expect_no_notice(w);
	apply(w, &me, 0, NULL);
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	EXPECT(w, "listen");
	apply(w, NULL, number_of(w, 0), NULL);
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	expect_no_notice(w);
	apply(w, NULL, number_of(w, 1), NULL);
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	EXPECT(w, "listen");
	/* The filter ignores the port of the address. */
	apply(w, NULL, 0, addr(9));
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	expect_no_notice(w);
	rdmabroker_destroy_id(resolve(s, 7471));
	EXPECT(w, "connect");

	/* A filter that is refused leaves the previous one in force. */
	bad = (struct rdmabroker_filter){ .kind = "cn" };
	expect_failure(rdmabroker_watch(w, &bad), EINVAL, "unknown kind \"cn\"");
	bad = (struct rdmabroker_filter){ .operation = "any" };
	expect_failure(rdmabroker_watch(w, &bad), EINVAL, "unknown operation \"any\"");
	bad = (struct rdmabroker_filter){ .outcome = "no-rule" };
	expect_failure(rdmabroker_watch(w, &bad), EINVAL, "unknown outcome \"no-rule\"");
	bad = (struct rdmabroker_filter){ .kind = "lost" };
	expect_failure(rdmabroker_watch(w, &bad), EINVAL, "unknown kind \"lost\"");
	bad = (struct rdmabroker_filter){ .kind = "question" };
	expect_failure(rdmabroker_watch(w, &bad), EINVAL, "unknown kind \"question\"");
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	rdmabroker_destroy_id(resolve(s, 7471));
	EXPECT(w, "connect");
	expect_no_notice(w);
	rdmabroker_close(s);
	rdmabroker_close(w);
}
END_TEST

START_TEST(notices_begin_with_the_watch)
{
	struct rdmabroker *w = open_client(), *s = open_client();
	struct rdmabroker_notice *notice;
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	expect_failure(rdmabroker_get_notice(w, 0, &notice), EINVAL,
		       "rdmabroker_watch() was not called");
	ck_assert_int_eq(rdmabroker_watch(w, NULL), 0);
	ck_assert_int_eq(rdmabroker_get_notice(w, 1, &notice), -EAGAIN);
	/* Notices do not replace the session's own events, and are not returned as events. */
	id = resolve(w, 7471);
	EXPECT(w, "connect", "addr-resolved", "route-resolved");
	rdmabroker_destroy_id(id);
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	ck_assert_int_eq(rdmabroker_get_event(w, 0, &event), -EAGAIN);
	EXPECT(w, "listen");
	/* Notices from before the daemon's end are returned first. */
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	stop_server();
	EXPECT(w, "listen");
	while (rdmabroker_get_notice(w, T, &notice) == 0) {
		ck_assert_str_eq(what_of(notice), "closed");
		rdmabroker_free(notice);
	}
	ck_assert_int_eq(rdmabroker_get_notice(w, 0, &notice), -ECONNRESET);
	rdmabroker_close(s);
	rdmabroker_close(w);
}
END_TEST

START_TEST(watches_end_with_their_sessions)
{
	struct rdmabroker *w = open_watcher(NULL), *v = open_watcher(NULL), *s;

	EXPECT(w, "opened");
	ck_assert_int_eq(rdmabroker_watch(w, NULL), 0);
	await_watches(2);
	rdmabroker_close(w);
	await_watches(1);
	s = open_session(0);
	EXPECT(v, "closed", "opened");
	/* A watch ends with its session, even if another session ends that session. */
	ck_assert_int_eq(rdmabroker_kick(s, number_of(s, 0), 0), 0);
	await_watches(0);
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	rdmabroker_close(v);
	rdmabroker_close(s);
}
END_TEST

static void do_get_queued(void *arg)
{
	*(uint64_t *)arg = harness.core->account.used[ACCOUNT_BYTES];
}

/*
 * Causes more notices than the socket and the queue can hold. Each notice must be returned or be counted as lost.
 * LIMIT: the bytes that can be queued for the user.
 */
static void overflow(uint64_t limit)
{
	struct rdmabroker *w, *s;
	struct rdmabroker_notice *notice;
	struct rdmabroker_filter filter = { .kind = "decision" };
	const unsigned n = 4000;
	uint64_t queued, lost = 0;
	unsigned got_n = 0;

	harness.core->account.limit_per_user[ACCOUNT_BYTES] = limit;
	set_policy(watch_rules);
	s = open_client();
	w = open_watcher(&filter);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	/* Queued notices are charged, and use at most half of each limit. */
	in_server(do_get_queued, &queued);
	ck_assert_uint_gt(queued, 0);
	ck_assert_uint_le(queued, limit / 2 < 32768 ? limit / 2 : 32768);
	await_counts(2, 0);

	/* The queued notices come first, and then the number of lost ones. */
	while (got_n + lost < n) {
		ck_assert_int_eq(rdmabroker_get_notice(w, T, &notice), 0);
		ck_assert_str_eq(notice->kind, notice->n_lost > 0 ? "lost" : "decision");
		lost += notice->n_lost;
		got_n += notice->n_lost == 0;
		rdmabroker_free(notice);
	}
	ck_assert_uint_eq(got_n + lost, n);
	ck_assert_uint_gt(lost, 0);
	in_server(do_get_queued, &queued);
	ck_assert_uint_eq(queued, 0);
	printf("%u of %u notices were kept for a watcher that did not read\n", got_n, n);
	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	ck_assert_int_eq(rdmabroker_get_notice(w, T, &notice), 0);
	ck_assert_uint_eq(notice->n_lost, 0);
	rdmabroker_free(notice);
	rdmabroker_close(w);
	rdmabroker_close(s);
}

START_TEST(slow_watchers_lose_notices)
{
	overflow(UINT64_MAX);
}
END_TEST

/* The user's other clients need part of the limit on queued bytes. */
START_TEST(slow_watchers_leave_room_for_other_clients)
{
	overflow(8192);
}
END_TEST

/* The library's queue is bounded, even if the library reads while it waits for something else. */
START_TEST(the_librarys_queue_is_bounded)
{
	struct rdmabroker_filter filter = { .kind = "decision" };
	struct rdmabroker *w;
	struct rdmabroker_notice *notice;
	const unsigned n = 5000;
	unsigned got_n = 0;

	set_policy(watch_rules);
	w = open_client();
	ck_assert_int_eq(rdmabroker_watch(w, &filter), 0);
	/* The library reads the socket during its own calls. */
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(try_to_listen(w, 7480), -EACCES);
	while (got_n < 4096) {
		ck_assert_int_eq(rdmabroker_get_notice(w, 0, &notice), 0);
		ck_assert_str_eq(notice->kind, "decision");
		rdmabroker_free(notice);
		got_n++;
	}
	ck_assert_int_eq(rdmabroker_get_notice(w, 0, &notice), 0);
	ck_assert_str_eq(notice->kind, "lost");
	ck_assert_uint_eq(notice->n_lost, n - 4096);
	rdmabroker_free(notice);
	rdmabroker_close(w);
}
END_TEST

UNIT_MAIN("watch", set_up, tear_down, decisions_are_reported, cm_events_are_reported,
	  reserved_numbers_are_reported, sessions_are_reported, enforcement_is_reported,
	  sessions_that_a_policy_ends_are_reported, observers_that_a_policy_forbids,
	  filters_select_notices, filters_are_changed, notices_begin_with_the_watch,
	  watches_end_with_their_sessions, slow_watchers_lose_notices,
	  slow_watchers_leave_room_for_other_clients, the_librarys_queue_is_bounded)

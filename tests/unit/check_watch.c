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

#include "core/session.h"
#include "core/watch.h"
#include "tests/unit/program.h"

/* What happens is told to the admins who watch, by the library and by rdmabrokerctl events. */

static const char rules[] = "allow session\nallow listen port 7471-7479 max 2\n"
			    "reject listen port 7480-7999 reason \"not here\"\nallow connect\n"
			    "allow accept\n";

static uint32_t last_qpn = 16;

/* A QP number rests for a while after each connection: every one has its own. */
static const struct rdmabroker_conn_param *new_param(void)
{
	static struct rdmabroker_conn_param param;

	param = (struct rdmabroker_conn_param){ .qp_num = ++last_qpn };
	return &param;
}

static struct rdmabroker *open_watcher(const struct rdmabroker_filter *filter)
{
	struct rdmabroker *session = open_session(0);

	ck_assert_int_eq(rdmabroker_watch(session, filter), 0);
	return session;
}

/* By its operation or its event: "listen", "established". */
static struct rdmabroker_notice *expect_notice(struct rdmabroker *session, const char *what)
{
	struct pollfd p = { .fd = rdmabroker_get_fd(session), .events = POLLIN };
	struct rdmabroker_notice *notice;

	ck_assert_int_eq(poll(&p, 1, T), 1);
	ck_assert_int_eq(rdmabroker_get_notice(session, &notice, T), 0);
	ck_assert_str_eq(notice->operation ?: notice->event, what);
	return notice;
}

static void expect_notices(struct rdmabroker *session, const char *const *whats)
{
	for (; *whats; whats++)
		rdmabroker_free_notice(expect_notice(session, *whats));
}

#define EXPECT(session, ...) expect_notices(session, (const char *const[]){ __VA_ARGS__, NULL })

/* What was asked before is done; so whatever is told of it is there. */
static void expect_no_notice(struct rdmabroker *session)
{
	struct rdmabroker_notice *notice;
	struct rdmabroker_status *status;

	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	rdmabroker_free_status(status);
	ck_assert_int_eq(rdmabroker_get_notice(session, &notice, 0), -EAGAIN);
}

static uint64_t number_of(struct rdmabroker *session, size_t i)
{
	struct rdmabroker_list *list;
	uint64_t number;

	ck_assert_int_eq(rdmabroker_get_list(session, &list), 0);
	ck_assert_uint_gt(list->n_sessions, i);
	number = list->sessions[i].number;
	rdmabroker_free_list(list);
	return number;
}

static int try_to_listen(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id;
	int r;

	ck_assert_int_eq(rdmabroker_create_id(session, &id, NULL, RDMABROKER_PS_TCP), 0);
	r = rdmabroker_bind_addr(id, addr(port));
	if (r == 0)
		r = rdmabroker_listen(id, 0);
	rdmabroker_destroy_id(id);
	return r;
}

START_TEST(decisions_are_told)
{
	struct rdmabroker *w, *s;
	struct rdmabroker_notice *notice;
	uint64_t before = (uint64_t)time(NULL) * 1000000000;

	set_policy(rules);
	s = open_session(0);
	w = open_watcher(NULL);
	start_listening(s, 7471);
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->kind, "decision");
	ck_assert_str_eq(notice->outcome, "allowed");
	ck_assert_uint_ge(notice->time_ns, before);
	ck_assert_uint_le(notice->time_ns, before + 1000000000ULL * UNIT_TIMEOUT);
	ck_assert_uint_eq(notice->n_lost, 0);
	ck_assert_uint_eq(notice->session, number_of(w, 0));
	ck_assert_uint_eq(notice->uid, geteuid());
	ck_assert_int_eq(notice->pid, getpid());
	ck_assert_uint_eq(notice->id, 1);
	ck_assert_int_eq(notice->ps, RDMABROKER_PS_TCP);
	ck_assert_int_eq(notice->local.ss_family, AF_INET);
	ck_assert_int_eq(notice->peer.ss_family, AF_UNSPEC);
	ck_assert_str_eq(notice->rule, "test.rules:2");
	ck_assert_str_eq(notice->rule_text, "allow listen port 7471-7479 max 2");
	ck_assert_ptr_null(notice->reason);
	ck_assert_ptr_null(notice->event);
	rdmabroker_free_notice(notice);

	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_str_eq(notice->rule, "test.rules:3");
	ck_assert_str_eq(notice->reason, "not here");
	ck_assert_uint_eq(notice->id, 2);
	rdmabroker_free_notice(notice);

	/* For want of a rule. */
	ck_assert_int_eq(try_to_listen(s, 8000), -EACCES);
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_str_eq(notice->reason, "no-rule");
	ck_assert_ptr_null(notice->rule);
	ck_assert_ptr_null(notice->rule_text);
	rdmabroker_free_notice(notice);

	/* The rule says yes, then its limit says no. */
	start_listening(s, 7472);
	EXPECT(w, "listen");
	ck_assert_int_eq(try_to_listen(s, 7473), -EBUSY);
	EXPECT(w, "listen");
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->outcome, "busy");
	ck_assert_str_eq(notice->rule, "test.rules:2");
	ck_assert_str_eq(notice->reason, "max 2");
	ck_assert_uint_gt(notice->retry_after_ms, 0);
	rdmabroker_free_notice(notice);
	expect_no_notice(w);
	ck_assert_ptr_null(rdmabroker_free_notice(NULL));
	rdmabroker_close(w);
	rdmabroker_close(s);
}
END_TEST

START_TEST(cm_events_are_told)
{
	struct rdmabroker *s, *c, *w;
	struct rdmabroker_event *event;
	struct rdmabroker_notice *notice;
	struct rdmabroker_id *id;
	uint32_t request;

	set_policy(rules);
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	w = open_watcher(NULL);
	id = resolve(c, 7471);
	EXPECT(w, "connect", "addr-resolved", "route-resolved");
	ck_assert_int_eq(rdmabroker_connect(id, new_param()), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_accept(event->id, new_param()), 0);
	rdmabroker_free_event(event);

	/* The listener is asked for, and what comes has a number of its own. */
	notice = expect_notice(w, "accept");
	ck_assert_str_eq(notice->outcome, "allowed");
	ck_assert_uint_eq(notice->id, 1);
	ck_assert_uint_eq(notice->session, number_of(w, 0));
	ck_assert_int_eq(notice->peer.ss_family, AF_INET);
	rdmabroker_free_notice(notice);
	notice = expect_notice(w, "connect-request");
	ck_assert_str_eq(notice->kind, "cm");
	ck_assert_ptr_null(notice->outcome);
	ck_assert_uint_eq(notice->id, 1);
	request = notice->request_id;
	ck_assert_uint_ge(request, SESSION_FIRST_REQUEST);
	ck_assert_int_eq(notice->peer.ss_family, AF_INET);
	ck_assert_str_eq(notice->rule, "test.rules:5");
	rdmabroker_free_notice(notice);

	notice = expect_notice(w, "connect-response");
	ck_assert_uint_eq(notice->session, number_of(w, 1));
	ck_assert_uint_eq(notice->id, 1);
	ck_assert_uint_eq(notice->qp_num, last_qpn - 1);
	ck_assert_str_eq(notice->device, "fake0");
	ck_assert_str_eq(notice->rule, "test.rules:4");
	rdmabroker_free_notice(notice);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	notice = expect_notice(w, "established");
	ck_assert_uint_eq(notice->id, request);
	ck_assert_uint_eq(notice->qp_num, last_qpn);
	rdmabroker_free_notice(notice);
	ck_assert_int_eq(rdmabroker_disconnect(id), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DISCONNECTED));
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_DISCONNECTED));
	EXPECT(w, "disconnected", "disconnected");

	/* A failure has its number, and what the peer's broker said its words. */
	set_policy("allow session\nallow connect\nreject accept reason \"not you\"\n");
	id = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect_wait(id, new_param(), T), -ECONNREFUSED);
	EXPECT(w, "connect", "addr-resolved", "route-resolved");
	notice = expect_notice(w, "accept");
	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_str_eq(notice->reason, "not you");
	rdmabroker_free_notice(notice);
	notice = expect_notice(w, "rejected");
	ck_assert_int_eq(notice->status, 28);
	ck_assert_str_eq(notice->reason, "not you");
	ck_assert_uint_eq(notice->session, number_of(w, 1));
	rdmabroker_free_notice(notice);
	rdmabroker_close(w);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(sessions_are_told)
{
	struct rdmabroker *w = open_watcher(NULL), *s;
	struct rdmabroker_notice *notice;

	set_policy(rules);
	s = open_session(0);
	EXPECT(w, "session");
	notice = expect_notice(w, "opened");
	ck_assert_str_eq(notice->kind, "session");
	ck_assert_uint_eq(notice->session, number_of(w, 1));
	ck_assert_uint_eq(notice->id, 0);
	ck_assert_str_eq(notice->rule, "test.rules:1");
	rdmabroker_free_notice(notice);
	rdmabroker_close(s);
	notice = expect_notice(w, "closed");
	ck_assert_ptr_null(notice->reason);
	rdmabroker_free_notice(notice);

	s = open_session(0);
	EXPECT(w, "session", "opened");
	ck_assert_int_eq(rdmabroker_kick(w, number_of(w, 1), 0), 0);
	notice = expect_notice(w, "closed");
	assert_has(notice->reason, " has ended it");
	rdmabroker_free_notice(notice);
	rdmabroker_close(s);

	rdmabroker_close(w);
}
END_TEST

static void do_enforce(void *arg)
{
	(void)arg;
	core_enforce(harness.core);
}

START_TEST(what_is_enforced_is_told)
{
	struct rdmabroker *w, *s;
	struct rdmabroker_notice *notice;

	set_policy(rules);
	s = open_session(0);
	start_listening(s, 7471);
	w = open_watcher(NULL);
	set_policy("allow session\nreject listen reason \"no more\"\n");
	in_server(do_enforce, NULL);
	notice = expect_notice(w, "listen");
	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_str_eq(notice->reason, "no more");
	ck_assert_uint_eq(notice->id, 1);
	rdmabroker_free_notice(notice);
	/* There is nothing behind it any more. */
	notice = expect_notice(w, "device-removal");
	ck_assert_int_eq(notice->status, -EACCES);
	ck_assert_int_eq(notice->local.ss_family, AF_UNSPEC);
	rdmabroker_free_notice(notice);
	expect_no_notice(w);
	rdmabroker_close(w);
	rdmabroker_close(s);
}
END_TEST

/* Of what a session with a listener, a reject and a connect gives. */
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

START_TEST(filters_hold)
{
	struct rdmabroker *w[N_FILTERS], *s;
	struct rdmabroker_notice *notice;
	struct rdmabroker_filter filter;
	struct rdmabroker_id *id;

	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = N_FILTERS + 1;
	set_policy(rules);
	for (size_t i = 0; i < N_FILTERS; i++) {
		filter = filters[i].filter;
		filter.size = sizeof(filter);
		w[i] = open_watcher(&filter);
	}
	/* Of the watchers that came later. */
	for (size_t i = 0; i < N_FILTERS; i++)
		while (rdmabroker_get_notice(w[i], &notice, 0) == 0)
			rdmabroker_free_notice(notice);
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
	/* Closed last, for who goes is told to those who stay. */
	for (size_t i = 0; i < N_FILTERS; i++)
		rdmabroker_close(w[i]);
}
END_TEST

static void apply(struct rdmabroker *w, const uint32_t *uid, uint64_t session,
		  const struct sockaddr *peer)
{
	struct rdmabroker_filter filter = {
		.size = sizeof(filter),
		.kind = "decision",
		.uid = uid,
		.session = session,
		.peer = peer,
	};

	ck_assert_int_eq(rdmabroker_watch(w, &filter), 0);
}

/* One watcher, that changes its mind. */
START_TEST(filters_are_changed)
{
	struct rdmabroker *w = open_watcher(NULL), *s = open_session(0);
	const uint32_t me = geteuid(), another = me + 1;
	struct rdmabroker_filter bad;

	EXPECT(w, "session", "opened");
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
	/* Its port is not what counts. */
	apply(w, NULL, 0, addr(9));
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	expect_no_notice(w);
	rdmabroker_destroy_id(resolve(s, 7471));
	EXPECT(w, "connect");

	/* One that is refused leaves the last one as it was. */
	bad = (struct rdmabroker_filter){ .size = sizeof(bad), .kind = "decisions" };
	expect_failure(w, rdmabroker_watch(w, &bad), EINVAL, "no kind \"decisions\"");
	bad = (struct rdmabroker_filter){ .size = sizeof(bad), .operation = "any" };
	expect_failure(w, rdmabroker_watch(w, &bad), EINVAL, "no operation \"any\"");
	bad = (struct rdmabroker_filter){ .size = sizeof(bad), .outcome = "no-rule" };
	expect_failure(w, rdmabroker_watch(w, &bad), EINVAL, "no outcome \"no-rule\"");
	bad = (struct rdmabroker_filter){ .size = 1 };
	expect_failure(w, rdmabroker_watch(w, &bad), EINVAL, "filter.size");
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	rdmabroker_destroy_id(resolve(s, 7471));
	EXPECT(w, "connect");
	expect_no_notice(w);
	rdmabroker_close(s);
	rdmabroker_close(w);
}
END_TEST

START_TEST(watch_comes_first)
{
	struct rdmabroker *w = open_session(0), *s = open_session(0);
	struct rdmabroker_notice *notice;
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	expect_failure(w, rdmabroker_get_notice(w, &notice, 0), EINVAL, "watch comes first");
	ck_assert_int_eq(rdmabroker_watch(w, NULL), 0);
	ck_assert_int_eq(rdmabroker_get_notice(w, &notice, 1), -EAGAIN);
	/* Events of its own are none of it, and notices are no events. */
	id = resolve(w, 7471);
	EXPECT(w, "connect", "addr-resolved", "route-resolved");
	rdmabroker_destroy_id(id);
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	ck_assert_int_eq(rdmabroker_get_event(w, &event, 0), -EAGAIN);
	EXPECT(w, "listen");
	/* What came before the daemon's end is told first. */
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	stop_server();
	EXPECT(w, "listen");
	while (rdmabroker_get_notice(w, &notice, T) == 0) {
		ck_assert_str_eq(notice->event, "closed");
		rdmabroker_free_notice(notice);
	}
	ck_assert_int_eq(rdmabroker_get_notice(w, &notice, 0), -ECONNRESET);
	rdmabroker_close(s);
	rdmabroker_close(w);
}
END_TEST

/* Watches, and how they end */

static void do_count_watches(void *arg)
{
	struct list *l;

	*(unsigned *)arg = 0;
	list_for_each(l, &harness.core->watches)
		++*(unsigned *)arg;
}

static void await_watches(unsigned wanted)
{
	unsigned n;

	for (int i = 0; i < T; i++) {
		in_server(do_count_watches, &n);
		if (n == wanted)
			return;
		poll(NULL, 0, 1);
	}
	ck_abort_msg("%u watches instead of %u", n, wanted);
}

START_TEST(watches_end_with_their_sessions)
{
	struct rdmabroker *w = open_watcher(NULL), *v = open_watcher(NULL), *s;

	EXPECT(w, "session", "opened");
	ck_assert_int_eq(rdmabroker_watch(w, NULL), 0);
	await_watches(2);
	rdmabroker_close(w);
	await_watches(1);
	s = open_session(0);
	EXPECT(v, "closed", "session", "opened");
	/* Whoever ends it. */
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

/* More than the socket and the queue hold is made, and not read. */
static void overflow(uint64_t limit)
{
	struct rdmabroker *w, *s;
	struct rdmabroker_notice *notice;
	struct rdmabroker_filter filter = { .size = sizeof(filter), .kind = "decision" };
	const unsigned n = 4000;
	uint64_t queued, lost = 0;
	unsigned got_n = 0;

	harness.core->account.limit_per_user[ACCOUNT_BYTES] = limit;
	set_policy(rules);
	s = open_session(0);
	w = open_watcher(&filter);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	/* What waits is charged, to no more than the half of any limit. */
	in_server(do_get_queued, &queued);
	ck_assert_uint_gt(queued, 0);
	ck_assert_uint_le(queued, limit / 2 < 32768 ? limit / 2 : 32768);
	await_counts(2, 0);

	/* What was kept comes in full, then what was not is told, though nothing else happens. */
	while (got_n + lost < n) {
		ck_assert_int_eq(rdmabroker_get_notice(w, &notice, T), 0);
		ck_assert_str_eq(notice->kind, notice->n_lost > 0 ? "lost" : "decision");
		lost += notice->n_lost;
		got_n += notice->n_lost == 0;
		rdmabroker_free_notice(notice);
	}
	ck_assert_uint_eq(got_n + lost, n);
	ck_assert_uint_gt(lost, 0);
	in_server(do_get_queued, &queued);
	ck_assert_uint_eq(queued, 0);
	printf("%u of %u notices were kept for a watcher that did not read\n", got_n, n);
	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	ck_assert_int_eq(rdmabroker_get_notice(w, &notice, T), 0);
	ck_assert_uint_eq(notice->n_lost, 0);
	rdmabroker_free_notice(notice);
	rdmabroker_close(w);
	rdmabroker_close(s);
}

START_TEST(slow_watchers_lose)
{
	overflow(UINT64_MAX);
}
END_TEST

/* Its user's other clients need what may be queued. */
START_TEST(slow_watchers_leave_room)
{
	overflow(8192);
}
END_TEST

/* A library that reads while it waits for something else does not grow for ever. */
START_TEST(library_keeps_no_more_than_so_many)
{
	struct rdmabroker_filter filter = { .size = sizeof(filter), .kind = "decision" };
	struct rdmabroker *w;
	struct rdmabroker_notice *notice;
	const unsigned n = 5000;
	unsigned got_n = 0;

	set_policy(rules);
	w = open_watcher(&filter);
	/* Its own calls have it read. */
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(try_to_listen(w, 7480), -EACCES);
	while (got_n < 4096) {
		ck_assert_int_eq(rdmabroker_get_notice(w, &notice, 0), 0);
		ck_assert_str_eq(notice->kind, "decision");
		rdmabroker_free_notice(notice);
		got_n++;
	}
	ck_assert_int_eq(rdmabroker_get_notice(w, &notice, 0), 0);
	ck_assert_str_eq(notice->kind, "lost");
	ck_assert_uint_eq(notice->n_lost, n - 4096);
	rdmabroker_free_notice(notice);
	rdmabroker_close(w);
}
END_TEST

/* rdmabrokerctl events */

struct child {
	pid_t pid;
	FILE *out;
	char err_path[96];
};

/* It runs on; what it says can be read as it comes. */
static void start_ctl(struct child *child, const char *const *argv)
{
	int fds[2], err;

	snprintf(child->err_path, sizeof(child->err_path), "%s/err", harness.dir);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	err = open(child->err_path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	ck_assert_int_ge(err, 0);
	child->pid = fork();
	ck_assert_int_ge(child->pid, 0);
	if (child->pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(err, STDERR_FILENO);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(fds[1]);
	close(err);
	child->out = fdopen(fds[0], "r");
	await_watches(1);
}

#define START(child, ...)                                                                 \
	start_ctl(child, (const char *const[]){ program, "--socket", harness.socket_path, \
						"events", __VA_ARGS__, NULL })

static const char *read_line(struct child *child)
{
	ck_assert_ptr_nonnull(fgets(got.out, sizeof(got.out), child->out));
	return got.out;
}

/* Its exit status; what it said last to its stderr is in got. */
static int end_ctl(struct child *child)
{
	int status;
	FILE *err;

	ck_assert_int_eq(waitpid(child->pid, &status, 0), child->pid);
	if (child->out)
		fclose(child->out);
	err = fopen(child->err_path, "r");
	got.err[fread(got.err, 1, sizeof(got.err) - 1, err)] = '\0';
	fclose(err);
	unlink(child->err_path);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(ctl_prints_lines)
{
	struct rdmabroker *s;
	struct child child;

	set_policy(rules);
	s = open_session(0);
	START(&child, "--operation", "listen", "--count", "3");
	assert_has(read_line(&child), "TIME ");
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	read_line(&child);
	assert_has(got.out, " listen            allowed   10.9.0.1:7471 ");
	assert_has(got.out, " test.rules:2 ");
	assert_lacks(got.out, "\033");
	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	assert_has(read_line(&child), " rejected ");
	assert_has(got.out, " not here (reject listen port 7480-7999 reason \"not here\")\n");
	ck_assert_int_eq(try_to_listen(s, 7471), 0);
	read_line(&child);
	ck_assert_ptr_null(fgets(got.out, sizeof(got.out), child.out));
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	rdmabroker_close(s);
}
END_TEST

START_TEST(ctl_prints_json)
{
	struct rdmabroker *s;
	struct child child;

	set_policy(rules);
	s = open_session(0);
	START(&child, "--json");
	got.err[0] = '\0';
	ck_assert_int_eq(try_to_listen(s, 7480), -EACCES);
	read_line(&child);
	assert_json("(d[\"kind\"], d[\"operation\"], d[\"outcome\"], d[\"event\"], d[\"lost\"]) == "
		    "(\"decision\", \"listen\", \"rejected\", None, 0)");
	assert_json("d[\"local\"] == \"10.9.0.1:7480\" and d[\"peer\"] is None");
	assert_json("(d[\"rule\"], d[\"reason\"], d[\"ps\"], d[\"id\"]) == "
		    "(\"test.rules:3\", \"not here\", \"tcp\", 1)");
	assert_json("__import__(\"re\").fullmatch(\"20[0-9-]{8}T[0-9:]{8}[.][0-9]{9}Z\", "
		    "d[\"time\"])");
	start_listening(s, 7471);
	read_line(&child);
	resolve(s, 7471);
	read_line(&child);
	read_line(&child);
	assert_json("(d[\"kind\"], d[\"event\"], d[\"operation\"], d[\"status\"]) == "
		    "(\"cm\", \"addr-resolved\", None, 0)");
	ck_assert_int_eq(kill(child.pid, SIGTERM), 0);
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	rdmabroker_close(s);
}
END_TEST

START_TEST(ctl_ends)
{
	struct rdmabroker *s = open_session(0);
	struct child child;

	START(&child, "--kind", "cm");
	read_line(&child);
	ck_assert_int_eq(kill(child.pid, SIGINT), 0);
	ck_assert_int_eq(end_ctl(&child), 0);
	await_watches(0);

	/* Whoever read it has gone: it need not come to writing for that to be seen. */
	START(&child, "--kind", "cm");
	read_line(&child);
	fclose(child.out);
	child.out = NULL;
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	await_watches(0);

	START(&child, "--kind", "cm");
	stop_server();
	ck_assert_int_eq(end_ctl(&child), 1);
	ck_assert_str_eq(got.err,
			 "rdmabrokerctl: the daemon has gone, or has ended this session\n");
	rdmabroker_close(s);
}
END_TEST

/* Interrupted while it waits for a reader that does not read. */
START_TEST(ctl_ends_in_a_full_pipe)
{
	struct rdmabroker *s = open_session(0);
	struct child child;
	int size;

	START(&child, "--json");
	size = fcntl(fileno(child.out), F_SETPIPE_SZ, 4096);
	ck_assert_int_ge(size, 4096);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(try_to_listen(s, 7471), 0);
	ck_assert_int_eq(kill(child.pid, SIGTERM), 0);
	ck_assert_int_eq(end_ctl(&child), 0);
	ck_assert_str_eq(got.err, "");
	rdmabroker_close(s);
}
END_TEST

static atomic_bool enough;

static void *keep_trying(void *arg)
{
	while (!enough)
		try_to_listen(arg, 7480);
	return NULL;
}

START_TEST(ctl_has_colours_on_a_terminal)
{
	const char *const argv[] = { program,  "--socket",  harness.socket_path,
				     "events", "--outcome", "rejected",
				     NULL };
	struct rdmabroker *s;
	pthread_t thread;

	set_policy(rules);
	s = open_session(0);
	ck_assert_int_eq(pthread_create(&thread, NULL, keep_trying, s), 0);
	ck_assert_int_eq(run_on_terminal(300, "\033[31mrejected\033[0m ", argv), 0);
	enough = true;
	pthread_join(thread, NULL);
	rdmabroker_close(s);
}
END_TEST

START_TEST(ctl_takes_no_nonsense)
{
	static const struct {
		const char *arguments[5], *words;
	} cases[] = {
		{ { "--kind", "sesion" }, "unknown kind \"sesion\", did you mean \"session\"?" },
		{ { "--operation", "any" }, "unknown operation \"any\"" },
		{ { "--outcome", "alowed" }, "did you mean \"allowed\"?" },
		{ { "--session", "0" }, "--session takes a number from 1 on, not \"0\"" },
		{ { "--count", "x" }, "--count takes a number from 1 on, not \"x\"" },
		{ { "--count", "-1" }, "--count takes a number from 1 on, not \"-1\"" },
		{ { "--peer", "host" }, "\"host\" is no IPv4 or IPv6 address" },
		{ { "--port", "65536" }, "a port is a number" },
		{ { "--kind", "cm", "--outcome", "busy" }, "are of decisions, not of --kind cm" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const *a = cases[i].arguments;

		ck_assert_int_eq(ctl("events", a[0], a[1], a[2], a[3]), 2);
		assert_has(got.err, cases[i].words);
	}
	ck_assert_int_eq(ctl("events", "--user", "nobody-at-all"), 1);
	ck_assert_int_eq(ctl("events", "more"), 2);
}
END_TEST

START_TEST(not_permitted)
{
	char command[9000];

	if (geteuid() != 0)
		return;
	snprintf(command, sizeof(command), "cp %s/rdmabrokerctl %s/librdmabroker.so.1 %s",
		 build_dir(), build_dir(), harness.dir);
	ck_assert_int_eq(system(command), 0);
	snprintf(program, sizeof(program), "%s/rdmabrokerctl", harness.dir);
	setenv("LD_LIBRARY_PATH", harness.dir, 1);
	ck_assert_int_eq(chmod(harness.dir, 0755), 0);
	ck_assert_int_eq(chmod(harness.socket_path, 0666), 0);
	run_as = 65534;
	set_policy("allow session\nreject admin\n");
	ck_assert_int_eq(ctl("events"), 1);
	ck_assert_str_eq(got.out, "");
	assert_has(got.err, "only root, the broker's own user");
	assert_has(got.err, "try again as root");
	unlink(program);
	snprintf(program, sizeof(program), "%s/librdmabroker.so.1", harness.dir);
	unlink(program);
}
END_TEST

UNIT_MAIN("watch", set_up_ctl, tear_down, decisions_are_told, cm_events_are_told, sessions_are_told,
	  what_is_enforced_is_told, filters_hold, filters_are_changed, watch_comes_first,
	  watches_end_with_their_sessions, slow_watchers_lose, slow_watchers_leave_room,
	  library_keeps_no_more_than_so_many, ctl_prints_lines, ctl_prints_json, ctl_ends,
	  ctl_ends_in_a_full_pipe, ctl_has_colours_on_a_terminal, ctl_takes_no_nonsense,
	  not_permitted)

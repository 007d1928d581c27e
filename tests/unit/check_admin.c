/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/object/session.h"
#include "tests/unit/harness.h"
#include "util/closer.h"

/* Limits, quotas, listings and reloads: what the calls for admins return, and the effect on clients. */

/* Each connection gets its own QP number, because timewait delays the reuse of a QP number. */
static const struct rdmabroker_conn_param *new_param(void)
{
	static _Thread_local struct rdmabroker_conn_param param;
	static atomic_uint n = 16;

	param = (struct rdmabroker_conn_param){ .size = sizeof(struct rdmabroker_conn_param),
						.qp_num = ++n };
	return &param;
}

/* A server: a thread that accepts all connection requests in a session of its own. */
struct acceptor {
	struct rdmabroker *session;
	pthread_t thread;
	uint16_t port;
};

static void *accept_all(void *arg)
{
	struct acceptor *acceptor = arg;
	struct rdmabroker_event *event;

	while (rdmabroker_get_event(acceptor->session, PATIENCE_TEST_S * 1000, &event) == 0) {
		if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST)
			rdmabroker_accept(event->id, new_param());
		if (event->type == RDMABROKER_EVENT_DISCONNECTED)
			rdmabroker_destroy_id(event->id);
		rdmabroker_free_event(event);
	}
	return NULL;
}

static void start_acceptor(struct acceptor *acceptor, uint16_t port)
{
	acceptor->session = open_session(0);
	acceptor->port = port;
	start_listening(acceptor->session, port);
	ck_assert_int_eq(pthread_create(&acceptor->thread, NULL, accept_all, acceptor), 0);
}

static void do_end_sessions_but_first(void *arg)
{
	struct list *l;

	list_for_each(l, &harness.core->sessions) {
		struct session *session = container_of(l, struct session, link);

		session->ops->end(session->userdata, "the test is over");
	}
}

static void stop_acceptor(struct acceptor *acceptor)
{
	in_server(do_end_sessions_but_first, NULL);
	pthread_join(acceptor->thread, NULL);
	rdmabroker_close(acceptor->session);
}

static int connect_once(struct rdmabroker *session, uint16_t port, int timeout_ms)
{
	struct rdmabroker_id *id = resolve(session, port);
	int r = rdmabroker_connect_wait(id, new_param(), timeout_ms);

	if (r == 0)
		r = rdmabroker_establish(id);
	if (r == 0)
		r = rdmabroker_disconnect_wait(id, T);
	rdmabroker_destroy_id(id);
	return r;
}

static const struct rdmabroker_rule *find_rule(const struct rdmabroker_rules *rules,
					       const char *text)
{
	for (size_t i = 0; i < rules->n; i++)
		if (strcmp(rules->list[i].text, text) == 0)
			return &rules->list[i];
	ck_abort_msg("there is no rule '%s'", text);
}

/* Connects until a rate is reached, which a slow machine does not reach at once. Returns the failure, and its id. */
static int connect_until_refused(struct rdmabroker *session, struct rdmabroker_id **ret)
{
	int64_t end = patience_end();

	do {
		/* The route is resolved first, so that little time passes between the two connects. */
		struct rdmabroker_id *id = resolve(session, 7471);
		int r;

		connect_once(session, 7471, T);
		r = rdmabroker_connect_wait(id, new_param(), T);
		if (r != 0) {
			*ret = id;
			return r;
		}
		rdmabroker_disconnect_wait(id, T);
		rdmabroker_destroy_id(id);
	} while (patience_now_ms() < end);
	WAITED("a busy connect");
}

START_TEST(busy_at_the_peers_broker)
{
	struct rdmabroker *c = open_session(0);
	const struct rdmabroker_event *reject;
	struct acceptor acceptor;
	struct rdmabroker_id *id;
	int r;

	set_policy("allow session\nallow listen\nallow connect\n"
		   "allow accept port 7471 rate 1/s burst 1\n");
	start_acceptor(&acceptor, 7471);
	expect_failure(connect_until_refused(c, &id), ECONNREFUSED, "busy");
	reject = rdmabroker_get_reject_event(id);
	ck_assert_int_eq(reject->rejected_by, RDMABROKER_REJECTED_BY_POLICY);
	ck_assert_int_eq(reject->reject_code, RDMABROKER_REJECT_BUSY);
	ck_assert_uint_ge(reject->retry_after_ms, 1);
	ck_assert_uint_le(reject->retry_after_ms, 1000);
	rdmabroker_close(c);

	/* With RDMABROKER_RETRY_BUSY, the library repeats a busy connect if the timeout permits. */
	set_policy("allow session\nallow listen\nallow connect\n"
		   "allow accept port 7471 rate 5/s burst 1\n");
	c = open_session(RDMABROKER_RETRY_BUSY);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(connect_once(c, 7471, T), 0);
	set_policy("allow session\nallow listen\nallow connect\n"
		   "allow accept port 7471 rate 1/s burst 1\n");
	/* A slow machine can take so long that there is no need to wait, or no time to connect at all. */
	AWAIT((r = connect_once(c, 7471, 500)) == -ECONNREFUSED,
	      "a busy connect that is not repeated, and not %d", r);
	rdmabroker_close(c);
	stop_acceptor(&acceptor);
}
END_TEST

START_TEST(busy_at_the_clients_broker)
{
	struct rdmabroker *c = open_session(0);
	const struct rdmabroker_failure *failure;
	struct acceptor acceptor;
	struct rdmabroker_id *id;

	set_policy("allow session\nallow listen\nallow accept\nallow connect rate 1/s burst 1\n");
	start_acceptor(&acceptor, 7471);
	expect_failure(connect_until_refused(c, &id), EBUSY, "rate 1/s is reached");
	failure = rdmabroker_last_failure();
	ck_assert_str_eq(failure->rule, "test.rules:4");
	ck_assert_uint_ge(failure->retry_after_ms, 1);
	/* The failed call has not changed the id, so the connect can be repeated. */
	poll(NULL, 0, (int)failure->retry_after_ms + 1);
	ck_assert_ptr_null(rdmabroker_get_response_event(id));
	ck_assert_int_eq(rdmabroker_connect_wait(id, new_param(), T), 0);
	ck_assert_ptr_eq(rdmabroker_get_response_event(id)->id, id);
	ck_assert_uint_gt(rdmabroker_get_response_event(id)->conn->qp_num, 16);
	rdmabroker_close(c);

	c = open_session(RDMABROKER_RETRY_BUSY);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(connect_once(c, 7471, T), 0);
	rdmabroker_close(c);
	stop_acceptor(&acceptor);
}
END_TEST

/* The same, where the failure of a call is an event. */
START_TEST(busy_by_event)
{
	struct rdmabroker *c = open_session(RDMABROKER_FAIL_BY_EVENT);
	struct rdmabroker_event *event;
	struct rdmabroker_id *first, *second;
	struct acceptor acceptor;

	set_policy("allow session\nallow listen\nallow accept\nallow connect max 1\n");
	start_acceptor(&acceptor, 7471);
	first = resolve(c, 7471);
	second = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect_wait(first, new_param(), T), 0);
	ck_assert_int_eq(rdmabroker_connect(second, new_param()), 0);
	event = expect(c, RDMABROKER_EVENT_DONE);
	ck_assert_str_eq(event->call, "connect");
	ck_assert_int_eq(event->status, -EBUSY);
	ck_assert_uint_ge(event->retry_after_ms, 1);
	rdmabroker_free_event(event);
	rdmabroker_close(c);
	stop_acceptor(&acceptor);
}
END_TEST

START_TEST(objects_of_every_kind_are_limited)
{
	struct rdmabroker *s = open_session(0), *t;
	struct rdmabroker_id *first, *second;
	struct rdmabroker_status *status;
	struct ibv_context *context;

	be_client(s);
	set_policy(
		"allow session max 1\nallow device max 1\nallow listen max 1\nallow connect max 1\n"
		"allow accept\nallow join max 1\n");
	/* Session S is older than these rules, and does not count towards "allow session max 1". */
	t = open_session(0);
	first = start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_create_id(t, RDMABROKER_PS_TCP, NULL, &second), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(second, addr(7472)), 0);
	expect_failure(rdmabroker_listen(second, 0), EBUSY, "max 1 is reached");
	rdmabroker_destroy_id(first);
	ck_assert_int_eq(rdmabroker_listen(second, 0), 0);

	first = resolve(s, 7472);
	ck_assert_int_eq(rdmabroker_connect(first, new_param()), 0);
	second = resolve(t, 7472);
	expect_failure(rdmabroker_connect(second, new_param()), EBUSY, "max 1 is reached");
	rdmabroker_destroy_id(first);
	/* Requests are processed in order, so destroy_id was processed before get_status. */
	ck_assert_int_eq(rdmabroker_get_status(s, &status), 0);
	rdmabroker_free(status);
	ck_assert_int_eq(rdmabroker_connect(second, new_param()), 0);
	/* The call gets a lease, which is charged. Then it fails, because there is no device node. */
	ck_assert_int_lt(rdmabroker_open_device(s, "fake0", &context), 0);
	rdmabroker_close(t);
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

static void count_closing(void *arg)
{
	*(unsigned *)arg = closer_n_waiting(harness.core->closer);
}

/*
 * Waits until the broker has closed the descriptor that proves a client's identity, because it is charged until then.
 */
static void await_closed(void)
{
	unsigned n;

	AWAIT((in_server(count_closing, &n), n == 0), "%u descriptors to be closed", n);
}

START_TEST(quotas)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *ids[3];
	int fds[8], n = 0;

	await_closed();
	harness.core->account.limit_per_user[ACCOUNT_LISTENERS] = 1;
	/* The limit suffices for a session (2), two exports, and one descriptor in flight to the client. */
	harness.core->account.limit_per_user[ACCOUNT_FDS] = 5;
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &ids[i]), 0);
		ck_assert_int_eq(rdmabroker_bind_addr(ids[i], addr((uint16_t)(7471 + i))), 0);
	}
	ck_assert_int_eq(rdmabroker_listen(ids[0], 0), 0);
	expect_failure(rdmabroker_listen(ids[1], 0), EDQUOT, "ListenersPerUser=");
	ck_assert_int_eq(rdmabroker_export_id(ids[0], &fds[n++]), 0);
	ck_assert_int_eq(rdmabroker_export_id(ids[1], &fds[n++]), 0);
	expect_failure(rdmabroker_export_id(ids[2], &fds[n]), EDQUOT, "DescriptorsPerUser=");
	rdmabroker_destroy_id(ids[0]);
	ck_assert_int_eq(rdmabroker_listen(ids[2], 0), 0);
	while (n > 0)
		close(fds[--n]);
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

static void write_rules(const char *text)
{
	FILE *f = fopen(harness.rules_path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(reload_over_the_wire)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_reload_result *result;
	struct rdmabroker_rules *rules;

	write_rules("allow session\nallow connect user 0-\nalow any\n");
	ck_assert_int_eq(rdmabroker_reload(s, false, &result), 0);
	ck_assert_int_eq(result->ok, 0);
	ck_assert_uint_eq(result->n_complaints, 2);
	ck_assert_ptr_nonnull(strstr(result->complaints[0], "test.rules:2:"));
	ck_assert_ptr_nonnull(strstr(result->complaints[1], "did you mean 'allow'?"));
	ck_assert_uint_eq(result->n_rules, 1);
	rdmabroker_free(result);

	write_rules("allow session # all\nallow connect \\\n  rate 5/s\n");
	ck_assert_int_eq(rdmabroker_reload(s, false, &result), 0);
	ck_assert_int_eq(result->ok, 1);
	ck_assert_uint_eq(result->n_complaints, 0);
	ck_assert_uint_eq(result->n_rules, 2);
	rdmabroker_free(result);

	ck_assert_int_eq(rdmabroker_get_rules(s, &rules), 0);
	ck_assert_uint_eq(rules->n, 3);
	ck_assert_str_eq(rules->list[1].text, "allow connect rate 5/s");
	ck_assert_uint_eq(rules->list[1].line, 2);
	ck_assert_ptr_null(rules->list[2].file);
	rdmabroker_free(rules);
	rdmabroker_close(s);
}
END_TEST

START_TEST(many_rules_are_listed)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_rules *rules;
	char text[100 * 600] = "", line[32];

	/* Each rule is too long to be reported whole, and the rules need more than one packet. */
	for (int i = 0; i < 90; i++) {
		snprintf(line, sizeof(line), "reject listen port %d", i + 1);
		strcat(text, line);
		for (int k = 1; k < 60; k++) {
			snprintf(line, sizeof(line), ",%d", 1000 + k * 100 + i);
			strcat(text, line);
		}
		strcat(text, "\n");
	}
	strcat(text, "allow any\n");
	set_policy(text);
	ck_assert_int_eq(rdmabroker_get_rules(s, &rules), 0);
	ck_assert_uint_eq(rules->n, 92);
	for (unsigned i = 0; i < 91; i++)
		ck_assert_uint_eq(rules->list[i].line, i + 1);
	ck_assert_ptr_null(rules->list[91].file);
	rdmabroker_free(rules);
	rdmabroker_close(s);
}
END_TEST

static uint64_t count_busy(struct rdmabroker *s, const char *text)
{
	struct rdmabroker_rules *rules;
	uint64_t n;

	ck_assert_int_eq(rdmabroker_get_rules(s, &rules), 0);
	n = find_rule(rules, text)->n_busy;
	rdmabroker_free(rules);
	return n;
}

START_TEST(rules_are_counted)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_rules *rules;
	unsigned n = 0;
	struct rdmabroker_id *id;
	struct acceptor acceptor;

	set_policy("allow session\nallow listen port 7471\nallow connect\n"
		   "allow accept rate 1/s burst 2\n");
	start_acceptor(&acceptor, 7471);
	/* A slow machine can make more than three. */
	AWAIT((connect_once(c, 7471, T), ++n, count_busy(s, "allow accept rate 1/s burst 2") > 0),
	      "a busy accept");
	ck_assert_uint_ge(n, 3);
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(9000)), 0);
	expect_failure(rdmabroker_listen(id, 0), EACCES, "no-rule");
	ck_assert_int_eq(rdmabroker_get_rules(s, &rules), 0);
	ck_assert_uint_eq(find_rule(rules, "allow connect")->n_allowed, n);
	ck_assert_uint_eq(find_rule(rules, "allow listen port 7471")->n_now, 1);
	ck_assert_uint_eq(find_rule(rules, "allow accept rate 1/s burst 2")->n_allowed, n);
	ck_assert_uint_eq(find_rule(rules, "allow accept rate 1/s burst 2")->n_busy, 1);
	ck_assert_uint_eq(rules->list[rules->n - 1].n_rejected, 1);
	rdmabroker_free(rules);
	rdmabroker_close(c);
	rdmabroker_close(s);
	stop_acceptor(&acceptor);
}
END_TEST

START_TEST(explain)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_explanation *e;
	uint32_t gids[] = { 100, 200 };
	struct rdmabroker_question q = { .operation = "connect", .who = { .uid = 1000 } };

	set_policy("allow session\n"
		   "allow connect group 200 peer 10.9.0.0/24 tos-max 32 rate-per-user 5/s\n"
		   "reject connect user 1001 reason \"not you\"\n"
		   "allow listen unit \"nvmf*\" backlog 7\n"
		   "allow any user 1002 retry-count 3 qp reserved max 5\n");
	q.who.gids = gids;
	q.who.n_gids = 2;
	ck_assert_int_eq(rdmabroker_explain(s, &q, &e), 0);
	ck_assert_int_eq(e->allow, 0);
	ck_assert_str_eq(e->reason, "no-rule");
	ck_assert_ptr_null(e->rule);
	ck_assert_uint_eq(e->depends->line, 2);
	rdmabroker_free(e);

	q.peer = addr(1);
	ck_assert_int_eq(rdmabroker_explain(s, &q, &e), 0);
	ck_assert_int_eq(e->allow, 1);
	ck_assert_uint_eq(e->rule->line, 2);
	ck_assert_ptr_null(e->depends);
	ck_assert_uint_eq(e->n_effects, 3);
	ck_assert_str_eq(e->effects[0], "tos-max 32");
	ck_assert_str_eq(e->effects[1], "reuseaddr no");
	ck_assert_str_eq(e->effects[2], "rate-per-user 5/s burst 5");
	rdmabroker_free(e);

	q.who.n_gids = 0;
	q.who.uid = 1002;
	ck_assert_int_eq(rdmabroker_explain(s, &q, &e), 0);
	ck_assert_uint_eq(e->n_effects, 4);
	ck_assert_str_eq(e->effects[0], "retry-count 3");
	ck_assert_str_eq(e->effects[1], "qp reserved");
	ck_assert_str_eq(e->effects[2], "reuseaddr no");
	rdmabroker_free(e);
	q.operation = "accept";
	ck_assert_int_eq(rdmabroker_explain(s, &q, &e), 0);
	ck_assert_uint_eq(e->n_effects, 3);
	ck_assert_str_eq(e->effects[1], "qp reserved");
	rdmabroker_free(e);
	q.operation = "device";
	ck_assert_int_eq(rdmabroker_explain(s, &q, &e), 0);
	ck_assert_uint_eq(e->n_effects, 1);
	ck_assert_str_eq(e->effects[0], "max 5");
	rdmabroker_free(e);

	q.operation = "connect";
	q.who.uid = 1001;
	ck_assert_int_eq(rdmabroker_explain(s, &q, &e), 0);
	ck_assert_str_eq(e->reason, "not you");
	ck_assert_uint_eq(e->rule->n_rejected, 0);
	rdmabroker_free(e);

	q.operation = "listen";
	q.who.unit = "nvmf-target.service";
	q.peer = NULL;
	ck_assert_int_eq(rdmabroker_explain(s, &q, &e), 0);
	ck_assert_int_eq(e->allow, 1);
	ck_assert_str_eq(e->effects[0], "backlog 7");
	rdmabroker_free(e);

	q.operation = NULL;
	expect_failure(rdmabroker_explain(s, &q, &e), EINVAL, "unknown operation");
	q.operation = "any";
	expect_failure(rdmabroker_explain(s, &q, &e), EINVAL, "unknown operation");
	rdmabroker_close(s);
}
END_TEST

START_TEST(private_data_decides)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param p = {
		.size = sizeof(p), .qp_num = 17, .private_data = "NVMe\x01", .private_data_len = 5
	};
	struct rdmabroker_id *id;

	set_policy("allow session\nallow listen\nallow connect\n"
		   "reject accept data 0x4e564d6502 reason \"version 2\"\n"
		   "allow accept data \"NVMe\"\n");
	start_listening(s, 7471);
	id = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(id, &p), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_CONNECT_REQUEST));
	rdmabroker_destroy_id(id);
	p.private_data = "NVMe\x02";
	id = resolve(c, 7471);
	expect_failure(rdmabroker_connect_wait(id, &p, T), ECONNREFUSED, "version 2");
	rdmabroker_destroy_id(id);
	p.private_data = "NVM";
	p.private_data_len = 3;
	id = resolve(c, 7471);
	expect_failure(rdmabroker_connect_wait(id, &p, T), ECONNREFUSED, "no-rule");
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

struct load {
	pthread_t thread;
	int n_connected, n_failed;
};

static void *connect_for_ever(void *arg)
{
	struct load *load = arg;
	struct rdmabroker *session = open_session(0);

	for (int i = 0; i < 300; i++) {
		if (connect_once(session, 7471, T) == 0)
			load->n_connected++;
		else
			load->n_failed++;
	}
	rdmabroker_close(session);
	return NULL;
}

/* A reload to a policy that allows the same must neither end connections nor leak memory. */
START_TEST(a_thousand_reloads_under_load)
{
	struct rdmabroker *admin = open_session(0);
	struct rdmabroker_reload_result *result;
	struct load loads[2] = { 0 };
	struct rdmabroker_rules *rules;
	struct acceptor acceptor;

	write_rules("allow any max 1000\n");
	ck_assert_int_eq(rdmabroker_reload(admin, false, &result), 0);
	rdmabroker_free(result);
	start_acceptor(&acceptor, 7471);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(
			pthread_create(&loads[i].thread, NULL, connect_for_ever, &loads[i]), 0);
	for (int i = 0; i < 1000; i++) {
		write_rules(i % 2 ? "allow any max 1000\n" :
				    "reject connect port 1\nallow any max 1000\n");
		ck_assert_int_eq(rdmabroker_reload(admin, false, &result), 0);
		ck_assert_int_eq(result->ok, 1);
		rdmabroker_free(result);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(loads[i].thread, NULL);
		ck_assert_int_eq(loads[i].n_failed, 0);
		ck_assert_int_eq(loads[i].n_connected, 300);
	}
	await_counts(2, 1);
	ck_assert_int_eq(rdmabroker_get_rules(admin, &rules), 0);
	/* Only the acceptor's session and its listener still count towards the rule. */
	ck_assert_uint_eq(find_rule(rules, "allow any max 1000")->n_now, 2);
	rdmabroker_free(rules);
	rdmabroker_close(admin);
	stop_acceptor(&acceptor);
	await_counts(0, 0);
}
END_TEST

struct press {
	pthread_t thread;
	unsigned flags;
	uint16_t port;
	unsigned n_connected, n_busy, n_other;
};

#define PRESS_RATE \
	2 /* connects per second that the rule of the test admits; a slow machine makes more */
#define PRESS_BURST 5 /* the rule's burst */
#define PRESS_CLIENTS 7 /* one that retries, and one of another service */
#define PRESS_MS 2000

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Several threads run this function, and try to connect more often than the rule admits. */
static void *press(void *arg)
{
	struct press *p = arg;
	struct rdmabroker *session = open_session(p->flags);
	const struct rdmabroker_event *reject;
	uint64_t begin = now_ms();

	while (now_ms() - begin < PRESS_MS) {
		struct rdmabroker_id *id = resolve(session, p->port);
		int r;

		r = rdmabroker_connect_wait(id, new_param(), T);
		reject = r == -ECONNREFUSED ? rdmabroker_get_reject_event(id) : NULL;
		if (r == 0 && rdmabroker_establish(id) == 0)
			p->n_connected++;
		else if (reject && reject->reject_code == RDMABROKER_REJECT_BUSY)
			p->n_busy++;
		else
			p->n_other++;
		rdmabroker_destroy_id(id);
	}
	rdmabroker_close(session);
	return NULL;
}

/* Those who retry get through, and a service without a rate is not refused. */
START_TEST(a_rate_under_overload)
{
	struct press presses[PRESS_CLIENTS] = { 0 };
	unsigned n_connected = 0, n_busy = 0;
	uint64_t begin, took;
	struct acceptor acceptor, other;

	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = PRESS_CLIENTS + 2;
	harness.core->settings.max_ids_per_session = 100;
	set_policy("allow session\nallow listen\nallow connect\n"
		   "allow accept port 7471 rate 2/s burst 5\nallow accept port 7472\n");
	start_acceptor(&acceptor, 7471);
	start_acceptor(&other, 7472);
	begin = now_ms();
	for (int i = 0; i < PRESS_CLIENTS; i++) {
		presses[i].port = i == 1 ? 7472 : 7471;
		presses[i].flags = i == 0 ? RDMABROKER_RETRY_BUSY : 0;
		ck_assert_int_eq(pthread_create(&presses[i].thread, NULL, press, &presses[i]), 0);
	}
	for (int i = 0; i < PRESS_CLIENTS; i++) {
		pthread_join(presses[i].thread, NULL);
		n_connected += i == 1 ? 0 : presses[i].n_connected;
		n_busy += presses[i].n_busy;
		ck_assert_uint_eq(presses[i].n_other, 0);
	}
	ck_assert_uint_gt(presses[0].n_connected, 0);
	ck_assert_uint_eq(presses[0].n_busy, 0);
	ck_assert_uint_gt(presses[1].n_connected, 0);
	ck_assert_uint_eq(presses[1].n_busy, 0);
	took = now_ms() - begin;
	printf("# many times too many: %u connected in %u ms, %u busy\n", n_connected,
	       (unsigned)took, n_busy);
	ck_assert_uint_ge(n_connected, PRESS_BURST);
	ck_assert_uint_le(n_connected, PRESS_BURST + 1 + took * PRESS_RATE / 1000);
	ck_assert_uint_gt(n_busy, 0);
	stop_acceptor(&acceptor);
	stop_acceptor(&other);
}
END_TEST

UNIT_MAIN("admin", set_up, tear_down, busy_at_the_peers_broker, busy_at_the_clients_broker,
	  busy_by_event, objects_of_every_kind_are_limited, quotas, reload_over_the_wire,
	  many_rules_are_listed, rules_are_counted, explain, private_data_decides,
	  a_thousand_reloads_under_load, a_rate_under_overload)

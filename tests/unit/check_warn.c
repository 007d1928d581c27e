/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/admin.h"
#include "core/admit/refused.h"
#include "core/object/core.h"
#include "tests/unit/harness.h"

#define NOBODY 65534

/* Warn rules admit what the kernel alone would have admitted, and tell of it. */

static const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

static struct rdmabroker_notice *next_decision(struct rdmabroker *watcher, const char *operation)
{
	struct rdmabroker_notice *notice;

	AWAIT_INPUT(rdmabroker_get_fd(watcher), "the notice of %s", operation);
	ck_assert_int_eq(rdmabroker_get_notice(watcher, T, &notice), 0);
	ck_assert_str_eq(notice->operation, operation);
	return notice;
}

static void assert_warned(struct rdmabroker *watcher, const char *operation, const char *rule)
{
	struct rdmabroker_notice *notice = next_decision(watcher, operation);

	ck_assert_str_eq(notice->outcome, "warned");
	ck_assert_str_eq(notice->rule_text, rule);
	ck_assert_str_eq(notice->reason, "no rule yet");
	rdmabroker_free(notice);
}

static void refuse_listening(struct rdmabroker *session, uint16_t port, int error, const char *why)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(port)), 0);
	expect_failure(rdmabroker_listen(id, 1), error, why);
}

#define WARN "warn any reason \"no rule yet\""

START_TEST(what_is_admitted_is_told)
{
	struct rdmabroker_filter filter = { NULL };
	struct rdmabroker *watcher = open_session(0), *s, *c;
	struct rdmabroker_event *event;
	struct rdmabroker_status *status;
	struct rdmabroker_rules *rules;

	set_policy("allow session\nreject listen port 7999\n" WARN "\n");
	s = open_session(0);
	c = open_session(0);
	be_client(s);
	be_client(c);
	filter.kind = "decision";
	ck_assert_int_eq(rdmabroker_watch(watcher, &filter), 0);
	start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_connect(resolve(c, 7471), &param), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_accept(event->id, &param), 0);
	rdmabroker_free_event(event);

	assert_warned(watcher, "listen", WARN);
	assert_warned(watcher, "connect", WARN);
	assert_warned(watcher, "accept", WARN);

	ck_assert_int_eq(rdmabroker_get_rules(watcher, &rules), 0);
	ck_assert_uint_eq(rules->n, 4);
	ck_assert_uint_ge(rules->list[0].n_allowed, 2);
	ck_assert_uint_eq(rules->list[0].n_warned, 0);
	ck_assert_uint_eq(rules->list[2].n_warned, 3);
	ck_assert_uint_eq(rules->list[2].n_allowed, 0);
	ck_assert_uint_gt(rules->list[2].n_now, 0);
	rdmabroker_free(rules);
	ck_assert_int_eq(rdmabroker_get_status(watcher, &status), 0);
	ck_assert_uint_eq(status->n_warn_rules, 1);
	ck_assert_uint_eq(status->n_warned, 3);
	ck_assert_uint_gt(status->n_warnings, 0);
	ck_assert_ptr_nonnull(strstr(status->warnings[0], "1 of the rules only warns"));
	rdmabroker_free(status);

	/* A rule that rejects before it goes on rejecting. */
	refuse_listening(s, 7999, EACCES, "listen");
	rdmabroker_close(c);
	rdmabroker_close(s);
	rdmabroker_close(watcher);
}
END_TEST

START_TEST(explained)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_question question = { NULL };
	struct rdmabroker_explanation *e;

	set_policy("allow session\n" WARN "\n");
	question.operation = "connect";
	question.who.uid = 5;
	ck_assert_int_eq(rdmabroker_explain(s, &question, &e), 0);
	ck_assert(e->allow);
	ck_assert(e->warns);
	ck_assert_str_eq(e->reason, "no rule yet");
	/* What the kernel would have admitted: no QP is looked for, and REUSEADDR is the client's. */
	ck_assert_uint_eq(e->n_effects, 2);
	ck_assert_str_eq(e->effects[0], "qp reserved");
	ck_assert_str_eq(e->effects[1], "reuseaddr client");
	rdmabroker_free(e);
	question.operation = "session";
	ck_assert_int_eq(rdmabroker_explain(s, &question, &e), 0);
	ck_assert(e->allow);
	ck_assert(!e->warns);
	ck_assert_ptr_null(e->reason);
	rdmabroker_free(e);
	rdmabroker_close(s);
}
END_TEST

/* A limit of a warn rule is one, and the rule can ask for more than the kernel does. */
START_TEST(limits_and_settings)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_question question = { NULL };
	struct rdmabroker_explanation *e;

	set_policy("allow session\nwarn listen max 1\nwarn connect qp own reuseaddr no\n");
	start_listening(s, 7471);
	refuse_listening(s, 7472, EBUSY, "max 1");
	question.operation = "connect";
	ck_assert_int_eq(rdmabroker_explain(s, &question, &e), 0);
	ck_assert_uint_eq(e->n_effects, 1);
	ck_assert_str_eq(e->effects[0], "reuseaddr no");
	rdmabroker_free(e);
	rdmabroker_close(s);
}
END_TEST

static void set_may_bind(bool may)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	ck_assert_int_eq(syscall(SYS_capget, &header, data), 0);
	data[0].effective &= ~(1u << CAP_NET_BIND_SERVICE);
	data[0].effective |= may ? 1u << CAP_NET_BIND_SERVICE : 0;
	ck_assert_int_eq(syscall(SYS_capset, &header, data), 0);
}

static int bind_to(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id;
	int r;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	r = rdmabroker_bind_addr(id, addr(port));
	rdmabroker_destroy_id(id);
	return r;
}

/*
 * Another user's process that gets the capability after it has connected is what the daemon sees when a client executes a
 * set-user-ID program, while a child of the client uses the session. A service that has the capability from its beginning
 * cannot be distinguished from that.
 */
static void bind_as_user(bool has_it_before)
{
	struct rdmabroker *s;

	ck_assert_int_eq(prctl(PR_SET_KEEPCAPS, 1), 0);
	ck_assert_int_eq(setresuid(NOBODY, NOBODY, NOBODY), 0);
	set_may_bind(has_it_before);
	s = open_session(0);
	set_may_bind(true);
	expect_failure(bind_to(s, 80), EACCES, "a port below 1024");
	ck_assert_int_eq(bind_to(s, 81), 0);
	rdmabroker_close(s);
}

START_TEST(capability_of_a_user)
{
	if (geteuid() != 0) {
		fprintf(stderr,
			"Not run: only root can give a capability to another user's process.\n");
		return;
	}
	set_policy("allow session\nwarn listen port 81\nwarn any\n");
	ck_assert_int_eq(chmod(harness.dir, 0755), 0);
	ck_assert_int_eq(chmod(harness.socket_path, 0666), 0);
	for (int i = 0; i < 2; i++) {
		int status;
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			bind_as_user(i > 0);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
}
END_TEST

/* Root's capability is looked at when it is used, not when the session begins. */
START_TEST(ports_below_1024)
{
	struct rdmabroker *s = open_session(0);

	set_policy("allow session\nwarn listen port 81\nwarn any\n");
	if (geteuid() != 0) {
		expect_failure(bind_to(s, 80), EACCES, "a port below 1024");
		ck_assert_int_eq(bind_to(s, 81), 0);
		rdmabroker_close(s);
		return;
	}
	ck_assert_int_eq(bind_to(s, 80), 0);
	set_may_bind(false);
	expect_failure(bind_to(s, 80), EACCES, "a port below 1024");
	ck_assert_int_eq(bind_to(s, 81), 0);
	ck_assert_int_eq(bind_to(s, 1024), 0);
	set_may_bind(true);
	ck_assert_int_eq(bind_to(s, 80), 0);
	/* An allow rule has to name the port, whatever the client may do. */
	set_policy("allow any\n");
	expect_failure(bind_to(s, 80), EACCES, "a port below 1024");
	rdmabroker_close(s);
}
END_TEST

static const struct rdmabroker_refusal *find_refusal(const struct rdmabroker_refusals *refusals,
						     const char *operation)
{
	for (size_t i = 0; i < refusals->n; i++)
		if (strcmp(refusals->list[i].operation, operation) == 0)
			return &refusals->list[i];
	ck_abort_msg("nothing of %s", operation);
}

/* Who only observes and administers needs no rule: nothing is warned about, kept, or refused by a dry run. */
START_TEST(looking_is_not_warned_about)
{
	struct rdmabroker *admin, *late;
	struct rdmabroker_status *status;
	struct rdmabroker_refusals *refusals;
	struct rdmabroker_id *id;

	set_policy(WARN "\n");
	admin = open_session(0);
	late = open_session(0);
	ck_assert_int_eq(rdmabroker_get_refusals(admin, &refusals), 0);
	ck_assert_uint_eq(refusals->n, 0);
	rdmabroker_free(refusals);
	ck_assert_int_eq(rdmabroker_get_status(admin, &status), 0);
	ck_assert_uint_eq(status->n_warned, 0);
	rdmabroker_free(status);

	be_client(late);
	ck_assert_int_eq(rdmabroker_get_refusals(admin, &refusals), 0);
	ck_assert_uint_eq(refusals->n, 1);
	ck_assert_str_eq(refusals->list[0].operation, "session");
	ck_assert_str_eq(refusals->list[0].outcome, "warned");
	rdmabroker_free(refusals);

	set_policy("reject session\n");
	ck_assert_int_eq(rdmabroker_create_id(admin, RDMABROKER_PS_TCP, NULL, &id), 0);
	expect_failure(rdmabroker_bind_addr(id, addr(0)), EACCES, "may not use the broker");
	rdmabroker_close(late);
	rdmabroker_close(admin);
}
END_TEST

/* What warn rules have allowed is kept, in words that a rule could match. */
START_TEST(kept)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_refusals *refusals;
	const struct rdmabroker_refusal *one;
	struct rdmabroker_id *listener;
	struct rdmabroker_event *event;

	set_policy("allow session\nallow connect qp reserved\n" WARN "\n");
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &listener), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(listener, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_listen(listener, 1), 0);
	ck_assert_int_eq(
		rdmabroker_connect(resolve(c, rdmabroker_get_local_port(listener)), &param), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	rdmabroker_free_event(event);
	set_policy("allow session\nallow listen max 1\n");
	start_listening(s, 7473);
	refuse_listening(s, 7472, EBUSY, "max 1");

	ck_assert_int_eq(rdmabroker_get_refusals(s, &refusals), 0);
	one = find_refusal(refusals, "listen");
	ck_assert_str_eq(one->outcome, "warned");
	ck_assert(one->any_port);
	ck_assert_uint_eq(one->port, 0);
	ck_assert_uint_eq(one->who.uid, geteuid());
	ck_assert_str_eq(one->name, "check_warn");
	ck_assert_str_eq(one->rule, "test.rules:3");
	ck_assert_int_eq(one->ps, RDMABROKER_PS_TCP);
	one = find_refusal(refusals, "accept");
	ck_assert_str_eq(one->outcome, "warned");
	ck_assert(one->any_port);
	ck_assert_int_eq(one->peer.ss_family, AF_INET);
	ck_assert_uint_eq(one->peer_prefix, 32);
	ck_assert_str_eq(one->device, "fake0");
	ck_assert_uint_eq(refusals->n, 3);
	ck_assert_str_eq(refusals->list[2].outcome, "busy");
	ck_assert_uint_eq(refusals->list[2].port, 7472);
	ck_assert(!refusals->list[2].any_port);
	rdmabroker_free(refusals);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

static bool has_outcome(struct rdmabroker *session, const char *outcome, const char *rule)
{
	struct rdmabroker_refusals *refusals;
	bool found = false;

	ck_assert_int_eq(rdmabroker_get_refusals(session, &refusals), 0);
	for (size_t i = 0; i < refusals->n; i++)
		found |= strcmp(refusals->list[i].outcome, outcome) == 0 &&
			 strcmp(refusals->list[i].rule, rule) == 0;
	rdmabroker_free(refusals);
	return found;
}

/* While a warn rule admits, quotas warn up to four times their number. What they refuse is kept. */
START_TEST(quotas)
{
	struct rdmabroker_options options = { .size = sizeof(options),
					      .socket = harness.socket_path,
					      .call_timeout_ms = T };
	struct rdmabroker *admin = open_session(0), *more[8], *refused;
	uint64_t *limit = harness.core->account.limit_per_user;

	harness.core->on_quota = refused_note_quota;
	limit[ACCOUNT_SESSIONS] = 2;
	limit[ACCOUNT_LISTENERS] = 1;
	set_policy(WARN "\n");
	more[0] = open_session(0);
	start_listening(more[0], 7471);
	ck_assert(!has_outcome(admin, "quota-warned", "quota: SessionsPerUser=2"));
	for (int i = 1; i < 7; i++)
		more[i] = open_session(0);
	ck_assert(has_outcome(admin, "quota-warned", "quota: SessionsPerUser=2"));
	ck_assert_int_eq(rdmabroker_open(&options, &refused), -EDQUOT);
	ck_assert(has_outcome(admin, "quota", "quota: SessionsPerUser=2"));
	for (uint16_t i = 1; i < 4; i++)
		start_listening(more[0], 7471 + i);
	ck_assert(has_outcome(admin, "quota-warned", "quota: ListenersPerUser=1"));
	refuse_listening(more[0], 7475, EDQUOT, "ListenersPerUser=");
	ck_assert(has_outcome(admin, "quota", "quota: ListenersPerUser=1"));

	/* With the warn rule, that ends; and who has more loses nothing. */
	set_policy("allow any\n");
	rdmabroker_close(more[6]);
	ck_assert_int_eq(rdmabroker_open(&options, &refused), -EDQUOT);
	for (int i = 0; i < 6; i++)
		rdmabroker_close(more[i]);
	rdmabroker_close(admin);
}
END_TEST

UNIT_MAIN("warn", set_up, tear_down, what_is_admitted_is_told, explained, limits_and_settings,
	  capability_of_a_user, ports_below_1024, kept, looking_is_not_warned_about, quotas)

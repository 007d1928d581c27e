/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/object/inquiry.h"
#include "core/facts/peerid.h"
#include "core/object/session.h"
#include "core/admit/intent.h"
#include "tests/unit/helper.h"
#include "util/util.h"

/* The helper that says who peers are: who may be it, and what happens when it comes, goes, or is silent. */

static void do_forget_helpers(void *arg)
{
	harness.core->inquiries->without_helper_ms -= HELPER_RETURNS_MS;
}

START_TEST(without_a_helper_nothing_waits)
{
	struct rdmabroker *s, *c;

	set_policy(peer_rules);
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	/* There is no such user, or none has come for a long time. */
	connect_to(c, 7471);
	expect_reject(c, "no-rule");
	name_helper(geteuid());
	in_server(do_forget_helpers, NULL);
	connect_to(c, 7471);
	expect_reject(c, "no-rule");
	ck_assert_uint_eq(count_inquiries(), 0);
	/* One that was there a moment ago may come back, but it does not. */
	rdmabroker_close(open_helper());
	await_counts(2, 3);
	connect_to(c, 7471);
	ck_assert_uint_eq(count_inquiries(), 1);
	expect_reject(c, "no-rule");
	rdmabroker_close(s);
	rdmabroker_close(c);
}
END_TEST

/* A restart of the helper, or of the daemon, loses no question. */
START_TEST(a_helper_that_returns)
{
	struct rdmabroker_notice *notice, *again;
	struct rdmabroker *helper, *next, *s, *c;

	set_policy(peer_rules);
	name_helper(geteuid());
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	/* It has not come yet. */
	connect_to(c, 7471);
	ck_assert_uint_eq(count_inquiries(), 1);
	helper = open_helper();
	answer_question(helper, "accept", &somebody);
	rdmabroker_destroy_id(expect_request(s));
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_REJECTED));
	/* It ends while it is asked. */
	connect_to(c, 7471);
	notice = expect_question(helper, "accept");
	rdmabroker_close(helper);
	helper = open_helper();
	again = expect_question(helper, "accept");
	ck_assert_uint_eq(again->question, notice->question);
	rdmabroker_free(again);
	rdmabroker_free(notice);
	/* Another one replaces it, and its session ends. */
	next = open_helper();
	answer_question(next, "accept", &somebody);
	rdmabroker_destroy_id(expect_request(s));
	ck_assert_int_eq(rdmabroker_get_notice(helper, T, &notice), -ECONNRESET);
	rdmabroker_close(helper);
	rdmabroker_close(next);
	rdmabroker_close(s);
	rdmabroker_close(c);
}
END_TEST

/* A part of the only warning of the status; NULL: there is none. */
static void expect_warning(struct rdmabroker *session, const char *part)
{
	struct rdmabroker_status *status;

	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	ck_assert_uint_eq(status->n_warnings, part != NULL);
	if (part)
		ck_assert_msg(strstr(status->warnings[0], part), "%s", status->warnings[0]);
	rdmabroker_free(status);
}

START_TEST(the_status_warns_if_nobody_can_be_asked)
{
	struct rdmabroker *helper, *s;

	s = open_session(0);
	expect_warning(s, NULL);
	set_policy(peer_rules);
	expect_warning(s, "the user in Helper= of rdmabrokerd.conf does not exist");
	name_helper(geteuid());
	expect_warning(s, "rdmabroker-peerd is not there");
	helper = open_helper();
	expect_warning(s, NULL);
	rdmabroker_close(helper);
	rdmabroker_close(s);
}
END_TEST

START_TEST(a_silent_helper)
{
	struct rdmabroker *helper, *s, *c;
	struct rdmabroker_notice *question;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	start_listening(s, 7479);
	connect_to(c, 7471);
	question = expect_question(helper, "accept");
	/* Meanwhile others go on. */
	connect_to(c, 7479);
	expect_request(s);
	expect_reject(c, "no-rule");
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, &somebody, NULL),
			 -EBADF);
	rdmabroker_free(question);
	rdmabroker_close(s);
	rdmabroker_close(c);
	rdmabroker_close(helper);
}
END_TEST

START_TEST(only_the_helper_may_serve)
{
	struct rdmabroker_peer_address address = { .listens = true,
						   .ps = RDMABROKER_PS_TCP,
						   .local = addr(7471) };
	struct rdmabroker_who *found;
	struct rdmabroker *s;

	name_helper(geteuid() + 1);
	s = open_session_at(harness.helper_path, 0);
	expect_failure(rdmabroker_serve_peers(s), EACCES, "Helper= of rdmabrokerd.conf");
	expect_failure(rdmabroker_answer_peer(s, 1, &somebody, NULL), EACCES, "Helper=");
	expect_failure(rdmabroker_find_peer(s, &address, &found), EACCES, "Helper=");
	rdmabroker_close(s);
	name_helper((uid_t)-1);
	s = open_session_at(harness.helper_path, 0);
	expect_failure(rdmabroker_serve_peers(s), EACCES, "Helper=");
	rdmabroker_close(s);
	/* A container's image can choose the helper's uid, but containers are not given the helper's socket. */
	name_helper(geteuid());
	s = open_session_at(harness.common_path, 0);
	expect_failure(rdmabroker_serve_peers(s), EACCES, "Helper=");
	rdmabroker_close(s);
	s = open_session(0);
	expect_failure(rdmabroker_serve_peers(s), EACCES, "Helper=");
	rdmabroker_close(s);
}
END_TEST

static void on_answer(void *userdata, struct peerid *answer)
{
	peerid_free(answer);
}

/* The helper ends, and before it is gone, the session that was opened last asks. */
static void do_ask_while_it_ends(void *ret)
{
	struct session *session = container_of(harness.core->sessions.prev, struct session, link);
	struct session *helper = harness.core->inquiries->helper;
	const struct policy_question question = { .operation = POLICY_ACCEPT,
						  .port_space = RDMA_PS_TCP,
						  .local = addr(7471),
						  .peer = addr(40001) };
	struct peerid *unknown;

	helper->ops->end(helper->userdata, "a test");
	*(struct inquiry **)ret =
		inquiry_new(session, &question, /* peer_qpn= */ 0, on_answer, NULL, &unknown);
	peerid_free(unknown);
}

/* A question that a helper which ends did not get is for the next one. */
START_TEST(a_helper_that_ends)
{
	struct rdmabroker *helper, *s;
	struct inquiry *inquiry;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	in_server(do_ask_while_it_ends, &inquiry);
	ck_assert_ptr_nonnull(inquiry);
	rdmabroker_close(helper);
	helper = open_helper();
	answer_question(helper, "accept", &somebody);
	rdmabroker_close(s);
	rdmabroker_close(helper);
}
END_TEST

/* Another Helper= ends the helper at once. Sessions of its user that do other things go on, but may not help. */
START_TEST(another_user_becomes_the_helper)
{
	struct rdmabroker_peer_address address = { .listens = true,
						   .ps = RDMABROKER_PS_TCP,
						   .local = addr(7471) };
	struct rdmabroker_who *found;
	struct rdmabroker_notice *notice;
	struct rdmabroker *helper, *s;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session_at(harness.helper_path, 0);
	start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_find_peer(s, &address, &found), 0);
	rdmabroker_free(found);
	name_helper(geteuid());
	ck_assert_int_eq(rdmabroker_get_notice(helper, 0, &notice), -EAGAIN);
	name_helper(geteuid() + 1);
	ck_assert_int_eq(rdmabroker_get_notice(helper, T, &notice), -ECONNRESET);
	expect_failure(rdmabroker_find_peer(s, &address, &found), EACCES, "Helper=");
	expect_failure(rdmabroker_serve_peers(s), EACCES, "Helper=");
	start_listening(s, 7479);
	rdmabroker_close(helper);
	rdmabroker_close(s);
}
END_TEST

UNIT_MAIN("helper", set_up, tear_down, without_a_helper_nothing_waits, a_helper_that_returns,
	  the_status_warns_if_nobody_can_be_asked, a_silent_helper, only_the_helper_may_serve,
	  a_helper_that_ends, another_user_becomes_the_helper)

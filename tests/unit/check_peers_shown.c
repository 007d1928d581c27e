/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/addr.h"
#include "tests/unit/helper.h"
#include "tests/unit/program.h"
#include "tests/unit/watch.h"

/* Where a decision is shown that depends on who the peer is, it is shown who the peer is. */

static const char rules[] = "allow session\nallow listen\nallow connect\n"
			    "allow accept port 7471 peer-user 1234\n"
			    "allow accept port 7472 peer-unit storage-*\n"
			    "allow accept port 7473 peer-same job\n"
			    "reject accept port 7474 peer-group 77 reason \"not group 77\"\n"
			    "allow accept port 7474-7479\n";

#define ACCEPTS "accept"

static struct rdmabroker *helper, *s, *c;

static void set_up_sessions(void)
{
	set_up_ctl();
	set_policy(rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	start_listening(s, 7479);
}

static void tear_down_sessions(void)
{
	rdmabroker_close(c);
	rdmabroker_close(s);
	rdmabroker_close(helper);
	tear_down();
}

static struct rdmabroker_notice *expect_decision(struct rdmabroker *watcher, const char *outcome)
{
	struct rdmabroker_notice *notice;

	ck_assert_int_eq(rdmabroker_get_notice(watcher, T, &notice), 0);
	ck_assert_str_eq(notice->kind, "decision");
	ck_assert_str_eq(notice->operation, ACCEPTS);
	ck_assert_str_eq(notice->outcome, outcome);
	return notice;
}

/* The longest names of all, and the longest reason. */
static char long_text[400];
static const struct rdmabroker_who longest = {
	.uid = 1234,
	.knows_workload = true,
	.unit = long_text,
	.container = long_text,
	.pod = long_text,
	.job = long_text,
	.cgroup = long_text,
};

static void assert_longest(const struct rdmabroker_who *who)
{
	ck_assert_uint_eq(strlen(who->unit), 255);
	ck_assert_uint_eq(strlen(who->container), 127);
	ck_assert_uint_eq(strlen(who->pod), 127);
	ck_assert_uint_eq(strlen(who->job), 127);
	ck_assert_uint_eq(strlen(who->cgroup), 255);
}

START_TEST(notices)
{
	const struct rdmabroker_filter filter = { .operation = ACCEPTS };
	struct rdmabroker *watcher = open_session(0);
	struct rdmabroker_notice *notice, *question;

	ck_assert_int_eq(rdmabroker_watch(watcher, &filter), 0);
	connect_to(c, 7471);
	answer_question(helper, ACCEPTS, &somebody);
	notice = expect_decision(watcher, "allowed");
	ck_assert(notice->who_peer.is_known);
	ck_assert_uint_eq(notice->who_peer.who.uid, 1234);
	ck_assert_uint_eq(notice->who_peer.who.n_gids, 0);
	ck_assert(notice->who_peer.who.knows_workload);
	ck_assert_str_eq(notice->who_peer.who.unit, "storage-a.service");
	ck_assert_str_eq(notice->who_peer.who.job, "4711");
	ck_assert_ptr_null(notice->who_peer.who.pod);
	ck_assert_ptr_null(notice->who_peer.why);
	rdmabroker_free(notice);

	connect_to(c, 7471);
	answer_question(helper, ACCEPTS, NULL);
	notice = expect_decision(watcher, "rejected");
	ck_assert(!notice->who_peer.is_known);
	ck_assert_str_eq(notice->who_peer.why, "10.9.0.9 is silent");
	rdmabroker_free(notice);

	/* No rule needs to know it. */
	connect_to(c, 7479);
	notice = expect_decision(watcher, "allowed");
	ck_assert(!notice->who_peer.is_known);
	ck_assert_ptr_null(notice->who_peer.why);
	rdmabroker_free(notice);

	memset(long_text, 'x', sizeof(long_text) - 1);
	connect_to(c, 7471);
	answer_question(helper, ACCEPTS, &longest);
	notice = expect_decision(watcher, "allowed");
	assert_longest(&notice->who_peer.who);
	rdmabroker_free(notice);
	connect_to(c, 7471);
	question = expect_question(helper, ACCEPTS);
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, NULL, long_text), 0);
	rdmabroker_free(question);
	notice = expect_decision(watcher, "rejected");
	ck_assert_uint_eq(strlen(notice->who_peer.why), 159);
	rdmabroker_free(notice);

	rdmabroker_close(helper);
	helper = NULL;
	connect_to(c, 7471);
	notice = expect_decision(watcher, "rejected");
	ck_assert_str_eq(notice->who_peer.why, "rdmabroker-peerd is not there");
	rdmabroker_free(notice);
	rdmabroker_close(watcher);
}
END_TEST

/* A policy that is new asks about no request that the client has got already. */
START_TEST(requests_that_no_rule_asked_about)
{
	const struct rdmabroker_filter filter = { .operation = ACCEPTS };
	struct rdmabroker *watcher = open_session(0);
	struct rdmabroker_notice *notice;
	struct rdmabroker_id *request;

	connect_to(c, 7479);
	request = expect_request(s);
	set_policy("allow session\nallow listen\nallow accept peer-user 1234\n");
	ck_assert_int_eq(rdmabroker_watch(watcher, &filter), 0);
	expect_failure(rdmabroker_accept(request, new_param()), EACCES, "may not accept");
	notice = expect_decision(watcher, "rejected");
	ck_assert_str_eq(notice->who_peer.why, "no rule needed that when it could be asked");
	rdmabroker_free(notice);
	rdmabroker_close(watcher);
}
END_TEST

static void do_limit_queues(void *arg)
{
	harness.core->account.limit_per_user[ACCOUNT_BYTES] = 4096;
}

/* What the helper does not get, it cannot answer. So nothing waits for that. */
START_TEST(a_helper_that_does_not_read)
{
	const struct rdmabroker_filter filter = { .operation = ACCEPTS };
	static const char expected[] = "rdmabroker-peerd does not read its questions";
	struct rdmabroker *watcher = open_session(0);
	struct rdmabroker_notice *notice = NULL;

	start_listening_with(s, 7472, 8192);
	ck_assert_int_eq(rdmabroker_watch(watcher, &filter), 0);
	in_server(do_limit_queues, NULL);
	while (!notice) {
		int r;

		rdmabroker_destroy_id(connect_to(c, 7472));
		r = rdmabroker_get_notice(watcher, 0, &notice);
		ck_assert(r == 0 || r == -EAGAIN);
		/* Requests of earlier turns are rejected, too, after two seconds. */
		if (r == 0 && strcmp(notice->who_peer.why, expected) != 0) {
			rdmabroker_free(notice);
			notice = NULL;
		}
	}
	ck_assert_str_eq(notice->outcome, "rejected");
	rdmabroker_free(notice);
	rdmabroker_close(watcher);
}
END_TEST

START_TEST(events)
{
	struct child child;

	START_EVENTS(&child, "--operation", "accept", "--count", "3");
	read_line(&child);
	connect_to(c, 7471);
	answer_question(helper, ACCEPTS, &somebody);
	assert_has(read_line(&child), " allowed ");
	assert_has(got.out, " test.rules:4      the peer is uid 1234, job:4711\n");
	connect_to(c, 7471);
	answer_question(helper, ACCEPTS, NULL);
	assert_has(read_line(&child), " rejected ");
	assert_has(got.out, " no-rule; the peer is unknown: 10.9.0.9 is silent\n");
	connect_to(c, 7479);
	assert_lacks(read_line(&child), "the peer is");
	ck_assert_int_eq(end_ctl(&child), 0);

	START_EVENTS(&child, "--operation", "accept", "--count", "3", "--json");
	connect_to(c, 7471);
	answer_question(helper, ACCEPTS, &somebody);
	read_line(&child);
	got.err[0] = '\0';
	assert_json("d[\"peer_identity\"] == {\"uid\": 1234, \"user\": None, \"knows_workload\": "
		    "True, \"unit\": \"storage-a.service\", \"container\": None, \"pod\": None, "
		    "\"job\": \"4711\", \"cgroup\": None} and d[\"peer_unknown\"] is None");
	connect_to(c, 7471);
	answer_question(helper, ACCEPTS, NULL);
	read_line(&child);
	assert_json("d[\"peer_identity\"] is None and "
		    "d[\"peer_unknown\"] == \"10.9.0.9 is silent\"");
	connect_to(c, 7479);
	read_line(&child);
	assert_json("d[\"peer_identity\"] is None and d[\"peer_unknown\"] is None");
	ck_assert_int_eq(end_ctl(&child), 0);
}
END_TEST

/* The connection request of ACTIVE in the listener's session. */
static const struct rdmabroker_listed_id *find_request(const struct rdmabroker_list *list,
						       const struct rdmabroker_id *active)
{
	uint16_t port = rdmabroker_get_local_port(active);

	for (size_t i = 0; i < list->n_ids; i++)
		if (strcmp(list->ids[i].state, "request") == 0 &&
		    addr_port((const struct sockaddr *)&list->ids[i].peer) == port)
			return &list->ids[i];
	ck_abort_msg("no request from port %u", port);
}

START_TEST(lists)
{
	struct rdmabroker_id *asked, *other;
	const struct rdmabroker_listed_id *id;
	struct rdmabroker_list *list;
	size_t n = 0;

	asked = connect_to(c, 7471);
	answer_question(helper, ACCEPTS, &somebody);
	expect_request(s);
	other = connect_to(c, 7479);
	expect_request(s);
	ck_assert_int_eq(rdmabroker_get_list(c, 0, &list), 0);
	id = find_request(list, asked);
	ck_assert(id->who_peer.is_known);
	ck_assert_uint_eq(id->who_peer.who.uid, 1234);
	ck_assert_uint_eq(id->who_peer.who.n_gids, 0);
	ck_assert_str_eq(id->who_peer.who.unit, "storage-a.service");
	ck_assert_ptr_null(id->who_peer.why);
	id = find_request(list, other);
	ck_assert(!id->who_peer.is_known);
	ck_assert_ptr_null(id->who_peer.why);
	rdmabroker_free(list);

	/* Many of the longest ones: a packet has room for each page. */
	memset(long_text, 'x', sizeof(long_text) - 1);
	for (int i = 0; i < 60; i++) {
		connect_to(c, 7471);
		answer_question(helper, ACCEPTS, &longest);
		expect_request(s);
	}
	ck_assert_int_eq(rdmabroker_get_list(c, 0, &list), 0);
	ck_assert_uint_eq(list->n_ids, 2 + 2 * 62);
	for (size_t i = 0; i < list->n_ids; i++)
		if (list->ids[i].who_peer.is_known && ++n > 1)
			assert_longest(&list->ids[i].who_peer.who);
	ck_assert_uint_eq(n, 61);
	rdmabroker_free(list);
}
END_TEST

/* Who listens is kept with the id that connects. */
START_TEST(outgoing_connections)
{
	struct rdmabroker_list *list;
	struct rdmabroker_id *id;
	size_t n = 0;

	set_policy("allow session\nallow connect port 7479\nallow connect peer-user 1234\n"
		   "reject connect peer-user 5\nallow connect\n");
	resolve(c, 7479);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(7471), T), 0);
	answer_question(helper, "connect", &somebody);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ADDR_RESOLVED));
	ck_assert_int_eq(rdmabroker_get_list(c, 0, &list), 0);
	for (size_t i = 0; i < list->n_ids; i++)
		if (list->ids[i].who_peer.is_known) {
			ck_assert_uint_eq(list->ids[i].who_peer.who.uid, 1234);
			n++;
		}
	ck_assert_uint_eq(n, 1);
	rdmabroker_free(list);
}
END_TEST

START_TEST(list_prints)
{
	char *line;

	connect_to(c, 7479);
	expect_request(s);
	ck_assert_int_eq(ctl("list"), 0);
	assert_lacks(got.out, "PEER-IS");
	connect_to(c, 7471);
	answer_question(helper, ACCEPTS, &somebody);
	expect_request(s);
	ck_assert_int_eq(ctl("list"), 0);
	ck_assert_str_eq(got.err, "");
	line = strtok(got.out, "\n");
	assert_has(line, "  PEER-IS");
	while ((line = strtok(NULL, "\n")))
		if (strstr(line, " request ") && strstr(line, "10.9.0.1:7471"))
			break;
	ck_assert_ptr_nonnull(line);
	assert_has(line, "  test.rules:4  uid 1234, job:4711");
	ck_assert_int_eq(ctl("list", "--json", "--state", "request"), 0);
	assert_json("d[\"ids\"][0][\"peer_identity\"] is None and "
		    "d[\"ids\"][0][\"peer_unknown\"] is None and "
		    "d[\"ids\"][1][\"peer_identity\"][\"unit\"] == \"storage-a.service\" and "
		    "d[\"ids\"][1][\"peer_identity\"][\"uid\"] == 1234");
}
END_TEST

START_TEST(explain_knows_the_peer)
{
	ck_assert_int_eq(ctl("explain", "accept", "--user", "1", "--group", "1", "--port", "7471",
			     "--peer-user", "1234"),
			 0);
	ck_assert_str_eq(got.err, "");
	ck_assert_str_eq(got.out, "allow\n"
				  "      who: uid 1, gids 1\n"
				  "  peer is: uid 1234, no groups\n"
				  "     rule: test.rules:4\n"
				  "           allow accept port 7471 peer-user 1234\n");
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7471", "--peer-user", "1235"), 3);
	assert_lacks(got.out, "depends");
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7472", "--peer-user", "1",
			     "--peer-unit", "storage-a"),
			 0);
	assert_has(got.out, ", unit storage-a\n");
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7472", "--peer-user", "1"), 3);
	assert_lacks(got.out, "depends");
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7473", "--job", "7", "--peer-user",
			     "1", "--peer-job", "7"),
			 0);
	assert_has(got.out, ", job 7\n");
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7473", "--job", "7", "--peer-user",
			     "1", "--peer-job", "8"),
			 3);
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7474", "--peer-user", "1",
			     "--peer-group", "76"),
			 0);
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7474", "--peer-user", "0",
			     "--peer-group", "+76,77", "--json"),
			 3);
	assert_json("d[\"reason\"] == \"not group 77\" and d[\"asks\"] is False and "
		    "0 in d[\"peer_identity\"][\"gids\"] and 77 in d[\"peer_identity\"][\"gids\"] "
		    "and d[\"peer_identity\"][\"uid\"] == 0 and "
		    "d[\"peer_identity\"][\"unit\"] is None and "
		    "d[\"peer_identity\"][\"job\"] is None");
}
END_TEST

START_TEST(explain_says_that_the_peer_is_asked)
{
	static const char asks[] = "           the daemon asks the peer's host; without an answer, "
				   "it decides as shown\n";

	ck_assert_int_eq(ctl("explain", "accept", "--user", "1", "--group", "1", "--port", "7471"),
			 3);
	ck_assert_str_eq(got.out,
			 "reject: no-rule\n"
			 "      who: uid 1, gids 1\n"
			 "     rule: no rule matches\n"
			 "  depends: test.rules:4\n"
			 "           allow accept port 7471 peer-user 1234\n"
			 "           may match first; to find out, give --peer-user\n"
			 "           the daemon asks the peer's host; without an answer, it "
			 "decides as shown\n");
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7472"), 3);
	assert_has(got.out, "to find out, give --peer-user, --peer-unit\n");
	assert_has(got.out, asks);
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7473", "--job", "7"), 3);
	assert_has(got.out, "to find out, give --peer-user, --peer-job\n");
	assert_has(got.out, asks);
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7474"), 3);
	assert_has(got.out, "reject: not group 77\n");
	assert_has(got.out, "may not match; to find out, give --peer-user, --peer-group\n");
	assert_has(got.out, asks);
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7474", "--json"), 3);
	assert_json("d[\"asks\"] is True and d[\"depends\"][\"line\"] == 7 and "
		    "d[\"depends\"][\"missing\"] == [\"peer-user\", \"peer-group\"] and "
		    "d[\"peer_identity\"] is None");
	/* The daemon would know the port. */
	ck_assert_int_eq(ctl("explain", "accept"), 3);
	assert_has(got.out, "to find out, give --port, --peer-user\n");
	assert_lacks(got.out, asks);
	/* Nothing depends on it. */
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7479"), 0);
	assert_lacks(got.out, "depends");
	ck_assert_int_eq(ctl("explain", "accept", "--port", "7473"), 3);
	assert_lacks(got.out, "depends");
}
END_TEST

START_TEST(explain_refuses_bad_peers)
{
	static const char *const options[] = { "--peer-group", "--peer-unit", "--peer-job" };
	static const uint32_t gids[1025];
	struct rdmabroker_question question = { NULL };
	struct rdmabroker_who who = { .uid = (uint32_t)-1 };
	struct rdmabroker_explanation *explanation;

	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(ctl("explain", "accept", options[i], "1"), 2);
		assert_has(got.err, "--peer-group, --peer-unit and --peer-job need --peer-user\n");
	}
	ck_assert_int_eq(ctl("explain", "accept", "--peer-user", "nobody-at-all"), 1);
	assert_has(got.err, "unknown user \"nobody-at-all\"\n");
	ck_assert_int_eq(ctl("explain", "accept", "--peer-user", "1", "--peer-group", "no-group"),
			 1);
	assert_has(got.err, "unknown group \"no-group\"\n");

	question.operation = ACCEPTS;
	question.peer_who = &who;
	expect_failure(rdmabroker_explain(c, &question, &explanation), EINVAL,
		       "the peer's uid is not valid");
	who.uid = 1;
	who.gids = gids;
	who.n_gids = 1025;
	expect_failure(rdmabroker_explain(c, &question, &explanation), EINVAL,
		       "the peer has more than 1024 groups");
}
END_TEST

UNIT_MAIN("peers_shown", set_up_sessions, tear_down_sessions, notices,
	  requests_that_no_rule_asked_about, a_helper_that_does_not_read, events, lists,
	  outgoing_connections, list_prints, explain_knows_the_peer,
	  explain_says_that_the_peer_is_asked, explain_refuses_bad_peers)

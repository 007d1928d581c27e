/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/verbs/conn.h"
#include "core/facts/loglimit.h"
#include "tests/unit/pair.h"
#include "tests/unit/stopped.h"

/* The limits on log lines: one user's lines do not displace those of another. */

#define WINDOW_USEC (11 * 1000000ULL)

static struct log_limits limits;

static void set_up(void)
{
	pair_set_up();
	log_limits_init(&limits);
	limits.max_of_user = limits.max = UINT_MAX;
	core->log_limits.max_of_user = core->log_limits.max = UINT_MAX;
}

static void tear_down(void)
{
	log_limits_done(&limits);
	ck_assert_uint_eq(log_limits_count(&limits), 0);
	pair_tear_down();
}

static bool pass(struct ratelimit *limit)
{
	unsigned n;

	return ratelimit_pass(limit, &n);
}

/* Uses up the limit, and then drops 1 + N_MORE lines. */
static void exhaust(struct ratelimit *limit, unsigned n_more)
{
	for (unsigned i = 0; i < RATELIMIT_BURST; i++)
		ck_assert(pass(limit));
	for (unsigned i = 0; i <= n_more; i++)
		ck_assert(!pass(limit));
}

static struct tally *tally(size_t rule)
{
	return admissions_find(core->admissions, policy_rule_at(core->policy, rule));
}

/* Redirects what is logged to a file, and returns it. */
static FILE *listen_to_log(void)
{
	FILE *log = tmpfile();

	ck_assert_ptr_nonnull(log);
	ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
	return log;
}

static void assert_said(FILE *log, const char *text)
{
	char said[256] = "";

	rewind(log);
	ck_assert_uint_gt(fread(said, 1, sizeof(said) - 1, log), 0);
	ck_assert_str_eq(said, text);
	fclose(log);
}

START_TEST(users_are_limited_separately)
{
	for (uid_t uid = 1000; uid < 2000; uid++)
		exhaust(core_log_limit(core, owner_of(uid), NULL), 0);
	ck_assert(!pass(core_log_limit(core, owner_of(1000), NULL)));
}
END_TEST

START_TEST(rules_are_limited_separately)
{
	pair_set_policy("reject listen\nreject connect\n");
	exhaust(core_log_limit(core, owner_of(1000), NULL), 0);
	/* The policy has two rules. tally(2) stands for "no rule". */
	for (size_t i = 0; i < 3; i++)
		exhaust(core_log_limit(core, owner_of(1000), tally(i)), 0);
	ck_assert(!pass(core_log_limit(core, owner_of(1000), NULL)));
}
END_TEST

/* That the broker is at its limit is told also if each of the user's sessions has had another line. */
START_TEST(subjects_are_limited_separately)
{
	struct session *session = client.session;

	exhaust(session_log_limit_about(session, LOG_ABOUT_DOUBT), 0);
	exhaust(session_log_limit(session), 0);
	exhaust(session_log_limit_about(session, LOG_ABOUT_LIMIT), 0);
	ck_assert(!pass(core_log_limit(core, owner_of(session->identity.uid), NULL)));
}
END_TEST

/* A rule is identified by its text, not by its position. */
START_TEST(limits_survive_reloads)
{
	pair_set_policy("reject listen\nreject connect\n");
	exhaust(core_log_limit(core, owner_of(1000), tally(0)), 0);
	pair_set_policy("reject join\nreject listen\nreject connect\n");
	ck_assert(pass(core_log_limit(core, owner_of(1000), tally(0))));
	ck_assert(!pass(core_log_limit(core, owner_of(1000), tally(1))));
	ck_assert(pass(core_log_limit(core, owner_of(1000), tally(2))));
	/* A rule that is removed and added again is a new one. */
	pair_set_policy("reject join\n");
	for (int i = 0; i < 100; i++)
		pair_set_policy(i % 2 ? "reject listen\n" : "reject connect\n");
	ck_assert(pass(core_log_limit(core, owner_of(1000), tally(0))));
}
END_TEST

/* After a reload a connect is decided anew, and its log lines count for the new rule. */
START_TEST(an_id_that_a_reload_overtakes)
{
	struct rdma_conn_param p = param("hello"), q = param("hello");
	uid_t uid = client.session->identity.uid;
	struct tally *gone;
	struct id *a, *b;

	q.qp_num = QPN + 1;
	stop_time();
	pair_set_policy("allow connect rate 1/s\nallow any\n");
	pair_start_listening(7471);
	a = pair_resolve(1, 7471);
	b = pair_resolve(2, 7471);
	gone = tally_ref(b->grant.tally);
	pair_set_policy("reject join\nallow connect rate 1/s burst 1\nallow any\n");
	ck_assert_int_eq(conn_connect(a, &p, NULL, &why), 0);
	ck_assert_int_eq(conn_connect(b, &q, NULL, &why), STATUS_BUSY);
	ck_assert_uint_eq(core_log_limit(core, owner_of(uid), tally(1))->n, 1);
	ck_assert_uint_eq(core_log_limit(core, owner_of(uid), tally(0))->n, 0);
	ck_assert_uint_eq(core_log_limit(core, owner_of(uid), gone)->n, 0);
	tally_unref(gone);
	pair_expect(&server, 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}
END_TEST

/* Pairs of user and rule that no longer limit anything are removed. */
START_TEST(unused_pairs_are_removed)
{
	for (uid_t uid = 0; uid < 10000; uid++) {
		struct ratelimit *limit = log_limits_get(&limits, owner_of(uid), 1);

		ck_assert(pass(limit));
		limit->begin_usec -= WINDOW_USEC;
		ck_assert_uint_le(log_limits_count(&limits), 1);
	}
}
END_TEST

START_TEST(dropped_lines_are_reported)
{
	struct ratelimit *limit = log_limits_get(&limits, owner_of(1000), 1);
	unsigned n;

	exhaust(limit, 4);
	limit->begin_usec -= WINDOW_USEC;
	for (uid_t uid = 0; uid < 900; uid++)
		ck_assert(pass(log_limits_get(&limits, owner_of(uid), 1)));
	limit = log_limits_get(&limits, owner_of(1000), 1);
	ck_assert(ratelimit_pass(limit, &n));
	ck_assert_uint_eq(n, 5);
	/* The pair is limited again. Its dropped lines are not reported a second time. */
	for (unsigned i = 1; i < RATELIMIT_BURST; i++)
		ck_assert(pass(log_limits_get(&limits, owner_of(1000), 1)));
	ck_assert(!pass(log_limits_get(&limits, owner_of(1000), 1)));
	ck_assert_uint_eq(log_limits_count(&limits), 901);
}
END_TEST

/* Even if an attacker has a range of uids, the table stays within its limit. */
START_TEST(many_users_cost_little)
{
	log_set_level(LOG_WARNING);
	for (uid_t uid = 0; uid < 8192; uid++)
		for (uint64_t rule = 0; rule < 3; rule++) {
			exhaust(log_limits_get(&limits, owner_of(uid), rule), 0);
			ck_assert_uint_le(log_limits_count(&limits), LOG_LIMITS_MAX);
		}
}
END_TEST

/* If the table is full, the oldest pair of the user with the most pairs is removed. */
START_TEST(many_rules_cost_their_own_user)
{
	exhaust(log_limits_get(&limits, owner_of(1000), 1), 0);
	exhaust(log_limits_get(&limits, owner_of(1000), 2), 0);
	for (uint64_t rule = 1; rule <= 5 * LOG_LIMITS_MAX; rule++)
		ck_assert(pass(log_limits_get(&limits, owner_of(1001), rule)));
	ck_assert_uint_eq(log_limits_count(&limits), LOG_LIMITS_MAX);
	ck_assert(!pass(log_limits_get(&limits, owner_of(1000), 1)));
	ck_assert(!pass(log_limits_get(&limits, owner_of(1000), 2)));
	ck_assert_uint_eq(log_limits_get(&limits, owner_of(1001), 5 * LOG_LIMITS_MAX)->n, 1);
	ck_assert_uint_eq(log_limits_get(&limits, owner_of(1001), 4 * LOG_LIMITS_MAX + 10)->n, 1);
	ck_assert_uint_eq(log_limits_get(&limits, owner_of(1001), 1)->n, 0);
}
END_TEST

/* A pair that only has dropped lines to report is removed before a pair that is limited now. */
START_TEST(removed_pairs_report_their_dropped_lines)
{
	struct ratelimit *limit = log_limits_get(&limits, owner_of(1000), 1);
	FILE *log;

	exhaust(limit, 6);
	limit->begin_usec -= WINDOW_USEC;
	exhaust(log_limits_get(&limits, owner_of(1001), 1), 0);
	log = listen_to_log();
	for (uint64_t rule = 2; rule < LOG_LIMITS_MAX; rule++)
		ck_assert(pass(log_limits_get(&limits, owner_of(1001), rule)));
	ck_assert_int_eq(fseek(log, 0, SEEK_END), 0);
	ck_assert_int_eq(ftell(log), 0);
	ck_assert(pass(log_limits_get(&limits, owner_of(1002), 1)));
	assert_said(log, "(7 entries about uid 1000 were left out)\n");
	ck_assert(!pass(log_limits_get(&limits, owner_of(1001), 1)));
}
END_TEST

/* Whatever a user's lines are about: there are only so many of them in a period, and the rest is counted. */
START_TEST(all_lines_of_a_user)
{
	FILE *log = listen_to_log();

	stop_time();
	limits.max_of_user = 100;
	for (uint64_t rule = 0; rule < 100; rule++)
		ck_assert(pass(log_limits_get(&limits, owner_of(1000), rule)));
	for (uint64_t rule = 100; rule < 130; rule++)
		ck_assert(!pass(log_limits_get(&limits, owner_of(1000), rule)));
	ck_assert(pass(log_limits_get(&limits, owner_of(1001), 1)));
	stopped_usec += WINDOW_USEC;
	ck_assert(pass(log_limits_get(&limits, owner_of(1000), 1000)));
	assert_said(log, "(30 entries about uid 1000 were left out)\n");
}
END_TEST

/* journald would drop the lines of everybody. */
START_TEST(all_lines_of_all_users)
{
	FILE *log = listen_to_log();

	stop_time();
	limits.max = 500;
	for (uid_t uid = 1000; uid < 1500; uid++)
		ck_assert(pass(log_limits_get(&limits, owner_of(uid), 1)));
	for (uid_t uid = 1500; uid < 1600; uid++)
		ck_assert(!pass(log_limits_get(&limits, owner_of(uid), 1)));
	stopped_usec += WINDOW_USEC;
	ck_assert(pass(log_limits_get(&limits, owner_of(1600), 1)));
	assert_said(log,
		    "(100 entries about users were left out: there were more than 500 in 10 s)\n");
}
END_TEST

/* The uids of a container have as many lines as one user, and leave the rest to others. */
START_TEST(all_lines_of_a_range)
{
	FILE *log = listen_to_log();
	unsigned n = 0;

	stop_time();
	limits.max_of_user = LOG_LINES_OF_USER;
	limits.max = LOG_LINES;
	for (uid_t uid = 100000; uid < 100120; uid++)
		for (unsigned i = 0; i < 12; i++)
			n += pass(log_limits_get(&limits, (struct owner){ uid, 100000 }, 1));
	ck_assert_uint_eq(n, LOG_LINES_OF_USER);
	ck_assert(pass(log_limits_get(&limits, owner_of(1000), 1)));
	stopped_usec += WINDOW_USEC;
	ck_assert(pass(log_limits_get(&limits, (struct owner){ 100500, 100000 }, 1)));
	assert_said(log, "(1320 entries about the range of uid 100000 were left out)\n");
}
END_TEST

/* Nor do the lines that tell of those that were left out. */
START_TEST(left_out_of_a_range)
{
	FILE *log = listen_to_log();

	stop_time();
	limits.max_of_user = LOG_LINES_OF_USER;
	for (uid_t uid = 100000; uid < 100000 + 2 * LOG_LIMITS_MAX; uid++)
		for (unsigned i = 0; i <= RATELIMIT_BURST; i++)
			pass(log_limits_get(&limits, (struct owner){ uid, 100000 }, 1));
	stopped_usec += WINDOW_USEC;
	ck_assert(pass(log_limits_get(&limits, (struct owner){ 100000, 100000 }, 2)));
	assert_said(log, "(22428 entries about the range of uid 100000 were left out)\n");
}
END_TEST

/* One of them leaves half to the others. */
START_TEST(lines_in_a_range)
{
	unsigned n = 0;

	stop_time();
	limits.max_of_user = LOG_LINES_OF_USER;
	for (uint64_t rule = 0; rule < 200; rule++)
		n += pass(log_limits_get(&limits, (struct owner){ 100000, 100000 }, rule));
	ck_assert_uint_eq(n, LOG_LINES_OF_USER / 2);
	ck_assert(pass(log_limits_get(&limits, (struct owner){ 165536, 100000 }, 1)));
}
END_TEST

/* Pairs of many uids of a range displace each other, and not those of a user with fewer. */
START_TEST(many_uids_cost_their_own_range)
{
	exhaust(log_limits_get(&limits, owner_of(1000), 1), 0);
	exhaust(log_limits_get(&limits, owner_of(1000), 2), 0);
	for (uid_t uid = 100000; uid < 100000 + 2 * LOG_LIMITS_MAX; uid++)
		pass(log_limits_get(&limits, (struct owner){ uid, OWNER_STRANGERS }, 1));
	ck_assert_uint_eq(log_limits_count(&limits), LOG_LIMITS_MAX);
	ck_assert(!pass(log_limits_get(&limits, owner_of(1000), 1)));
	ck_assert(!pass(log_limits_get(&limits, owner_of(1000), 2)));
}
END_TEST

UNIT_MAIN("loglimit", set_up, tear_down, users_are_limited_separately, rules_are_limited_separately,
	  subjects_are_limited_separately, limits_survive_reloads, an_id_that_a_reload_overtakes,
	  unused_pairs_are_removed, dropped_lines_are_reported, many_users_cost_little,
	  many_rules_cost_their_own_user, removed_pairs_report_their_dropped_lines,
	  all_lines_of_a_user, all_lines_of_all_users, all_lines_of_a_range, left_out_of_a_range,
	  lines_in_a_range, many_uids_cost_their_own_range)

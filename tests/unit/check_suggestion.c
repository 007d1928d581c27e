/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Rules that are suggested from random tables of refusals: they load without a complaint, allow everything in the table that
 * they are made of, pass their own tests, and allow nothing else. No rule is made of a prefix that the daemon has joined.
 * SEED=N repeats a run, and ROUNDS=N sets its length.
 */

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/suggestion.h"
#include "policy/policy.h"
#include "policy/trial.h"
#include "proto/pkey.h"
#include "tests/unit/randompolicy.h"
#include "util/diag.h"

#define ROUNDS 10000
#define ROWS_MAX 60
#define QUESTIONS 60
#define FIRST_USER 1000
#define IN_GROUP \
	3 /* the first users are in the group GROUP, too, but not all their processes are */
#define GROUP "adm"
#define GROUP_GID 4
#define DYNAMIC_USER 61200

static const char *const operations[] = {
	"session", "device", "listen", "connect", "accept", "join"
};
static const char *const outcomes[] = { "no-rule", "no-rule", "warned", "rejected", "busy" };
static const char *const units[] = {
	NULL,
	NULL,
	"slurmd.service",
	"user@1000.service",
	"session-2.scope",
	"weird*\\x2d[1]?.service",
	"a \"b\", {c}=d.service",
	"\xe2\x80\xae.service",
};
static const char *const devices[] = { "rxe0", "mlx5_0", "m*", "a,b", "\xef\xbb\xbf" };
static const char *const names[] = {
	NULL,           "rping", "ends in \\", "a # b", "\xef\xbb\xbfping", "\xe2\x80\xaegnip",
	"a\nallow any",
};
#define ANY_OF(list) ((list)[pick((int)(sizeof(list) / sizeof((list)[0])))])

static struct rdmabroker_refusal rows[ROWS_MAX];
static uint32_t row_gids[ROWS_MAX][2];
static struct rdmabroker_refusals table = { .list = rows };
static struct suggestion_options options;

/* Counts of what was tested. If a count is 0, the run proves nothing about that case. */
static struct {
	unsigned long tables, rows, rules, tests, questions, allowed, refused, groups,
		without_group, joined;
} seen;

static const char *user_name(uint32_t uid)
{
	return uid == 0 ? "root" : uid == DYNAMIC_USER ? "dynamic" : NULL;
}

static const char *group_name(const uint32_t *uids, size_t n, const uint32_t *gids, size_t n_gids)
{
	ck_assert_uint_ge(n, 2);
	for (size_t i = 0; i < n; i++)
		if (uids[i] < FIRST_USER || uids[i] >= FIRST_USER + IN_GROUP)
			return NULL;
	if (n_gids == 0 || gids[0] != GROUP_GID) {
		seen.without_group++;
		return NULL;
	}
	seen.groups++;
	return GROUP;
}

static bool is_in_group(uint32_t uid)
{
	return uid >= FIRST_USER && uid < FIRST_USER + IN_GROUP;
}

/* GROUP, and its own one. Returns how many there are. */
static size_t set_gids(uint32_t *ret, uint32_t uid, bool in_group)
{
	size_t n = 0;

	if (in_group)
		ret[n++] = GROUP_GID;
	ret[n++] = uid;
	return n;
}

static uint32_t random_uid(void)
{
	return one_in(8) ? 0 : one_in(8) ? DYNAMIC_USER : FIRST_USER + (uint32_t)pick(6);
}

static void random_address(struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	char text[64];

	*ret = (struct sockaddr_storage){ 0 };
	if (one_in(3)) {
		ret->ss_family = AF_INET6;
		snprintf(text, sizeof(text), "fd00:%x::%x", pick(2), pick(4));
		ck_assert_int_eq(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
	} else {
		ret->ss_family = AF_INET;
		snprintf(text, sizeof(text), "10.%d.0.%d", pick(2), pick(6));
		ck_assert_int_eq(inet_pton(AF_INET, text, &in->sin_addr), 1);
	}
}

static uint8_t *bytes_of(struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? (uint8_t *)&((struct sockaddr_in *)addr)->sin_addr :
					    (uint8_t *)&((struct sockaddr_in6 *)addr)->sin6_addr;
}

static unsigned bits_of(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? 32 : 128;
}

/* Sets the bits behind the first BITS, or clears them. */
static void set_rest(struct sockaddr_storage *addr, unsigned bits, bool to)
{
	for (unsigned i = bits; i < bits_of(addr); i++)
		if (to)
			bytes_of(addr)[i / 8] |= (uint8_t)(0x80 >> i % 8);
		else
			bytes_of(addr)[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
}

static bool needs_port(const char *operation)
{
	return strcmp(operation, "listen") == 0 || strcmp(operation, "connect") == 0 ||
	       strcmp(operation, "accept") == 0;
}

static bool needs_peer(const char *operation)
{
	return strcmp(operation, "join") == 0 || strcmp(operation, "connect") == 0 ||
	       strcmp(operation, "accept") == 0;
}

static bool has_partition(const char *operation)
{
	return needs_port(operation) || needs_peer(operation);
}

static uint16_t random_pkey(const char *operation)
{
	return has_partition(operation) && one_in(6) ? (uint16_t)(0x8001 + pick(2)) : 0;
}

static void random_row(struct rdmabroker_refusal *ret, uint32_t *gids)
{
	*ret = (struct rdmabroker_refusal){
		.operation = one_in(30) ? "admin" : operations[pick(6)],
		.outcome = outcomes[pick(5)],
		.who = { .uid = random_uid(),
			 .unit = ANY_OF(units),
			 .container = one_in(10) ? "c1" : NULL,
			 .gids = gids },
		.name = ANY_OF(names),
		.device = one_in(10) ? NULL : ANY_OF(devices),
		.any_port = one_in(6),
		.count = 1 + (uint64_t)pick(9),
		.first_ms = 1,
		.last_ms = 2,
	};
	ret->pkey = random_pkey(ret->operation);
	ret->who.n_gids = set_gids(gids, ret->who.uid, is_in_group(ret->who.uid) && !one_in(8));
	if (!ret->any_port && !one_in(10))
		ret->port = (uint16_t)(one_in(8) ? 33000 + pick(4) : 7471 + pick(4));
	if (one_in(10))
		return;
	random_address(&ret->peer);
	ret->peer_prefix = one_in(4) ? 24 : bits_of(&ret->peer);
	set_rest(&ret->peer, ret->peer_prefix, false);
}

static bool is_ascii(const char *text)
{
	for (; text && *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

/* Whether ROW has a prefix that the daemon has joined, and the options do not allow as much. */
static bool is_joined(const struct rdmabroker_refusal *row)
{
	unsigned wanted = strcmp(row->operation, "join") == 0 ? bits_of(&row->peer) :
			  row->peer.ss_family == AF_INET      ? options.peer_prefix :
								options.peer_prefix6;

	return needs_peer(row->operation) && row->peer_prefix < wanted;
}

/* Whether rules are to be made of ROW. */
static bool is_wanted(const struct rdmabroker_refusal *row)
{
	if (strcmp(row->operation, "admin") == 0 || strcmp(row->outcome, "busy") == 0 ||
	    (strcmp(row->outcome, "rejected") == 0 && !options.rejected))
		return false;
	if (strcmp(row->operation, "device") == 0 && !row->device)
		return false;
	if (!is_ascii(row->who.unit) || !is_ascii(row->device))
		return false;
	if (needs_port(row->operation) && !row->any_port && row->port == 0)
		return false;
	return !needs_peer(row->operation) || row->peer.ss_family != AF_UNSPEC;
}

/* A service, whose unit has the same name the next time. */
static const char *service(const char *unit, const char *container)
{
	return unit && !container && strcmp(unit, "session-2.scope") != 0 &&
			       strcmp(unit, "user@1000.service") != 0 ?
		       unit :
		       NULL;
}

/* What is asked: as in a row, with one address. */
struct asked {
	const char *operation, *unit, *device;
	uint32_t uid;
	bool in_group;
	int port;
	uint16_t pkey; /* that is named; 0: none */
	struct sockaddr_storage peer;
};

static bool has_group(const struct rdmabroker_refusal *row)
{
	return row->who.n_gids > 0 && row->who.gids[0] == GROUP_GID;
}

static bool is_same_user(const struct rdmabroker_refusal *row, const struct asked *asked)
{
	const char *unit = service(row->who.unit, row->who.container);

	return row->who.uid == asked->uid &&
	       (!unit || (asked->unit && strcmp(asked->unit, unit) == 0));
}

static bool is_near(const struct rdmabroker_refusal *row, struct sockaddr_storage peer)
{
	bool is_4 = peer.ss_family == AF_INET;
	unsigned bits = is_4 ? options.peer_prefix : options.peer_prefix6;
	struct sockaddr_storage from = row->peer;

	if (row->peer_prefix < bits || strcmp(row->operation, "join") == 0)
		bits = row->peer_prefix;
	if (from.ss_family != peer.ss_family)
		return false;
	set_rest(&from, bits, false);
	set_rest(&peer, bits, false);
	return memcmp(bytes_of(&from), bytes_of(&peer), bits_of(&peer) / 8) == 0;
}

/* Whether the rules are to allow all ports that a kernel chooses from. */
static bool is_chosen(const struct rdmabroker_refusal *row)
{
	return row->any_port || (strcmp(row->operation, "connect") == 0 &&
				 row->port >= options.first_port && row->port <= options.last_port);
}

/* Whether the row ROW, widened as the options say, has what is ASKED. */
static bool has(const struct rdmabroker_refusal *row, const struct asked *asked)
{
	if (!is_wanted(row) || is_joined(row) || strcmp(row->operation, asked->operation) != 0 ||
	    !is_same_user(row, asked))
		return false;
	if (strcmp(row->operation, "device") == 0 && strcmp(row->device, asked->device) != 0)
		return false;
	if (row->pkey != asked->pkey)
		return false;
	if (needs_port(row->operation) &&
	    !(is_chosen(row) ?
		      asked->port >= options.first_port && asked->port <= options.last_port :
		      asked->port == row->port))
		return false;
	return !needs_peer(row->operation) || is_near(row, asked->peer);
}

static int ps_of(const struct asked *asked)
{
	return has_partition(asked->operation) ? RDMA_PS_TCP : 0;
}

static bool is_allowed(const struct policy *policy, const struct asked *asked)
{
	gid_t gids[4];
	struct policy_question question = {
		.uid = asked->uid,
		.gids = gids,
		.n_gids = set_gids(gids, asked->uid, asked->in_group),
		.port = asked->port,
		.device = asked->device,
		.port_space = ps_of(asked),
		.peer = (const struct sockaddr *)&asked->peer,
		.workload = { [WORKLOAD_UNIT] = asked->unit ?: "",
			      [WORKLOAD_CGROUP] = "/",
			      [WORKLOAD_CONTAINER] = "",
			      [WORKLOAD_POD] = "",
			      [WORKLOAD_JOB] = "" },
		.knows_data = true,
	};
	struct policy_verdict verdict;

	for (size_t i = 0; i < 6; i++)
		if (strcmp(operations[i], asked->operation) == 0)
			question.operation = (enum policy_operation)i;
	if (asked->pkey)
		policy_set_partition(&question, PKEY_DEFAULT, pkey_partition(asked->pkey));
	policy_decide(policy, &question, &verdict);
	ck_assert(verdict.answer == POLICY_ALLOW || verdict.answer == POLICY_REJECT);
	return verdict.answer == POLICY_ALLOW;
}

static void complain(const char *what, const char *rules, const struct asked *asked)
{
	char text[INET6_ADDRSTRLEN] = "none";
	struct sockaddr_storage peer = asked->peer;

	if (peer.ss_family)
		inet_ntop(peer.ss_family, bytes_of(&peer), text, sizeof(text));
	/* A message of check(3) cannot be long. */
	fputs(rules, stderr);
	ck_abort_msg("table %lu: %s: %s uid %u unit %s device %s port %d pkey 0x%x peer %s",
		     seen.tables, what, asked->operation, asked->uid, asked->unit ?: "none",
		     asked->device ?: "none", asked->port, asked->pkey, text);
}

/* A listener whose port is not known yet is not refused. */
static void ask_before_bind(const struct policy *policy, const struct rdmabroker_refusal *row)
{
	struct policy_question question = {
		.operation = POLICY_LISTEN,
		.early = true,
		.uid = row->who.uid,
		.gids = row->who.gids,
		.n_gids = row->who.n_gids,
		.workload = { [WORKLOAD_UNIT] = service(row->who.unit, row->who.container) ?: "" },
	};
	struct policy_verdict verdict;

	policy_decide(policy, &question, &verdict);
	ck_assert_int_ne(verdict.answer, POLICY_REJECT);
}

static struct asked asked_as(const struct rdmabroker_refusal *row)
{
	return (struct asked){
		.operation = row->operation,
		.unit = row->who.unit,
		.device = row->device,
		.uid = row->who.uid,
		.in_group = has_group(row),
		.port = is_chosen(row) ? options.first_port : row->port,
		.pkey = row->pkey,
		.peer = row->peer,
	};
}

static void ask_row(const struct policy *policy, const char *rules,
		    const struct rdmabroker_refusal *row)
{
	struct asked asked = asked_as(row);

	if (!is_allowed(policy, &asked))
		complain("refused", rules, &asked);
	if (is_chosen(row))
		asked.port = options.last_port;
	if (asked.peer.ss_family)
		set_rest(&asked.peer, row->peer_prefix, true);
	if (!is_allowed(policy, &asked))
		complain("refused at the end of its ranges", rules, &asked);
	if (row->any_port && strcmp(row->operation, "listen") == 0)
		ask_before_bind(policy, row);
}

/* Questions near to the table's rows: one fact is another. */
static struct asked random_asked(void)
{
	const struct rdmabroker_refusal *row = &rows[pick((int)table.n)];
	struct asked ret = asked_as(row);

	if (strcmp(ret.operation, "admin") == 0 || one_in(6))
		ret.operation = operations[pick(6)];
	if (!has_partition(ret.operation) || one_in(4))
		ret.pkey = random_pkey(ret.operation);
	if (one_in(3))
		ret.uid = random_uid();
	ret.in_group = is_in_group(ret.uid) && (ret.in_group || one_in(2)) && !one_in(8);
	if (one_in(3))
		ret.unit = ANY_OF(units);
	if (!ret.device || one_in(4))
		ret.device = one_in(4) ? "mlx5_1" : ANY_OF(devices);
	if (ret.port <= 0 || one_in(4))
		ret.port = one_in(2) ? 7470 + pick(6) :
			   one_in(2) ? 33000 + pick(6) :
				       options.first_port - 1 + pick(3);
	if (ret.peer.ss_family == AF_UNSPEC || one_in(3))
		random_address(&ret.peer);
	return ret;
}

static void ask_another(const struct policy *policy, const char *rules)
{
	const struct asked asked = random_asked();
	bool expected = false;

	for (size_t i = 0; i < table.n; i++)
		expected = expected || has(&rows[i], &asked);
	seen.questions++;
	if (is_allowed(policy, &asked)) {
		seen.allowed++;
		if (!expected)
			complain("allowed, but never seen", rules, &asked);
	} else {
		seen.refused++;
		if (expected)
			complain("refused, but seen", rules, &asked);
	}
}

static char *print(void (*to)(FILE *, const struct rdmabroker_refusals *,
			      const struct suggestion_options *),
		   size_t *ret_size)
{
	char *text;
	FILE *file = open_memstream(&text, ret_size);

	ck_assert_ptr_nonnull(file);
	to(file, &table, &options);
	ck_assert_int_eq(fclose(file), 0);
	return text;
}

static void random_table(void)
{
	table.n = 1 + (size_t)pick(ROWS_MAX);
	for (size_t i = 0; i < table.n; i++)
		random_row(&rows[i], row_gids[i]);
	options = (struct suggestion_options){
		.rejected = one_in(2),
		.peer_prefix = one_in(2) ? 32 : (unsigned)pick(33),
		.peer_prefix6 = one_in(2) ? 128 : (unsigned)pick(129),
		.first_port = 32768,
		.last_port = 60999,
		.user_name = user_name,
		.group_name = group_name,
	};
}

static void try_table(void)
{
	size_t size, tests_size, n_tests = 0, n_wanted = 0;
	struct policy *policy = NULL;
	struct diag *diag;
	char *rules, *tests;
	int r;

	random_table();
	rules = print(suggestion_print_rules, &size);
	tests = print(suggestion_print_tests, &tests_size);
	ck_assert_int_eq(diag_new(&diag), 0);
	for (size_t i = 0; i < size; i++)
		ck_assert_msg(rules[i] == '\n' || (rules[i] >= ' ' && rules[i] <= '~'),
			      "table %lu: %s", seen.tables, rules);
	r = policy_load_text(&policy, "suggested", rules, size, diag);
	/* A warning is a complaint, too. */
	ck_assert_msg(r == 0 && !complaints_at(&diag->errors, 0), "table %lu: %s", seen.tables,
		      complaints_at(&diag->errors, 0) ?: "no policy");
	r = trial_run_text(policy, "tests", tests, tests_size, &n_tests, diag);
	ck_assert_msg(r == 0, "table %lu: %s", seen.tables, complaints_at(&diag->errors, 0));
	for (size_t i = 0; i < table.n; i++)
		if (is_wanted(&rows[i]) && is_joined(&rows[i])) {
			seen.joined++;
		} else if (is_wanted(&rows[i])) {
			ask_row(policy, rules, &rows[i]);
			n_wanted++;
		}
	/* Some are alike but for a unit that does not come back. */
	ck_assert_uint_le(n_tests, n_wanted);
	ck_assert(n_tests > 0 || n_wanted == 0);
	for (int i = 0; i < QUESTIONS; i++)
		ask_another(policy, rules);
	seen.tables++;
	seen.rows += n_wanted;
	seen.rules += policy_n_rules(policy);
	seen.tests += n_tests;
	policy_unref(policy);
	diag_free(diag);
	free(rules);
	free(tests);
}

START_TEST(random_tables)
{
	unsigned long rounds = number_from("ROUNDS", ROUNDS / SLOWER);

	random_state = number_from("SEED", 1);
	for (unsigned long i = 0; i < rounds; i++)
		try_table();
	printf("%lu tables with %lu rows: %lu rules, %lu tests, %lu times a group, %lu times "
	       "not, as a process was without it; %lu joined; %lu questions, %lu allowed, %lu "
	       "refused\n",
	       seen.tables, seen.rows, seen.rules, seen.tests, seen.groups, seen.without_group,
	       seen.joined, seen.questions, seen.allowed, seen.refused);
	ck_assert_uint_gt(seen.groups, 0);
	ck_assert_uint_gt(seen.without_group, 0);
	ck_assert_uint_gt(seen.joined, 0);
	ck_assert_uint_gt(seen.allowed, seen.questions / 10);
	ck_assert_uint_gt(seen.refused, seen.questions / 10);
}
END_TEST

static void print_others(FILE *file, const char *group, const uint32_t *uids, size_t n_uids)
{
	ck_assert_str_eq(group, GROUP);
	ck_assert_uint_eq(n_uids, IN_GROUP);
	fputs("alice, bob", file);
}

static void expect_rules(const char *expected)
{
	size_t size;
	char *text = print(suggestion_print_rules, &size);

	ck_assert_msg(strstr(text, expected) != NULL, "%s", text);
	free(text);
}

/* A group is in place of its users only if that is asked for, and whom it adds is said. */
START_TEST(groups_in_place_of_users)
{
	random_table();
	options.prefer_groups = true;
	options.print_others = print_others;
	table.n = IN_GROUP;
	for (uint32_t i = 0; i < IN_GROUP; i++) {
		row_gids[i][0] = GROUP_GID;
		rows[i] = (struct rdmabroker_refusal){
			.operation = "listen",
			.outcome = "warned",
			.who = { .uid = FIRST_USER + i,
				 .unit = i == 0 ? "session-c10.scope" : "session-*.scope",
				 .gids = row_gids[i],
				 .n_gids = 1 },
			.port = 7471,
			.count = 1,
		};
	}
	expect_rules("\n# Seen of 3 users, who are in this group; it adds: alice, bob.\n"
		     "allow listen group adm port 7471\n");
	options.prefer_groups = false;
	expect_rules("\nallow listen user 1000,1001,1002 port 7471\n");
}
END_TEST

/* Names that never come back are in no test. */
START_TEST(tests_name_what_comes_back)
{
	static const char *const some[] = {
		"session-c10.scope", "run-u7.service", "run-*.service", "job-*.scope", NULL,
		"slurmstepd.scope",  "nvmf.service"
	};
	size_t size;
	char *text;

	random_table();
	table.n = sizeof(some) / sizeof(some[0]);
	for (size_t i = 0; i < table.n; i++)
		rows[i] = (struct rdmabroker_refusal){ .operation = "listen",
						       .outcome = "warned",
						       .who = { .uid = 7, .unit = some[i] },
						       .port = 7471 };
	text = print(suggestion_print_tests, &size);
	ck_assert_str_eq(text, "allow listen uid 7 port 7471\n"
			       "allow listen uid 7 unit nvmf.service port 7471\n"
			       "allow listen uid 7 unit slurmstepd.scope port 7471\n");
	free(text);
}
END_TEST

/* More users, ports and peers than a rule and a line can have. */
START_TEST(long_lists)
{
	static struct rdmabroker_refusal many[5000];
	const struct rdmabroker_refusals seen_now = { .n = 5000, .list = many };
	struct policy *policy;
	struct diag *diag;
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);

	random_table();
	options.peer_prefix = 32;
	for (unsigned i = 0; i < 5000; i++) {
		struct sockaddr_in *peer = (struct sockaddr_in *)&many[i].peer;

		many[i] = (struct rdmabroker_refusal){
			.operation = i % 3 == 0 ? "connect" :
				     i % 3 == 1 ? "listen" :
						  "session",
			.outcome = "no-rule",
			.who = { .uid = i % 3 == 2 ? 2000 + i : 1 },
			.port = i % 3 == 1 ? (uint16_t)(2000 + 2 * i) : 7471,
			.peer_prefix = 32,
		};
		peer->sin_family = AF_INET;
		peer->sin_addr.s_addr = htonl(0x0a000000 + 2 * i);
	}
	suggestion_print_rules(file, &seen_now, &options);
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_msg(policy_load_text(&policy, "suggested", text, size, diag) == 0 &&
			      !complaints_at(&diag->errors, 0),
		      "%s", complaints_at(&diag->errors, 0));
	for (unsigned i = 0; i < 5000; i++) {
		struct asked asked = { .operation = many[i].operation,
				       .uid = many[i].who.uid,
				       .port = many[i].port,
				       .peer = many[i].peer };

		if (!is_allowed(policy, &asked))
			complain("refused", "", &asked);
	}
	policy_unref(policy);
	diag_free(diag);
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("suggestion");
	TCase *tc = tcase_create("suggestion");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tc, 600);
	tcase_add_test(tc, random_tables);
	tcase_add_test(tc, long_lists);
	tcase_add_test(tc, groups_in_place_of_users);
	tcase_add_test(tc, tests_name_what_comes_back);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

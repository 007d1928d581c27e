/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Rules that never decide. With random policies, a rule of which this is said must not decide about any question.
 * SEED=N repeats a run, and ROUNDS=N sets its length.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/rules.h"
#include "policy/shadow.h"
#include "tests/unit/check_policy.h"
#include "tests/unit/oracle.h"
#include "tests/unit/randompolicy.h"

#define ROUNDS 300
#define PAIRS 60 /* of a policy */
#define QUESTIONS 40 /* about a pair */

static enum shade find_in(const struct policy *in, size_t rule, size_t *ret_by)
{
	size_t steps = SHADOW_STEPS;

	*ret_by = SIZE_MAX;
	return shadow_find(in, rule, &steps, ret_by);
}

/* What the rule FIRST leaves to the rule SECOND. */
static enum shade shade_of(const char *first, const char *second)
{
	char text[1024];
	enum shade shade;
	size_t by;

	snprintf(text, sizeof(text),
		 "set small = { 10.1.0.0/16, 10.2.3.4 }\nset large = { 10.0.0.0/8, fd00::/16 }\n"
		 "%s\n%s\n",
		 first, second);
	load(text);
	shade = find_in(policy, 1, &by);
	ck_assert(shade == SHADE_NONE || by == 0);
	return shade;
}

static void assert_shade(const char *first, const char *second, enum shade expected)
{
	enum shade shade = shade_of(first, second);

	ck_assert_msg(shade == expected, "%d instead of %d: %s\n%s", shade, expected, first,
		      second);
}

#define assert_always(first, second) assert_shade(first, second, SHADE_ALWAYS)
#define assert_if_known(first, second) assert_shade(first, second, SHADE_IF_KNOWN)
#define assert_none(first, second) assert_shade(first, second, SHADE_NONE)

START_TEST(operations_count)
{
	assert_always("allow any", "reject accept port 4420");
	assert_always("allow any", "reject any");
	assert_always("allow session", "allow session");
	assert_none("allow session", "reject device");
	assert_none("allow session", "reject any");
	/* "any" is neither observe nor admin. */
	assert_none("allow any", "allow admin");
	/* With a match, "any" is only the operations that have it. */
	assert_always("allow connect", "allow connect peer 10.1.0.0/16");
	assert_none("allow connect", "allow any peer 10.1.0.0/16");
	assert_always("reject any peer 10.0.0.0/8", "allow join peer 10.1.0.0/16");
	assert_none("reject any peer 10.0.0.0/8", "allow listen");
}
END_TEST

/* Allow rules behind reject rules, and all rules behind rules of their own kind. */
START_TEST(matches_that_contain_others)
{
	assert_always("allow any user 5,6,7", "allow any user 5,7");
	assert_none("allow any user 5,6", "allow any user 5,7");
	assert_none("allow any user 5", "allow any");
	assert_none("allow any user 5", "allow any group 5");
	assert_if_known("allow any group 5", "reject listen group 5 user 7 port 80");
	assert_always("allow any user 5", "reject listen group 5 user 5 port 80");
	assert_none("allow any group 5", "reject listen group 5,6");
	assert_always("allow listen port 1-9,10-20", "allow listen port 5-15,20");
	assert_none("allow listen port 1-9,11-20", "allow listen port 5-15");
	assert_always("allow connect peer 10.0.0.0/8", "allow connect peer 10.1.2.3 port 7");
	assert_always("allow connect peer @large", "allow connect peer @small");
	assert_always("allow connect peer @small", "allow connect peer @small");
	assert_none("allow connect peer @small", "allow connect peer @large");
	assert_none("allow connect peer 0.0.0.0/0", "allow connect peer fd00::1");
	assert_none("allow connect peer 10.0.0.0/8", "allow connect local 10.0.0.0/8");
	assert_always("allow listen ps tcp", "allow listen ps tcp port 9");
	assert_none("allow listen ps tcp", "allow listen ps udp");
	assert_always("allow accept data \"NVMe\"", "allow accept data \"NVMe-of\"");
	assert_none("allow accept data \"NVMe-of\"", "allow accept data \"NVMe\"");
	assert_always("reject listen local 10.0.0.0/8", "allow listen local 10.1.0.0/16");
	assert_always("reject listen local 10.0.0.0/8", "reject listen local 10.1.0.0/16");
}
END_TEST

START_TEST(patterns_that_contain_others)
{
	assert_always("allow listen device *", "allow listen device mlx5_?");
	assert_always("allow listen device mlx5_*", "allow listen device mlx5_1*");
	assert_always("allow listen device mlx5_[0-3]", "allow listen device mlx5_2");
	assert_none("allow listen device mlx5_[0-3]", "allow listen device mlx5_4");
	assert_always("allow listen device mlx5_[0-3]", "allow listen device mlx5_[0-3]");
	/* It does, but only a comparison of the two sets of names would show it. */
	assert_none("allow listen device mlx5_[0-3]", "allow listen device mlx5_[0-2]");
	assert_none("allow listen device mlx5_1*", "allow listen device mlx5_*");
	assert_none("allow listen device mlx*_1", "allow listen device mlx5_*");
	assert_always("allow any unit user@*", "allow any unit user@7.service");
	/* A wildcard does not match a slash. */
	assert_none("allow any container *", "allow any container user-7/*");
	assert_none("allow any container *", "allow any container user-7/a");
	assert_always("allow any container user-*/*", "allow any container user-7/a");
	/* Control groups below. */
	assert_always("allow any cgroup /a", "allow any cgroup /a/b");
	assert_always("allow any cgroup /", "allow any cgroup /a/b");
	assert_always("allow any cgroup /*", "allow any cgroup /a/b");
	assert_none("allow any cgroup /a/b", "allow any cgroup /a");
	assert_none("allow any cgroup /a", "allow any cgroup /ab");
}
END_TEST

/* If the fact is unknown, the allow rule does not match, and the reject rule does. */
START_TEST(rejects_behind_allows)
{
	assert_always("allow accept user 5", "reject accept user 5 port 4420");
	/* A client can have too many groups. */
	assert_if_known("allow accept group 5", "reject accept group 5 port 4420");
	assert_if_known("allow accept port 1-100", "reject accept port 7 peer 10.0.0.0/8");
	assert_if_known("allow connect user 5 peer @large", "reject connect user 5 peer @small");
	assert_if_known("allow device device mlx*", "reject device device mlx5_0");
	assert_if_known("allow listen ps tcp", "reject listen ps tcp port 7");
	/* This is how listeners on all addresses are rejected. */
	assert_none("allow listen local 10.1.0.0/16", "reject listen local 10.1.0.0/16");
	assert_none("allow listen port 7", "reject listen port 7");
	/* The unit can be unknown before Linux 6.5, and the data after a connection was accepted. */
	assert_none("allow any unit a.service", "reject any unit a.service");
	assert_none("allow accept data 0x00", "reject accept data 0x00");
	/* An allow rule is not needed if its facts are unknown. */
	assert_always("allow any unit a.service", "allow any unit a.service");
}
END_TEST

/* Who the peer is can be assumed, for each kind of rule differently. */
/* An allow rule without 'pkey' does not cover a partition that is named. */
START_TEST(partitions)
{
	assert_always("allow any", "allow any");
	assert_always("allow connect pkey 1-9", "allow connect pkey 0x8002,5 user 7");
	assert_none("allow connect pkey 1-9", "allow connect pkey 9-10");
	assert_none("allow connect pkey 1-9", "allow connect");
	assert_none("allow connect", "allow connect pkey 5");
	assert_none("allow connect", "reject connect pkey 5");
	assert_always("reject connect", "allow connect pkey 5");
	assert_if_known("allow connect pkey 1-9", "reject connect pkey 5");
	assert_none("allow listen pkey 1-9", "reject listen pkey 5");
	/* Without other rules about partitions a reject rule changes nothing. */
	assert_always("allow connect", "reject connect user 7");
	assert_shade("allow connect", "reject connect user 7\nallow join pkey 5", SHADE_IF_IMPLIED);
	assert_shade("allow connect", "warn connect", SHADE_IF_IMPLIED);
	assert_always("warn connect", "reject connect user 7\nallow join pkey 5");
	assert_always("allow session", "reject session user 7\nallow join pkey 5");
	assert_if_known("allow connect ps tcp", "reject connect ps tcp\nallow join pkey 5");
}
END_TEST

START_TEST(rules_about_who_the_peer_is)
{
	assert_none("reject accept peer-same user", "allow accept peer-same user user 7");
	assert_none("allow accept peer-user 7", "allow accept peer-user 7");
	assert_always("allow accept", "reject accept peer-user 7");
	assert_always("reject accept", "allow accept peer-same unit");
}
END_TEST

/* A request above a limit is refused as busy, and later rules are not considered. */
START_TEST(settings_do_not_count)
{
	assert_always("allow listen max 1 rate 5/s", "allow listen port 7");
	assert_always("allow listen", "allow listen port 80 max-per-user 7 log");
	assert_always("reject any reason \"no\"", "reject any reason \"other\" log");
}
END_TEST

/* Among many rules, the first of those that contain the rule is found. */
START_TEST(among_many_rules)
{
	static char text[65536];
	char *at = text;
	size_t by;

	for (int i = 0; i < 400; i++)
		at += sprintf(at, "allow accept user %d port %d peer 10.%d.0.0/16\n", 1000 + i,
			      1000 + i, i % 200);
	at += sprintf(at, "reject accept port 2000-3000 peer 11.0.0.0/8\nreject device unit a*\n");
	at += sprintf(at, "allow accept port 2500 peer 11.1.0.0/16 user 5\n");
	at += sprintf(at, "allow accept user 1007 port 1007 peer 10.7.1.0/24\n");
	at += sprintf(at,
		      "allow device user 6 unit ab.service\nallow accept user 1007 port 1008\n");
	load(text);
	for (size_t i = 0; i < 402; i++)
		ck_assert_int_eq(find_in(policy, i, &by), SHADE_NONE);
	ck_assert_int_eq(find_in(policy, 402, &by), SHADE_ALWAYS);
	ck_assert_uint_eq(by, 400);
	ck_assert_int_eq(find_in(policy, 403, &by), SHADE_ALWAYS);
	ck_assert_uint_eq(by, 7);
	ck_assert_int_eq(find_in(policy, 404, &by), SHADE_ALWAYS);
	ck_assert_uint_eq(by, 401);
	ck_assert_int_eq(find_in(policy, 405, &by), SHADE_NONE);
}
END_TEST

/* No row tells these rules apart. */
START_TEST(the_work_has_a_limit)
{
	size_t n = 2000, size, steps = 5000, by = SIZE_MAX;
	char *text;
	FILE *f = open_memstream(&text, &size);

	for (size_t i = 0; i < n; i++)
		fprintf(f, "allow accept peer-user %zu\n", i);
	fprintf(f, "allow session\nallow session\n");
	fclose(f);
	ck_assert_int_eq(load_bytes(text, size), 0);
	free(text);
	for (size_t i = 1; i < n; i++)
		ck_assert_int_eq(shadow_find(policy, i, &steps, &by), SHADE_NONE);
	ck_assert_uint_eq(steps, 0);
	ck_assert_int_eq(shadow_find(policy, n + 1, &steps, &by), SHADE_NONE);
	steps = 5000;
	ck_assert_int_eq(shadow_find(policy, n + 1, &steps, &by), SHADE_ALWAYS);
	ck_assert_uint_eq(by, n);
}
END_TEST

START_TEST(warnings_name_both_rules)
{
	char dir[] = "/tmp/check_shadow.XXXXXX", path[64], expected[512];
	const char *files[] = { path };
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/t.rules", dir);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs("allow  any \\\n  user 5\n\n\treject accept user 5 port 4420\n"
	      "allow listen user 5\nallow listen user 6 ps tcp\nreject listen user 6 ps tcp\n",
	      f);
	fclose(f);
	chmod(path, 0644);
	ck_assert_int_eq(policy_load_files(&policy, files, 1, diag), 0);
	unlink(path);
	rmdir(dir);
	ck_assert_uint_eq(diag->errors.n, 0);
	ck_assert_uint_eq(diag->warnings.n, 3);
	snprintf(expected, sizeof(expected),
		 "%s:4:2: this rule never decides, because \"allow any user 5\" in %s:1:1 is "
		 "before it and matches all that it matches",
		 path, path);
	ck_assert_str_eq(complaints_at(&diag->warnings, 0), expected);
	ck_assert_ptr_nonnull(
		strstr(complaints_at(&diag->warnings, 1), "t.rules:5:1: this rule never"));
	snprintf(
		expected, sizeof(expected),
		"%s:7:1: this rule decides only if a fact is unknown, because \"allow listen user 6 ps "
		"tcp\" in %s:6:1 is before it and otherwise matches all that it matches",
		path, path);
	ck_assert_str_eq(complaints_at(&diag->warnings, 2), expected);
}
END_TEST

/* An address in SET, for a question about a rule. */
static const struct sockaddr *address_in(const struct prefix_set *set, struct sockaddr_storage *ret)
{
	const struct prefix *prefix = &set->prefixes[pick((int)set->n)];
	uint8_t host[16];

	memcpy(host, prefix->address, sizeof(host));
	/* A wildcard address would not be known. */
	if (prefix->bits == 0)
		host[prefix->family == 4 ? 3 : 15] = 1;
	addr_set_host(ret, prefix->family, host);
	return (struct sockaddr *)ret;
}

/* Returns a name that GLOB probably matches. */
static const char *name_for(const char *glob, char ret[128])
{
	size_t n = strcspn(glob, "*?[\\");

	snprintf(ret, 128, "%.*s%s", (int)n, glob, glob[n] ? (one_in(2) ? "1" : "1/a") : "");
	return ret;
}

/* Turns QUESTION into one that the rule with CONDITION probably matches. Facts that are unknown stay so. */
static void aim(struct policy_question *question, struct facts *facts,
		const struct policy_condition *condition, const struct policy_match *matches)
{
	static char names[_FACT_MAX][128];

	/* With "if (!(set & 1u << n)) n = __builtin_ctz(set)", gcc 14.2 leaves n as it is. */
	do
		question->operation = pick(_POLICY_OPERATION_MAX);
	while (!(condition->operations & 1u << question->operation));
	for (unsigned i = 0; i < condition->n_matches; i++) {
		const struct policy_match *match = &matches[condition->first_match + i];
		const union policy_value *value = &match->value;
		enum policy_fact d = match->word->fact;

		if (one_in(10))
			continue;
		if (d == FACT_USER)
			question->uid = value->ids->ids[pick((int)value->ids->n)];
		else if (d == FACT_GROUP && question->n_gids > 0)
			facts->gids[0] = value->ids->ids[pick((int)value->ids->n)];
		else if (d == FACT_UNIT && question->workload[WORKLOAD_UNIT])
			question->workload[WORKLOAD_UNIT] = name_for(value->glob, names[d]);
		else if (d == FACT_CONTAINER && question->workload[WORKLOAD_CONTAINER])
			question->workload[WORKLOAD_CONTAINER] = name_for(value->glob, names[d]);
		else if (d == FACT_CGROUP && question->workload[WORKLOAD_CGROUP])
			question->workload[WORKLOAD_CGROUP] = name_for(value->glob, names[d]);
		else if (d == FACT_DEVICE && question->device)
			question->device = name_for(value->glob, names[d]);
		else if (d == FACT_PS && question->port_space)
			question->port_space = value->number;
		else if (d == FACT_PORT && question->port > 0)
			question->port = one_in(2) ? value->ports->ranges[0].first :
						     value->ports->ranges[value->ports->n - 1].last;
		else if (d == FACT_PKEY && question->pkey)
			question->pkey = value->ports->ranges[0].first;
		else if (d == FACT_PEER && question->peer)
			question->peer = address_in(value->prefixes, &facts->peer);
		else if (d == FACT_LOCAL && question->local)
			question->local = address_in(value->prefixes, &facts->local);
		else if (d == FACT_DATA && question->knows_data) {
			question->data = value->data->bytes;
			question->data_len = value->data->len;
		}
	}
}

/* Counts of what was tested. If a count is 0, the run proves nothing about that case. */
static struct {
	unsigned long policies, rules, asked;
	unsigned long pairs[SHADE_ALWAYS + 1][2]
			   [2]; /* by shade, and by whether the two rules allow */
	unsigned long would; /* questions that the rule alone would have decided */
} seen;

static void try_pair(const struct policy *whole, size_t first, size_t second, enum shade shade)
{
	const size_t numbers[] = { first, second };
	struct policy_condition conditions[2], one_condition[1];
	struct policy_rule rules[2], one_rule[1];
	struct policy both = policy_part(whole, rules, conditions, numbers, 2);
	struct policy alone = policy_part(whole, one_rule, one_condition, numbers + 1, 1);
	struct policy_question question;
	struct policy_verdict verdict;
	struct facts facts;

	seen.pairs[shade][rules[0].allow][rules[1].allow]++;
	for (int i = 0; i < QUESTIONS; i++) {
		bool knows_all = random_question(&question, &facts);

		aim(&question, &facts, &conditions[1], whole->matches);
		if (shade == SHADE_IF_KNOWN && !knows_all)
			continue;
		/* Where no rule is about partitions, shadow.h leaves those aside that are named. */
		if (shade != SHADE_ALWAYS || !both.has_pkey || question.operation < POLICY_LISTEN ||
		    question.operation > POLICY_JOIN)
			question.names_pkey = false;
		seen.asked++;
		policy_decide(&alone, &question, &verdict);
		seen.would += verdict.rule != NULL;
		policy_decide(&both, &question, &verdict);
		ck_assert_msg(verdict.rule != &rules[1], "policy %lu: answer %d by\n%s\nbehind\n%s",
			      seen.policies, verdict.answer, rules[1].text, rules[0].text);
	}
	rows_done(&both.rows);
	rows_done(&alone.rows);
}

/* Each rule before RULE that takes its requests, not only the first, tells whether the comparison is right. */
static unsigned try_rule(const struct policy *whole, size_t rule)
{
	const size_t numbers[] = { pick((int)rule), rule };
	struct policy_condition conditions[2];
	struct policy_rule rules[2];
	struct policy both = policy_part(whole, rules, conditions, numbers, 2);
	unsigned n_pairs = 0;
	enum shade shade;
	size_t by;

	shade = find_in(&both, 1, &by);
	rows_done(&both.rows);
	if (shade != SHADE_NONE) {
		try_pair(whole, numbers[0], rule, shade);
		n_pairs++;
	}
	shade = find_in(whole, rule, &by);
	if (shade != SHADE_NONE) {
		ck_assert_uint_lt(by, rule);
		try_pair(whole, by, rule, shade);
		n_pairs++;
	}
	return n_pairs;
}

/* The same rule is found by a closer look at each earlier rule, whatever its row says. */
static void compare_with_pairs(const struct policy *whole, size_t rule)
{
	size_t by, by_pair = SIZE_MAX, ignored;
	enum shade shade = find_in(whole, rule, &by), best = SHADE_NONE;

	for (size_t i = 0; i < rule && best != SHADE_ALWAYS; i++) {
		const size_t numbers[] = { i, rule };
		struct policy_condition conditions[2];
		struct policy_rule rules[2];
		struct policy pair = policy_part(whole, rules, conditions, numbers, 2);
		enum shade one;

		for (size_t k = 0; k < pair.rows.first[_POLICY_OPERATION_MAX]; k++)
			if (pair.rows.rows[k].rule == 0)
				pair.rows.rows[k].has = 0;
		one = find_in(&pair, 1, &ignored);
		if (one > best) {
			best = one;
			by_pair = i;
		}
		rows_done(&pair.rows);
	}
	ck_assert_int_eq(shade, best);
	ck_assert_uint_eq(by, by_pair);
}

START_TEST(random_rules)
{
	unsigned long rounds = number_from("ROUNDS", ROUNDS / SLOWER);
	unsigned long seed = number_from("SEED", 1);

	printf("# SEED=%lu ROUNDS=%lu\n", seed, rounds);
	fflush(stdout);
	random_state = seed;
	for (unsigned long round = 0; round < rounds; round++) {
		unsigned n_pairs = 0;
		size_t n;

		shape = random_shape();
		policy = random_policy(&n);
		for (size_t i = 1; i < n; i++) {
			if (n_pairs < PAIRS)
				n_pairs += try_rule(policy, i);
			if (one_in(10))
				compare_with_pairs(policy, i);
		}
		seen.policies++;
		seen.rules += n;
		policy = policy_unref(policy);
	}
	printf("# %lu policies of %lu rules in all, %lu questions, of which the rule alone would "
	       "decide %lu; pairs: allow allow %lu, reject reject %lu, reject allow %lu, allow reject "
	       "%lu, if known %lu\n",
	       seen.policies, seen.rules, seen.asked, seen.would, seen.pairs[SHADE_ALWAYS][1][1],
	       seen.pairs[SHADE_ALWAYS][0][0], seen.pairs[SHADE_ALWAYS][0][1],
	       seen.pairs[SHADE_ALWAYS][1][0], seen.pairs[SHADE_IF_KNOWN][1][0]);
	fflush(stdout);
	ck_assert_uint_ge(seen.would, seen.asked / 3);
	ck_assert_uint_ge(seen.pairs[SHADE_ALWAYS][1][1], rounds);
	ck_assert_uint_ge(seen.pairs[SHADE_ALWAYS][0][0], rounds);
	ck_assert_uint_ge(seen.pairs[SHADE_ALWAYS][0][1], rounds);
	ck_assert_uint_ge(seen.pairs[SHADE_ALWAYS][1][0], rounds);
	ck_assert_uint_ge(seen.pairs[SHADE_IF_KNOWN][1][0], rounds / 2);
}
END_TEST

UNIT_MAIN("policy_shadow", policy_set_up, policy_tear_down, operations_count,
	  matches_that_contain_others, patterns_that_contain_others, rejects_behind_allows,
	  partitions, rules_about_who_the_peer_is, settings_do_not_count, among_many_rules,
	  the_work_has_a_limit, warnings_name_both_rules, random_rules)

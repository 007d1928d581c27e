/* SPDX-License-Identifier: BSD-2-Clause */
#include <fnmatch.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check_policy_question.h"

/*
 * Decisions about random questions by random rules. naive_decide() is a simple scan of all rules, written after the
 * description in policy.h.
 */

enum { NO, MAYBE, YES };

struct naive_rule {
	bool allow;
	int operation;
	int uid, gid, ps; /* -1: not named */
	int first_port, last_port; /* -1: not named */
	int local, peer; /* index of prefixes; -1: not named */
	const char *device;
};

static const struct {
	const char *text;
	const char *start; /* the addresses[] in this prefix begin with this text */
} prefixes[] = {
	{ "10.1.0.0/16", "10.1." }, { "10.0.0.0/8", "10." },
	{ "10.1.2.3", "10.1.2.3" }, { "::ffff:10.2.0.0/112", "10.2." },
	{ "fd00::/16", "fd00:" },   { "@s", NULL }, /* the set { 10.1.0.0/16, fd00::/16 } */
};

static const char *const addresses[] = { "10.1.2.3", "10.1.9.9", "10.2.0.1",
					 "11.0.0.1", "fd00::1",  "fe80::1" };
static const char *const globs[] = { "rxe*", "mlx5_?", "rxe1" };
static const char *const devices[] = { "rxe0", "rxe1", "mlx5_0", "other" };
static const int port_spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP };
static const char *const operations[] = { "session", "device",  "listen", "connect", "accept",
					  "join",    "observe", "admin",  "any" };

/* The facts of a question as indices; -1: not known. */
struct naive_question {
	int operation, uid, n_gids;
	int local, peer; /* indices of addresses */
	bool is_mapped; /* IPv4 addresses are given as IPv4-mapped IPv6 addresses */
	int device; /* index of devices */
	int ps; /* index of port_spaces */
	int port;
};

static bool starts_with(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

static int naive_address(int which, int known)
{
	if (which < 0)
		return YES;
	if (known < 0)
		return MAYBE;
	if (!prefixes[which].start)
		return starts_with(addresses[known], "10.1.") ||
				       starts_with(addresses[known], "fd00:") ?
			       YES :
			       NO;
	return starts_with(addresses[known], prefixes[which].start) ? YES : NO;
}

static int naive_match(const struct naive_rule *rule, const struct naive_question *q)
{
	int all = YES, some[7], n = 0;
	bool is_cm = q->operation >= POLICY_LISTEN && q->operation <= POLICY_JOIN;

	if (rule->operation == _POLICY_OPERATION_MAX ? q->operation >= POLICY_OBSERVE :
						       rule->operation != q->operation)
		return NO;
	if ((rule->local >= 0 || rule->first_port >= 0 || rule->ps >= 0) && !is_cm)
		return NO;
	if (rule->first_port >= 0 && q->operation == POLICY_JOIN)
		return NO;
	if (rule->peer >= 0 && q->operation != POLICY_CONNECT && q->operation != POLICY_ACCEPT &&
	    q->operation != POLICY_JOIN)
		return NO;
	if (rule->device && (q->operation == POLICY_SESSION || q->operation >= POLICY_OBSERVE))
		return NO;

	some[n++] = rule->uid < 0 || rule->uid == q->uid ? YES : NO;
	some[n++] = rule->gid < 0 ? YES : NO;
	for (int i = 0; i < q->n_gids; i++)
		if (rule->gid == (int)gids[i])
			some[1] = YES;
	some[n++] = naive_address(rule->local, q->local);
	some[n++] = naive_address(rule->peer, q->peer);
	some[n++] = rule->first_port < 0                                      ? YES :
		    q->port < 0                                               ? MAYBE :
		    q->port >= rule->first_port && q->port <= rule->last_port ? YES :
										NO;
	some[n++] = !rule->device                                 ? YES :
		    q->device < 0                                 ? MAYBE :
		    !fnmatch(rule->device, devices[q->device], 0) ? YES :
								    NO;
	some[n++] = rule->ps < 0 ? YES : q->ps < 0 ? MAYBE : rule->ps == q->ps ? YES : NO;
	for (int i = 0; i < n; i++)
		all = some[i] < all ? some[i] : all;
	return all;
}

/* *RET_RULE becomes the index of the rule that decides; -1: none. */
static enum policy_answer naive_decide(const struct naive_rule *rules, int n,
				       const struct naive_question *q, bool early, int *ret_rule)
{
	*ret_rule = -1;
	for (int i = 0; i < n; i++) {
		int m = naive_match(&rules[i], q);

		if (m == NO || (m == MAYBE && !early && rules[i].allow))
			continue;
		*ret_rule = i;
		if (m == YES || !early)
			return rules[i].allow ? POLICY_ALLOW : POLICY_REJECT;

		/* Try all rules that can still decide. The first one that certainly matches ends the loop. */
		for (int k = i; k < n; k++) {
			m = naive_match(&rules[k], q);
			if (m != NO && rules[k].allow)
				return POLICY_DEFER;
			if (m == YES)
				break;
		}
		return POLICY_REJECT;
	}
	return POLICY_REJECT;
}

static int pick(int n)
{
	return random() % n;
}

/* Returns -1 in three of four cases, else a random number below N. */
static int seldom(int n)
{
	return pick(4) ? -1 : pick(n);
}

static struct naive_rule random_rule(void)
{
	struct naive_rule rule = { .allow = pick(3) > 0,
				   .operation = pick(_POLICY_OPERATION_MAX + 1) };
	int operation = rule.operation;
	bool is_any = operation == _POLICY_OPERATION_MAX;
	bool is_cm = operation >= POLICY_LISTEN && operation <= POLICY_JOIN;

	rule.uid = pick(4) ? -1 : 1000 + pick(2);
	rule.gid = pick(4) ? -1 : (int)gids[pick(3)];
	rule.local = rule.peer = rule.first_port = rule.last_port = rule.ps = -1;
	if (is_cm) {
		rule.local = seldom(6);
		rule.first_port = operation == POLICY_JOIN ? -1 : seldom(10);
		rule.ps = seldom(2);
	}
	if (rule.first_port >= 0) {
		rule.first_port++;
		rule.last_port = rule.first_port + pick(5);
	}
	if (operation == POLICY_CONNECT || operation == POLICY_ACCEPT || operation == POLICY_JOIN ||
	    is_any)
		rule.peer = seldom(6);
	if (operation != POLICY_SESSION && operation != POLICY_OBSERVE &&
	    operation != POLICY_ADMIN && !pick(6))
		rule.device = globs[pick(3)];
	return rule;
}

static void print_rule(FILE *f, const struct naive_rule *rule)
{
	fprintf(f, "%s %s", rule->allow ? "allow" : "reject", operations[rule->operation]);
	if (rule->peer >= 0)
		fprintf(f, " peer %s", prefixes[rule->peer].text);
	if (rule->uid >= 0)
		fprintf(f, pick(2) ? " user %d" : " user 5,%d,7", rule->uid);
	if (rule->gid >= 0)
		fprintf(f, " group %d", rule->gid);
	if (rule->device)
		fprintf(f, " device %s", rule->device);
	if (rule->local >= 0)
		fprintf(f, " local %s", prefixes[rule->local].text);
	if (rule->ps >= 0)
		fprintf(f, " ps %s", rule->ps ? "udp" : "tcp");
	if (rule->first_port >= 0)
		fprintf(f, pick(2) ? " port %d-%d" : " port 4000,%d-%d", rule->first_port,
			rule->last_port);
	fputc('\n', f);
}

static struct naive_question random_question(void)
{
	return (struct naive_question){
		.operation = pick(_POLICY_OPERATION_MAX),
		.uid = 1000 + pick(3),
		.n_gids = pick(4),
		.local = pick(2) ? -1 : pick(6),
		.peer = pick(2) ? -1 : pick(6),
		.is_mapped = pick(2),
		.device = pick(2) ? -1 : pick(4),
		.ps = pick(2) ? -1 : pick(2),
		.port = pick(2) ? -1 : 1 + pick(15),
	};
}

static const struct sockaddr *naive_sockaddr(const struct naive_question *q, int which)
{
	char text[64];

	if (which < 0)
		return pick(2) ? NULL : address(pick(2) ? "::" : "0.0.0.0");
	if (!q->is_mapped || strchr(addresses[which], ':'))
		return address(addresses[which]);
	snprintf(text, sizeof(text), "::ffff:%s", addresses[which]);
	return address(text);
}

static void put_question(const struct naive_question *q, bool early)
{
	question = (struct policy_question){
		.operation = q->operation,
		.early = early,
		.uid = q->uid,
		.gids = gids,
		.n_gids = q->n_gids,
		.local = naive_sockaddr(q, q->local),
		.peer = naive_sockaddr(q, q->peer),
		.port = q->port < 0 && pick(2) ? 0 : q->port,
		.device = q->device < 0 ? NULL : devices[q->device],
		.port_space = q->ps < 0 ? 0 : port_spaces[q->ps],
	};
	policy_decide(policy, &question, &verdict);
}

#define RULES_MAX 24

static int load_random_rules(struct naive_rule *rules)
{
	int n = 1 + pick(RULES_MAX);
	char *text;
	size_t size;
	FILE *f;

	f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	fputs("set t = { 10.1.0.0/16 }\nset s = { fd00::/16, @t, 10.1.2.0/24 }\n", f);
	for (int i = 0; i < n; i++) {
		rules[i] = random_rule();
		print_rule(f, &rules[i]);
	}
	fclose(f);
	load(text);
	ck_assert_uint_eq(policy_n_rules(policy), n);
	free(text);
	return n;
}

START_TEST(a_scan_decides_the_same)
{
	struct naive_rule rules[RULES_MAX];
	int seen[3] = { 0 };

	srandom(2);
	for (int round = 0; round < 1500; round++) {
		int n = load_random_rules(rules);

		for (int i = 0; i < 20; i++) {
			struct naive_question q = random_question();
			bool early = pick(2);
			enum policy_answer expected;
			int rule;

			expected = naive_decide(rules, n, &q, early, &rule);
			put_question(&q, early);
			ck_assert_int_eq(verdict.answer, expected);
			ck_assert_ptr_eq(verdict.rule,
					 rule < 0 ? NULL : policy_rule_at(policy, rule));
			seen[expected]++;
		}
	}
	/* Each decision must be frequent, otherwise the random questions test little. */
	for (int i = 0; i < 3; i++)
		ck_assert_int_gt(seen[i], 1000);
}
END_TEST

/* An early decision other than "defer" is final, whatever the unknown facts are. */
START_TEST(early_answers_hold)
{
	struct naive_rule rules[RULES_MAX];
	int n_checked = 0;

	srandom(3);
	for (int round = 0; round < 500; round++) {
		load_random_rules(rules);
		for (int i = 0; i < 20; i++) {
			struct naive_question q = random_question(), full;
			struct policy_verdict early;

			put_question(&q, true);
			early = verdict;
			if (early.answer == POLICY_DEFER)
				continue;
			for (int k = 0; k < 10; k++) {
				full = random_question();
				full.operation = q.operation;
				full.uid = q.uid;
				full.n_gids = q.n_gids;
				full.local = q.local >= 0 ? q.local : pick(6);
				full.peer = q.peer >= 0 ? q.peer : pick(6);
				full.device = q.device >= 0 ? q.device : pick(4);
				full.ps = q.ps >= 0 ? q.ps : pick(2);
				full.port = q.port >= 0 ? q.port : 1 + pick(15);
				put_question(&full, false);
				ck_assert_int_eq(verdict.answer, early.answer);
				if (early.answer == POLICY_ALLOW)
					ck_assert_ptr_eq(verdict.rule, early.rule);
				n_checked++;
			}
		}
	}
	ck_assert_int_gt(n_checked, 10000);
}
END_TEST

UNIT_MAIN("policy_scan", policy_set_up, policy_tear_down, a_scan_decides_the_same,
	  early_answers_hold)

/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * With random policies and questions, a policy must decide as what each of its rules does alone says. SEED=N repeats a
 * run, and ROUNDS=N sets its length.
 */

#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "tests/unit/oracle.h"
#include "tests/unit/randompolicy.h"
#include "util/diag.h"

#define FEW 16
#define ROUNDS 4000
#define QUESTIONS 320 /* questions in a round */

/* Counts of what was tested. If a count is 0, the run proves nothing about that case. */
static struct {
	unsigned long policies, rules, questions;
	unsigned long answers[4], defaults;
	unsigned long by_peer[2]; /* decisions that depended on who the peer is */
	unsigned long later_rules; /* questions that a rule behind the first FEW has decided */
	/* questions that no rule decided, although the policy has more than FEW */
	unsigned long gone_through;
} seen;

static void count_verdict(const struct policy_verdict *verdict, size_t n_rules)
{
	seen.questions++;
	seen.answers[verdict->answer]++;
	if (!verdict->rule)
		seen.defaults++;
	if (!verdict->rule && n_rules > FEW)
		seen.gone_through++;
	else if (verdict->rule && verdict->rule->index >= FEW)
		seen.later_rules++;
}

static void ask_both(const struct policy *policy, const struct oracle *oracle,
		     const struct policy_question *question)
{
	struct policy_verdict fast, slow;

	policy_decide(policy, question, &fast);
	oracle_decide(oracle, question, &slow);
	/* Nobody is asked if nothing depends on it, or if it is known already. */
	ck_assert(fast.answer != POLICY_ASK ||
		  (question->can_ask && !question->who && policy_asks(policy)));
	if (fast.answer != slow.answer || fast.rule != slow.rule ||
	    strcmp(fast.reason ?: "", slow.reason ?: "") != 0)
		ck_abort_msg("policy %lu of %zu rules, question %lu: rule %ld (%s) instead of "
			     "rule %ld (%s)",
			     seen.policies, policy_n_rules(policy), seen.questions,
			     fast.rule ? (long)fast.rule->index : -1L,
			     fast.rule ? fast.rule->text : "none",
			     slow.rule ? (long)slow.rule->index : -1L,
			     slow.rule ? slow.rule->text : "none");
	count_verdict(&fast, policy_n_rules(policy));
}

/*
 * QUESTION does not say who the peer is, but everything else. If nobody has to be asked, the decision is the same for
 * every peer. What the decision for any peer allows is allowed if the answer is assumed.
 */
static void try_peers(const struct policy *policy, struct policy_question question,
		      struct facts *facts)
{
	struct policy_verdict unknown, assumed, known;

	question.early = question.assume_who = false;
	question.can_ask = true;
	policy_decide(policy, &question, &unknown);
	question.assume_who = true;
	policy_decide(policy, &question, &assumed);
	ck_assert_int_ne(assumed.answer, POLICY_ASK);
	for (int i = 0; i < 3; i++) {
		question.who = random_who(facts);
		policy_decide(policy, &question, &known);
		ck_assert_int_ne(known.answer, POLICY_ASK);
		if (unknown.answer != POLICY_ASK)
			ck_assert_int_eq(known.answer, unknown.answer);
		else
			seen.by_peer[known.answer]++;
		if (known.answer == POLICY_ALLOW)
			ck_assert_int_eq(assumed.answer, POLICY_ALLOW);
	}
}

START_TEST(the_first_rule_that_matches_decides)
{
	unsigned long rounds = number_from("ROUNDS", ROUNDS / SLOWER);
	unsigned long seed = number_from("SEED", 1);
	struct policy_question question;
	struct facts facts;
	bool knows_all;

	printf("# SEED=%lu ROUNDS=%lu\n", seed, rounds);
	fflush(stdout);
	random_state = seed;
	for (unsigned long round = 0; round < rounds; round++) {
		struct policy *policy;
		struct oracle *oracle;
		size_t n;

		shape = random_shape();
		policy = random_policy(&n);
		oracle = oracle_new(policy);
		for (int i = 0; i < QUESTIONS; i++) {
			knows_all = random_question(&question, &facts);
			ask_both(policy, oracle, &question);
			if (knows_all && !question.who)
				try_peers(policy, question, &facts);
		}
		seen.policies++;
		seen.rules += n;
		oracle_free(oracle);
		policy_unref(policy);
	}

	printf("# %lu policies of %lu rules in all, %lu questions: %lu allowed, %lu rejected (%lu by "
	       "default), %lu deferred, %lu asked; by a rule behind the first %d %lu, by none of more %lu\n",
	       seen.policies, seen.rules, seen.questions, seen.answers[POLICY_ALLOW],
	       seen.answers[POLICY_REJECT], seen.defaults, seen.answers[POLICY_DEFER],
	       seen.answers[POLICY_ASK], FEW, seen.later_rules, seen.gone_through);
	fflush(stdout);
	ck_assert_uint_ge(seen.answers[POLICY_ALLOW], seen.questions / 20);
	ck_assert_uint_ge(seen.answers[POLICY_REJECT], seen.questions / 20);
	ck_assert_uint_ge(seen.answers[POLICY_DEFER], seen.questions / 50);
	ck_assert_uint_ge(seen.answers[POLICY_ASK], seen.questions / 200);
	ck_assert_uint_ge(seen.by_peer[POLICY_ALLOW], seen.questions / 1000);
	ck_assert_uint_ge(seen.by_peer[POLICY_REJECT], seen.questions / 200);
	ck_assert_uint_ge(seen.later_rules, seen.questions / 5);
	ck_assert_uint_ge(seen.gone_through, seen.questions / 20);
	if (rounds >= ROUNDS) {
		ck_assert_uint_ge(seen.rules, 1000000);
		ck_assert_uint_ge(seen.questions, 1000000);
	}
}
END_TEST

/* Loads the policy that N calls of PRINT write. */
static struct policy *load_lines(void (*print)(FILE *f, int i), int n)
{
	struct policy *policy;
	struct diag *diag;
	size_t size;
	char *text;
	FILE *f;

	f = open_memstream(&text, &size);
	for (int i = 0; i < n; i++)
		print(f, i);
	fclose(f);
	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_msg(policy_load_text(&policy, "t", text, size, diag) == 0, "%s",
		      complaints_at(&diag->errors, 0));
	diag_free(diag);
	free(text);
	return policy;
}

static void print_group(FILE *f, int i)
{
	fprintf(f, "%s session group %d user 1000\n", i % 2 ? "allow" : "reject", 1000 + i);
}

/* The user is in so many groups that their bits in a row's facts are all set. */
START_TEST(many_groups)
{
	struct policy *policy = load_lines(print_group, 2000);
	struct oracle *oracle = oracle_new(policy);
	static const int counts[] = { 1, 255, 256, 257, 1023, 1024, 1025 };
	gid_t gids[1025];

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct policy_question question = { .uid = 1000, .gids = gids };

		question.operation = POLICY_SESSION;
		question.n_gids = counts[i];
		for (int k = 0; k < counts[i]; k++)
			gids[k] = 1000 + 1999 - k;
		policy_sort_gids(gids, counts[i]);
		ask_both(policy, oracle, &question);
		question.early = true;
		ask_both(policy, oracle, &question);
		question.uid = 1001;
		ask_both(policy, oracle, &question);
	}
	oracle_free(oracle);
	policy_unref(policy);
}
END_TEST

static void print_overlapping(FILE *f, int i)
{
	fprintf(f, "set s%d = { 10.0.0.0/8, 11.0.%d.%d }\n", i, i / 256, i % 256);
	fprintf(f, "%s accept peer @s%d port %d\n", i % 3 ? "allow" : "reject", i, 1 + i / 2);
}

/* One address is in many sets. */
START_TEST(many_sets)
{
	struct policy *policy = load_lines(print_overlapping, 600);
	struct oracle *oracle = oracle_new(policy);
	struct policy_question question = { .operation = POLICY_ACCEPT };
	struct sockaddr_in peer = { .sin_family = AF_INET };

	question.peer = (struct sockaddr *)&peer;
	for (int i = 0; i < 600; i++) {
		peer.sin_addr.s_addr = htonl(0x0a010101);
		question.port = 1 + i / 2;
		question.early = false;
		ask_both(policy, oracle, &question);
		peer.sin_addr.s_addr = htonl(0x0b000000 + i);
		ask_both(policy, oracle, &question);
		question.early = true;
		ask_both(policy, oracle, &question);
		question.port = -1;
		ask_both(policy, oracle, &question);
	}
	oracle_free(oracle);
	policy_unref(policy);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("policy_property");
	TCase *tcase = tcase_create("policy_property");
	SRunner *runner;
	int failed;

	tcase_add_test(tcase, the_first_rule_that_matches_decides);
	tcase_add_test(tcase, many_groups);
	tcase_add_test(tcase, many_sets);
	tcase_set_timeout(tcase,
			  1500); /* only ends a hang: it computes for a minute on a fast machine */
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

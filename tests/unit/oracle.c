/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "policy/rules.h"
#include "tests/unit/oracle.h"

#define N_ALONE 2

struct oracle {
	const struct policy *policy;
	struct alone {
		struct policy policy;
		struct policy_rule rules[N_ALONE]; /* the rule, and one that allows everything */
		struct policy_condition conditions[N_ALONE];
	} * alone; /* one for each rule */
};

static void finish(struct policy *policy)
{
	policy->rows = (struct policy_rows){ 0 };
	if (rows_make(policy) < 0)
		abort();
}

struct policy policy_part(const struct policy *whole, struct policy_rule *rules,
			  struct policy_condition *conditions, const size_t *numbers, size_t n)
{
	struct policy ret = *whole;

	for (size_t i = 0; i < n; i++) {
		rules[i] = whole->rules[numbers[i]];
		conditions[i] = whole->conditions[numbers[i]];
	}
	ret.rules = rules;
	ret.conditions = conditions;
	ret.n_rules = n;
	finish(&ret);
	return ret;
}

struct oracle *oracle_new(const struct policy *policy)
{
	struct oracle *oracle = calloc(1, sizeof(*oracle));

	if (!oracle)
		abort();
	oracle->policy = policy;
	oracle->alone = calloc(policy->n_rules + 1, sizeof(*oracle->alone));
	if (!oracle->alone)
		abort();
	for (size_t i = 0; i < policy->n_rules; i++) {
		struct alone *alone = &oracle->alone[i];

		alone->policy = *policy;
		alone->policy.rules = alone->rules;
		alone->policy.conditions = alone->conditions;
		alone->policy.n_rules = N_ALONE;
		alone->rules[0] = policy->rules[i];
		alone->conditions[0] = policy->conditions[i];
		alone->rules[1] = (struct policy_rule){ .allow = true };
		alone->conditions[1] =
			(struct policy_condition){ .operations = POLICY_ALL_OPERATIONS,
						   .allow = true };
		finish(&alone->policy);
		/* Each rule gets a closer look: what a row says must not matter. */
		for (size_t k = 0; k < alone->policy.rows.first[_POLICY_OPERATION_MAX]; k++)
			alone->policy.rows.rows[k].has = 0;
	}
	return oracle;
}

void oracle_free(struct oracle *oracle)
{
	for (size_t i = 0; i < oracle->policy->n_rules; i++)
		rows_done(&oracle->alone[i].policy.rows);
	free(oracle->alone);
	free(oracle);
}

/* RET_ASK: it depends only on who the peer is. */
static enum ternary matches(const struct alone *alone, const struct policy_question *question,
			    bool *ret_ask)
{
	struct policy_question sub = *question;
	struct policy_verdict verdict;

	sub.early = sub.can_ask = true;
	sub.assume_who = false;
	policy_decide(&alone->policy, &sub, &verdict);
	*ret_ask = verdict.answer == POLICY_ASK;
	if (verdict.answer == POLICY_ASK || verdict.answer == POLICY_DEFER)
		return TERNARY_UNKNOWN;
	return verdict.rule == &alone->rules[0] ? TERNARY_YES : TERNARY_NO;
}

static bool all_reject(const struct oracle *oracle, size_t first,
		       const struct policy_question *question)
{
	bool ignored;

	for (size_t i = first; i < oracle->policy->n_rules; i++) {
		const struct alone *alone = &oracle->alone[i];
		enum ternary t = matches(alone, question, &ignored);

		if (t != TERNARY_NO && alone->rules[0].allow)
			return false;
		if (t == TERNARY_YES)
			return true;
	}
	return true;
}

static enum policy_answer answer_of(const struct oracle *oracle,
				    const struct policy_question *question, size_t *ret)
{
	for (size_t i = 0; i < oracle->policy->n_rules; i++) {
		const struct alone *alone = &oracle->alone[i];
		bool allow = alone->rules[0].allow, ask;
		enum ternary t = matches(alone, question, &ask);

		*ret = i;
		if (t == TERNARY_NO || (ask && question->assume_who && !allow))
			continue;
		if (t == TERNARY_YES || (ask && question->assume_who))
			return allow ? POLICY_ALLOW : POLICY_REJECT;
		/* Unknown. It does not matter if all the rest rejects, too. */
		if (!allow && all_reject(oracle, i + 1, question))
			return POLICY_REJECT;
		if (ask && question->can_ask)
			return POLICY_ASK;
		if (question->early)
			return POLICY_DEFER;
		if (!allow)
			return POLICY_REJECT;
	}
	*ret = oracle->policy->n_rules;
	return POLICY_REJECT;
}

void oracle_decide(const struct oracle *oracle, const struct policy_question *question,
		   struct policy_verdict *ret)
{
	size_t by;
	enum policy_answer answer = answer_of(oracle, question, &by);
	const struct policy_rule *rule = policy_rule_at(oracle->policy, by);

	*ret = (struct policy_verdict){ .answer = answer, .rule = rule };
	if (answer == POLICY_REJECT)
		ret->reason = !rule ? "no-rule" : rule->reason ? rule->reason : "denied";
}

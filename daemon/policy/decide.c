/* SPDX-License-Identifier: BSD-2-Clause */

#include "policy/index/index.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "policy/words.h"

/* RET_ASK: whether the result is unknown only because it is not known who the peer is. Can be NULL. */
static enum ternary condition_match(const struct policy *policy,
				    const struct policy_condition *condition,
				    const struct policy_facts *facts, bool *ret_ask)
{
	enum ternary all = TERNARY_YES, one;
	bool ask = true;

	if (!(condition->operations & 1u << facts->question->operation))
		return TERNARY_NO;

	for (unsigned i = 0; i < condition->n_matches; i++) {
		const struct policy_match *match = &policy->matches[condition->first_match + i];

		one = match->word->match(&match->value, facts);
		if (one == TERNARY_NO)
			return TERNARY_NO;
		if (one == TERNARY_UNKNOWN) {
			all = TERNARY_UNKNOWN;
			ask = ask && match->word->is_about_who && !facts->question->who;
		}
	}
	if (ret_ask)
		*ret_ask = all == TERNARY_UNKNOWN && ask;
	return all;
}

/* True if the rules from FIRST on reject, whatever the unknown facts are. Counts the rules that it examines. */
static bool must_reject(const struct policy *policy, const struct policy_index *index, size_t first,
			const struct policy_facts *facts, size_t *n_examined)
{
	struct candidates candidates;
	size_t i;

	candidates_init(&candidates, index, policy->n_rules, facts, MAYBE_ALLOW, first);
	while (candidates_next(&candidates, &i)) {
		const struct policy_condition *condition = &policy->conditions[i];
		enum ternary t = condition_match(policy, condition, facts, NULL);

		(*n_examined)++;
		if (t == TERNARY_NO)
			continue;
		if (condition->allow)
			return false;
		if (t == TERNARY_YES)
			return true;
	}
	return true;
}

static struct policy_verdict verdict_from_rule(const struct policy *policy, size_t i)
{
	const struct policy_rule *rule = &policy->rules[i];

	if (rule->allow)
		return (struct policy_verdict){ .answer = POLICY_ALLOW, .rule = rule };
	return (struct policy_verdict){
		.answer = POLICY_REJECT,
		.rule = rule,
		.reason = rule->reason ? rule->reason : "denied",
	};
}

static struct policy_verdict decide_and_count(const struct policy *policy,
					      const struct policy_index *index,
					      const struct policy_question *question,
					      size_t *n_examined)
{
	struct policy_facts facts = { .question = question };
	struct candidates candidates;
	size_t i;

	facts.knows_local = prefix_from_sockaddr(&facts.local, question->local);
	facts.knows_peer = prefix_from_sockaddr(&facts.peer, question->peer);

	candidates_init(&candidates, index, policy->n_rules, &facts,
			question->early ? MAYBE_ALLOW | MAYBE_REJECT : MAYBE_REJECT, 0);
	while (candidates_next(&candidates, &i)) {
		const struct policy_condition *condition = &policy->conditions[i];
		bool ask;
		enum ternary t = condition_match(policy, condition, &facts, &ask);

		(*n_examined)++;
		if (t == TERNARY_NO)
			continue;
		if (ask && question->assume_who) {
			if (!condition->allow)
				continue;
			return verdict_from_rule(policy, i);
		}
		if (ask && question->can_ask &&
		    (condition->allow || !must_reject(policy, index, i + 1, &facts, n_examined)))
			return (struct policy_verdict){ .answer = POLICY_ASK,
							.rule = &policy->rules[i] };
		if (t == TERNARY_UNKNOWN && question->early) {
			if (condition->allow ||
			    !must_reject(policy, index, i + 1, &facts, n_examined))
				return (struct policy_verdict){ .answer = POLICY_DEFER,
								.rule = &policy->rules[i] };
		} else if (t == TERNARY_UNKNOWN && condition->allow) {
			continue;
		}

		return verdict_from_rule(policy, i);
	}

	return (struct policy_verdict){ .answer = POLICY_REJECT, .reason = "no-rule" };
}

static void decide(const struct policy *policy, const struct policy_index *index,
		   const struct policy_question *question, struct policy_verdict *ret)
{
	size_t n_examined = 0;

	*ret = decide_and_count(policy, index, question, &n_examined);
	ret->n_examined = n_examined;
}

void policy_decide(const struct policy *policy, const struct policy_question *question,
		   struct policy_verdict *ret)
{
	decide(policy, policy->index, question, ret);
}

void policy_decide_scan(const struct policy *policy, const struct policy_question *question,
			struct policy_verdict *ret)
{
	decide(policy, NULL, question, ret);
}

enum policy_reuseaddr policy_rule_reuseaddr(const struct policy_rule *rule,
					    enum policy_operation operation)
{
	enum policy_reuseaddr mode = rule->settings.reuseaddr;

	if (operation == POLICY_LISTEN)
		return mode == POLICY_REUSEADDR_NO ? POLICY_REUSEADDR_NO : POLICY_REUSEADDR_CLIENT;
	return mode == POLICY_REUSEADDR_DEFAULT ? POLICY_REUSEADDR_NO : mode;
}

bool policy_port_needs_name(int port)
{
	return port > 0 && port < 1024;
}

void policy_check_port(const struct policy_question *question, struct policy_verdict *verdict)
{
	if (verdict->answer != POLICY_ALLOW || question->operation != POLICY_LISTEN ||
	    !policy_port_needs_name(question->port) || verdict->rule->names_port)
		return;
	verdict->answer = POLICY_REJECT;
	verdict->reason = "a port below 1024 needs a rule that names it";
}

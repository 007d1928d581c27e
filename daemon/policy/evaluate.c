/* SPDX-License-Identifier: BSD-2-Clause */

#include "policy/policy.h"
#include "policy/rows.h"
#include "policy/rules.h"
#include "policy/words.h"

/* RET_ASK: whether the result is unknown only because it is not known who the peer is. Can be NULL. */
static enum ternary condition_match(const struct policy *policy,
				    const struct policy_condition *condition,
				    const struct policy_facts *facts, bool *ret_ask)
{
	enum ternary all = TERNARY_YES, one;
	bool ask = true;

	if (condition->lacks_pkey && facts->question->names_pkey)
		return TERNARY_NO;
	for (unsigned i = 0; i < condition->n_matches; i++) {
		const struct policy_match *match = &policy->matches[condition->first_match + i];

		one = match->word->match(match, facts);
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

/* What a decision goes through. */
struct scan {
	const struct policy *policy;
	struct policy_facts facts;
	struct row_facts row_facts;
	const struct policy_row *next, *end;
	size_t n_rows, n_compared;
};

static void scan_init(struct scan *scan, const struct policy *policy,
		      const struct policy_question *question)
{
	const struct policy_rows *rows = &policy->rows;

	*scan = (struct scan){ .policy = policy, .facts.question = question };
	scan->facts.knows_local = prefix_from_sockaddr(&scan->facts.local, question->local);
	scan->facts.knows_peer = prefix_from_sockaddr(&scan->facts.peer, question->peer);
	row_facts_init(&scan->row_facts, rows, &scan->facts);
	scan->next = rows->rows + rows->first[question->operation];
	scan->end = rows->rows + rows->first[question->operation + 1];
}

/* False: there are no more rules. Others than *RET do not match. */
static bool scan_next(struct scan *scan, size_t *ret)
{
	const struct policy_row *row = scan->next;

	while (row < scan->end && row_excludes(row, &scan->row_facts))
		row++;
	scan->n_rows += (size_t)(row - scan->next) + 1;
	scan->next = row + 1;
	if (row >= scan->end)
		return false;
	scan->n_compared++;
	*ret = row->rule;
	return true;
}

/* True if the rules that are left reject, whatever the unknown facts are. SCAN stays where it is. */
static bool must_reject(struct scan *scan)
{
	const struct policy_row *next = scan->next;
	bool rejects = true;
	size_t i;

	while (scan_next(scan, &i)) {
		const struct policy_condition *condition = &scan->policy->conditions[i];
		enum ternary t = condition_match(scan->policy, condition, &scan->facts, NULL);

		if (t == TERNARY_NO)
			continue;
		rejects = !condition->allow;
		if (condition->allow || t == TERNARY_YES)
			break;
	}
	scan->next = next;
	return rejects;
}

static struct policy_verdict verdict_from_rule(const struct policy *policy, size_t i)
{
	const struct policy_rule *rule = &policy->rules[i];

	return (struct policy_verdict){
		.answer = rule->allow ? POLICY_ALLOW : POLICY_REJECT,
		.rule = rule,
		.reason = rule->reason || rule->allow ? rule->reason : "denied",
	};
}

static struct policy_verdict decide(struct scan *scan)
{
	const struct policy_question *question = scan->facts.question;
	const struct policy *policy = scan->policy;
	size_t i;

	while (scan_next(scan, &i)) {
		const struct policy_condition *condition = &policy->conditions[i];
		bool ask;
		enum ternary t = condition_match(policy, condition, &scan->facts, &ask);

		if (t == TERNARY_NO)
			continue;
		if (ask && question->assume_who) {
			if (!condition->allow)
				continue;
			return verdict_from_rule(policy, i);
		}
		if (ask && question->can_ask && (condition->allow || !must_reject(scan)))
			return (struct policy_verdict){ .answer = POLICY_ASK,
							.rule = &policy->rules[i] };
		if (t == TERNARY_UNKNOWN && question->early) {
			if (condition->allow || !must_reject(scan))
				return (struct policy_verdict){ .answer = POLICY_DEFER,
								.rule = &policy->rules[i] };
		} else if (t == TERNARY_UNKNOWN && condition->allow) {
			continue;
		}
		return verdict_from_rule(policy, i);
	}
	return (struct policy_verdict){ .answer = POLICY_REJECT, .reason = "no-rule" };
}

/* A row that is passed by costs about a sixteenth of a comparison. */
#define ROWS_OF_A_COMPARISON 16

void policy_decide(const struct policy *policy, const struct policy_question *question,
		   struct policy_verdict *ret)
{
	struct scan scan;

	scan_init(&scan, policy, question);
	*ret = decide(&scan);
	ret->n_examined = scan.n_compared + scan.n_rows / ROWS_OF_A_COMPARISON;
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
	    !policy_port_needs_name(question->port) || verdict->rule->names_port ||
	    (verdict->rule->warns && question->may_bind_low))
		return;
	verdict->answer = POLICY_REJECT;
	verdict->reason =
		verdict->rule->warns ?
			"a port below 1024 needs a rule that names it, or a program of root with "
			"CAP_NET_BIND_SERVICE" :
			"a port below 1024 needs a rule that names it";
}

/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/rules.h"
#include "policy/source.h"

struct policy_block {
	struct policy_block *next;
	max_align_t data[];
};

int policy_new(struct policy **ret)
{
	struct policy *policy;

	policy = calloc(1, sizeof(*policy));
	if (!policy)
		return -ENOMEM;

	policy->n_refs = 1;
	*ret = policy;
	return 0;
}

void *policy_alloc(struct policy *policy, size_t size)
{
	struct policy_block *block;

	block = calloc(1, sizeof(*block) + size);
	if (!block)
		return NULL;

	block->next = policy->blocks;
	policy->blocks = block;
	return block->data;
}

char *policy_strdup(struct policy *policy, const char *text)
{
	char *copy = policy_alloc(policy, strlen(text) + 1);

	return copy ? strcpy(copy, text) : NULL;
}

int policy_add_match(struct policy *policy, const struct policy_match *match)
{
	if (policy->n_matches == policy->n_matches_allocated) {
		size_t n = policy->n_matches ? policy->n_matches * 2 : 64;
		struct policy_match *grown = reallocarray(policy->matches, n, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		policy->matches = grown;
		policy->n_matches_allocated = n;
	}

	policy->matches[policy->n_matches++] = *match;
	policy->asks = policy->asks || match->word->is_about_who;
	policy->has_pkey = policy->has_pkey || match->word->fact == FACT_PKEY;
	return 0;
}

static int grow_rules(struct policy *policy)
{
	size_t n = policy->n_rules ? policy->n_rules * 2 : 32;
	struct policy_condition *conditions;
	struct policy_rule *rules;

	rules = reallocarray(policy->rules, n, sizeof(*rules));
	if (!rules)
		return -ENOMEM;
	policy->rules = rules;

	conditions = reallocarray(policy->conditions, n, sizeof(*conditions));
	if (!conditions)
		return -ENOMEM;
	policy->conditions = conditions;

	policy->n_rules_allocated = n;
	return 0;
}

/* Whether one of the last N_MATCHES matches is about FACT. */
static bool has_fact(const struct policy *policy, size_t n_matches, enum policy_fact fact)
{
	for (size_t i = policy->n_matches - n_matches; i < policy->n_matches; i++)
		if (policy->matches[i].word->fact == fact)
			return true;
	return false;
}

int policy_add_rule(struct policy *policy, const struct policy_rule *rule, unsigned operations,
		    size_t n_matches)
{
	int r;

	if (policy->n_rules == policy->n_rules_allocated) {
		r = grow_rules(policy);
		if (r < 0)
			return r;
	}

	policy->rules[policy->n_rules] = *rule;
	policy->rules[policy->n_rules].index = policy->n_rules;
	policy->conditions[policy->n_rules] = (struct policy_condition){
		.first_match = policy->n_matches - n_matches,
		.n_matches = n_matches,
		.operations = operations,
		.allow = rule->allow,
		.lacks_pkey = rule->allow && !rule->warns &&
			      !has_fact(policy, n_matches, FACT_PKEY),
	};
	policy->n_warn_rules += rule->warns;
	policy->n_rules++;
	return 0;
}

struct policy *policy_ref(struct policy *policy)
{
	policy->n_refs++;
	return policy;
}

void policy_forget_sources(struct policy *policy)
{
	for (size_t i = 0; i < policy->n_sources; i++)
		source_free(policy->sources[i]);
	free(policy->sources);
	policy->sources = NULL;
	policy->n_sources = 0;
}

struct policy *policy_unref(struct policy *policy)
{
	struct policy_block *block;

	if (!policy || --policy->n_refs)
		return NULL;

	while ((block = policy->blocks)) {
		policy->blocks = block->next;
		free(block);
	}
	policy_forget_sources(policy);
	rows_done(&policy->rows);
	free(policy->rules);
	free(policy->conditions);
	free(policy->matches);
	free(policy);
	return NULL;
}

size_t policy_n_rules(const struct policy *policy)
{
	return policy->n_rules;
}

const struct policy_rule *policy_rule_at(const struct policy *policy, size_t i)
{
	return i < policy->n_rules ? &policy->rules[i] : NULL;
}

bool policy_is_fallback(const struct policy *policy)
{
	return policy->is_fallback;
}

bool policy_asks(const struct policy *policy)
{
	return policy->asks;
}

size_t policy_n_warn_rules(const struct policy *policy)
{
	return policy->n_warn_rules;
}

size_t policy_n_missing_names(const struct policy *policy, const char **ret_first)
{
	*ret_first = policy->first_missing;
	return policy->n_missing;
}

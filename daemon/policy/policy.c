/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdlib.h>

#include "policy/index.h"
#include "policy/parser.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "policy/source.h"
#include "util/diag.h"

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
	};
	policy->n_rules++;
	return 0;
}

int policy_finish(struct policy *policy)
{
	return policy_index_new(&policy->index, policy);
}

struct policy *policy_ref(struct policy *policy)
{
	policy->n_refs++;
	return policy;
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
	policy_index_free(policy->index);
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

int policy_load_dir(struct policy **ret, const char *dir, struct diag *diag)
{
	size_t n_paths = 0;
	char **paths;
	int r;

	r = source_list_new(&paths, dir, ".rules", /* optional= */ false, diag);
	if (r < 0)
		return r;

	while (paths[n_paths])
		n_paths++;
	r = policy_load_files(ret, (const char *const *)paths, n_paths, diag);
	source_list_free(paths);
	return r;
}

int policy_load_files(struct policy **ret, const char *const *files, size_t n_files,
		      struct diag *diag)
{
	struct policy *policy;
	struct source *source;
	struct parser parser;
	int r, first_error = 0;

	r = policy_new(&policy);
	if (r < 0)
		return r;

	/* All files are looked at, so that one run shows all that is wrong with them. */
	parser_init(&parser, policy, diag);
	for (size_t i = 0; i < n_files; i++) {
		r = source_new_file(&source, files[i], /* optional= */ false, diag);
		if (r >= 0) {
			r = parser_feed(&parser, source);
			source_free(source);
		}
		if (r < 0 && !first_error)
			first_error = r;
		if (r == -ENOMEM)
			break;
	}
	parser_done(&parser);

	if (!first_error)
		first_error = policy_finish(policy);
	if (first_error < 0) {
		policy_unref(policy);
		return first_error;
	}
	*ret = policy;
	return 0;
}

int policy_load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     struct diag *diag)
{
	struct policy *policy;
	struct source *source;
	struct parser parser;
	int r;

	r = policy_new(&policy);
	if (r < 0)
		return r;

	r = source_new_text(&source, name, text, len, diag);
	if (r < 0) {
		policy_unref(policy);
		return r;
	}
	parser_init(&parser, policy, diag);
	r = parser_feed(&parser, source);
	parser_done(&parser);
	source_free(source);
	if (r == 0)
		r = policy_finish(policy);
	if (r < 0) {
		policy_unref(policy);
		return r;
	}

	*ret = policy;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/index/index.h"
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
	const struct policy_index_rules rules = {
		.conditions = policy->conditions,
		.n_rules = policy->n_rules,
		.matches = policy->matches,
		.n_sets = policy->n_sets,
	};

	return policy_index_new(&policy->index, &rules);
}

struct policy *policy_ref(struct policy *policy)
{
	policy->n_refs++;
	return policy;
}

static void forget_sources(struct policy *policy)
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
	forget_sources(policy);
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

bool policy_is_fallback(const struct policy *policy)
{
	return policy->is_fallback;
}

size_t policy_n_missing_names(const struct policy *policy, const char **ret_first)
{
	*ret_first = policy->first_missing;
	return policy->n_missing;
}

/* A policy that is being loaded, from one source after the other. */
struct loading {
	struct policy *policy;
	struct parser parser;
	int first_error;
};

static int begin(struct loading *loading, enum policy_names names, struct diag *diag)
{
	int r = policy_new(&loading->policy);

	if (r < 0)
		return r;
	parser_init(&loading->parser, loading->policy, names, diag);
	loading->first_error = 0;
	return 0;
}

/* For policy_load_again(). */
static int keep_source(struct policy *policy, struct source *source)
{
	struct source **grown =
		reallocarray(policy->sources, policy->n_sources + 1, sizeof(*grown));

	if (!grown) {
		source_free(source);
		return -ENOMEM;
	}
	policy->sources = grown;
	grown[policy->n_sources++] = source;
	return 0;
}

/* Parses SOURCE and takes ownership of it. R < 0: there is no SOURCE, and R is the reason. */
static void feed(struct loading *loading, struct source *source, int r)
{
	if (r == 0) {
		r = parser_feed(&loading->parser, source);
		if (loading->parser.names == POLICY_NAMES_MUST_EXIST)
			source_free(source);
		else if (keep_source(loading->policy, source) < 0)
			r = -ENOMEM;
	}
	if (r < 0 && (!loading->first_error || r == -ENOMEM))
		loading->first_error = r;
}

static int end(struct loading *loading, struct policy **ret)
{
	struct policy *policy = loading->policy;
	int r = loading->first_error;

	parser_done(&loading->parser);
	if (policy->n_missing == 0)
		forget_sources(policy);
	if (r == 0)
		r = policy_finish(policy);
	if (r < 0)
		policy_unref(policy);
	else
		*ret = policy;
	return r;
}

static int load_files(struct policy **ret, const char *const *files, size_t n_files,
		      enum policy_names names, struct diag *diag)
{
	struct source *source = NULL;
	struct loading loading;
	int r = begin(&loading, names, diag);

	if (r < 0)
		return r;
	/* All files are parsed, also after an error, so that one run shows all errors. */
	for (size_t i = 0; i < n_files && loading.first_error != -ENOMEM; i++) {
		r = source_new_file(&source, files[i], /* optional= */ false, diag);
		feed(&loading, source, r);
	}
	return end(&loading, ret);
}

int policy_load_dir(struct policy **ret, const char *dir, enum policy_names names,
		    struct diag *diag)
{
	size_t n_paths = 0;
	char **paths;
	int r;

	r = source_list_new(&paths, dir, ".rules", /* optional= */ false, diag);
	if (r < 0)
		return r;

	while (paths[n_paths])
		n_paths++;
	r = load_files(ret, (const char *const *)paths, n_paths, names, diag);
	source_list_free(paths);
	return r;
}

int policy_load_files(struct policy **ret, const char *const *files, size_t n_files,
		      struct diag *diag)
{
	return load_files(ret, files, n_files, POLICY_NAMES_MUST_EXIST, diag);
}

int policy_load_again(struct policy **ret, const struct policy *policy, struct diag *diag)
{
	struct source *source = NULL;
	struct loading loading;
	int r = begin(&loading, POLICY_NAMES_MAY_BE_MISSING, diag);

	if (r < 0)
		return r;
	for (size_t i = 0; i < policy->n_sources && loading.first_error != -ENOMEM; i++) {
		r = source_copy(&source, policy->sources[i]);
		feed(&loading, source, r);
	}
	return end(&loading, ret);
}

int policy_load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     struct diag *diag)
{
	struct source *source = NULL;
	struct loading loading;
	int r = begin(&loading, POLICY_NAMES_MUST_EXIST, diag);

	if (r < 0)
		return r;
	r = source_new_text(&source, name, text, len, diag);
	feed(&loading, source, r);
	return end(&loading, ret);
}

int policy_new_fallback(struct policy **ret)
{
	static const char text[] =
		"reject any reason \"the broker's policy has an error and could not be loaded: "
		"see rdmabrokerctl status\"";
	struct policy *policy;
	int r = policy_load_text(&policy, "built-in", text, sizeof(text) - 1, /* diag= */ NULL);

	if (r < 0)
		return r;
	policy->is_fallback = true;
	*ret = policy;
	return 0;
}

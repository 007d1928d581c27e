/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The parts of a policy; only daemon/policy/ includes this. A rule is stored in two parts: struct policy_rule,
 * which may be shown outside, and struct policy_condition, whose eight bytes are read in a decision, together with
 * its matches.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "policy/prefix.h"

#define POLICY_RULES_MAX 100000
/* in all sets together: a set copies the sets that it refers to */
#define POLICY_PREFIXES_MAX 1000000
#define POLICY_ALL_OPERATIONS ((1u << _POLICY_OPERATION_MAX) - 1)
/* What "any" covers: observe and admin, which show and change the state of others, have to be named. */
#define POLICY_ANY_OPERATIONS (POLICY_ALL_OPERATIONS & ~(1u << POLICY_OBSERVE | 1u << POLICY_ADMIN))

struct policy_index;
struct policy_word;
struct source;

struct policy_ids {
	bool is_incomplete; /* a name could not be looked up, so the list is not complete */
	size_t n;
	uint32_t ids[]; /* ascending */
};

struct policy_ports {
	size_t n;
	struct {
		uint16_t first, last;
	} ranges[];
};

struct policy_data {
	size_t len; /* 1 to PRIVATE_DATA_LOOKUP */
	uint8_t bytes[];
};

union policy_value {
	const struct policy_ids *ids;
	const struct policy_ports *ports;
	const struct prefix_set *prefixes;
	const char *glob;
	const struct policy_data *data;
	int number;
};

struct policy_match {
	const struct policy_word *word;
	union policy_value value;
};

struct policy_condition {
	uint32_t first_match;
	uint8_t n_matches;
	uint8_t operations; /* bit i: enum policy_operation i */
	bool allow;
};
_Static_assert(_POLICY_OPERATION_MAX <= 8, "a condition keeps the operations in 8 bits");

struct policy {
	size_t n_refs;

	struct policy_rule *rules;
	struct policy_condition *conditions; /* one for each rule */
	size_t n_rules;
	size_t n_rules_allocated;

	struct policy_match *matches;
	size_t n_matches;
	size_t n_matches_allocated;

	size_t n_sets; /* includes a set for each match with a single prefix */
	size_t n_prefixes; /* in all sets */
	struct policy_index *index; /* NULL: too few rules */

	struct policy_block *blocks; /* memory from policy_alloc() */

	bool is_fallback;
	size_t n_missing; /* number of names that could not be looked up */
	const char *first_missing; /* the complaint about the first one; NULL: none */
	/*
	 * The texts that the policy was loaded from, kept while names are missing; copies of them are parsed
	 * again.
	 */
	struct source **sources;
	size_t n_sources;
};

int policy_new(struct policy **ret);
/* Zeroed memory that lives as long as the policy does, or NULL. */
void *policy_alloc(struct policy *policy, size_t size);
char *policy_strdup(struct policy *policy, const char *text); /* likewise */
int policy_add_match(struct policy *policy, const struct policy_match *match);
/* The rule's matches are the last N_MATCHES that were added; its INDEX is set here. */
int policy_add_rule(struct policy *policy, const struct policy_rule *rule, unsigned operations,
		    size_t n_matches);
/* Call after the last rule: makes the index. Returns 0 or -ENOMEM. */
int policy_finish(struct policy *policy);

/* Decides like policy_decide(), but examines all rules. For tests. */
void policy_decide_scan(const struct policy *policy, const struct policy_question *question,
			struct policy_verdict *ret);

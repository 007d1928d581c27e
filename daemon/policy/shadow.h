/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds rules that never decide, because an earlier rule matches all that they match, as in
 *
 *   allow  any    group rdma
 *   reject accept group rdma port 4420
 *
 * Each rule is compared with earlier rules one by one. What several earlier rules match together is not found, nor is
 * what only a closer look at two patterns shows. Limits do not matter, because a request above a limit is refused as
 * busy, and later rules are not considered.
 */

#include <stdbool.h>
#include <stddef.h>

struct diag;
struct policy;

enum shade {
	SHADE_NONE,
	/*
	 * The rule is a reject rule behind an allow rule, and decides only if a fact that the allow rule needs is not
	 * known; it is one of those that are known in practice, see "Unknown facts" in rdmabroker.rules(5).
	 */
	SHADE_IF_KNOWN,
	/*
	 * The rule decides only if a partition is named (policy_question.names_pkey), which the rule before it does not cover.
	 * Of a reject rule this is not said if no rule has 'pkey': then such a request is refused anyway. SHADE_IF_KNOWN can be
	 * true as well.
	 */
	SHADE_IF_IMPLIED,
	SHADE_ALWAYS, /* the rule never decides */
};

/*
 * The number of comparisons of a rule, or of a member of one of its lists, that shadow_warn() makes. It is enough for
 * 17,000 rules that differ in a user, a group, a port, a peer or a name; of larger policies the first rules are
 * compared.
 */
#define SHADOW_STEPS 10000000

/*
 * Looks for the first rule before RULE, both by number, that takes its requests. It is *RET_BY unless SHADE_NONE is
 * returned. Subtracts from *STEPS what that took, and gives up when nothing is left.
 */
enum shade shadow_find(const struct policy *policy, size_t rule, size_t *steps, size_t *ret_by);
/* Adds a warning to DIAG for each rule that shadow_find() has an earlier rule for. */
void shadow_warn(const struct policy *policy, struct diag *diag);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Decides as policy.h says, from what each rule would do alone: for each rule there is a policy of this rule and one
 * that allows everything, and rows that say nothing. So it shares with policy_decide() how a single rule is compared,
 * and nothing of how a policy is gone through.
 */

#include "policy/rules.h"

struct oracle;

struct oracle *oracle_new(const struct policy *policy); /* POLICY must outlive it */
void oracle_free(struct oracle *oracle);
void oracle_decide(const struct oracle *oracle, const struct policy_question *question,
		   struct policy_verdict *ret);

/*
 * A policy of N rules of WHOLE, which has to outlive it: the memory that it needs is RULES and CONDITIONS, with N
 * elements, and rows that rows_done() frees.
 */
struct policy policy_part(const struct policy *whole, struct policy_rule *rules,
			  struct policy_condition *conditions, const size_t *numbers, size_t n);

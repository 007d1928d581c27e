/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A restriction narrows what a session can do: a launcher restricts its own session, and then gives the session, or a
 * socket whose sessions have the same restriction, to a program that it trusts less.
 *
 * A restriction has rules of its own, in the language of policy, and a limit of ids. What a restricted session requests
 * has to be allowed by the policy, by its restriction, and by that restriction's parents. So a restricted session that
 * is restricted again, or whose user has other rules, can only do less.
 *
 *   policy AND  restriction 1  <──parent──  restriction 2  <──  session
 *                                                          <──  published socket (rpc/published.h)  ──>  its sessions
 *
 * Restrictions are reference counted. The sessions with the same restriction share its limit of ids.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

#define RESTRICTION_NAME "restriction" /* for messages, in place of a file's name */
#define RESTRICTION_TEXT_MAX 1024 /* bytes */
#define RESTRICTION_RULES_MAX 32 /* together with the text, this limits the memory: some 18 KB */
#define RESTRICTION_DEPTH_MAX 4 /* number of restrictions of one session */

struct core;
struct failure;
struct ledger;
struct ledger_restriction;

struct restriction {
	unsigned n_refs;
	uint64_t number; /* unique among restrictions, sessions and published sockets */
	struct roster *roster; /* core.restrictions; NULL: not there yet */
	struct restriction *parent; /* NULL: none */
	unsigned depth; /* number of its parents, plus 1 */
	char *text; /* its rules, a line each */
	struct policy *policy; /* NULL: not parsed yet, see get_policy() */
	unsigned max_ids; /* 0: no limit */
	unsigned n_ids;
	struct ledger *ledger;
	struct ledger_restriction *row; /* NULL: it is not kept */
};

/*
 * TEXT is copied. PARENT NULL: none. POLICY: TEXT's rules, whose reference is taken over; NULL: not parsed yet. Returns
 * 0 or -ENOMEM.
 */
int restriction_new(struct restriction **ret, struct core *core, struct restriction *parent,
		    uint64_t number, const char *text, struct policy *policy, unsigned max_ids);
struct restriction *restriction_ref(struct restriction *restriction); /* takes NULL */
struct restriction *
restriction_unref(struct restriction *restriction); /* takes NULL; returns NULL */

/*
 * Makes a restriction of a previous process again. Its parent must be made first. Returns a reference; NULL: it cannot
 * be made.
 */
struct restriction *restriction_restore(struct core *core, const struct ledger_restriction *row);
struct restriction *restriction_find(const struct core *core, uint64_t number); /* no reference */

/*
 * Narrows VERDICT, policy's answer to QUESTION. RESTRICTION NULL: VERDICT stays. Sessions exist before they are
 * restricted, so the operation "session" is never narrowed.
 */
void restriction_narrow(struct restriction *restriction, const struct policy_question *question,
			struct policy_verdict *verdict);

/* The rules of RESTRICTION and its parents on one line, cut to SIZE. NULL: empty. */
void restriction_describe(const struct restriction *restriction, char *ret, size_t size);

/*
 * Counts an id for RESTRICTION and its parents; *RET is what restriction_uncount_id() takes. RESTRICTION NULL: nothing is
 * counted. Returns 0 or STATUS_QUOTA.
 */
int restriction_count_id(struct restriction *restriction, struct restriction **ret,
			 struct failure *failure);
void restriction_uncount_id(struct restriction *restriction);

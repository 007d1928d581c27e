/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/failure.h"
#include "core/record.h"
#include "core/restriction.h"
#include "core/session.h"
#include "keep/ledger.h"
#include "util/diag.h"
#include "util/util.h"

#define NAME "restriction" /* for messages, in place of a file's name */
#define NOT_ALLOWED "the session is restricted, and no rule of its restriction allows this"

DEFINE_CLEANUP(struct diag *, diag_free)
DEFINE_CLEANUP(struct policy *, policy_unref)
DEFINE_CLEANUP(struct restriction *, restriction_unref)

/* TEXT is copied. PARENT NULL: none. POLICY: TEXT's rules, whose reference is taken over; NULL: not parsed yet. */
static int restriction_new(struct restriction **ret, struct core *core, struct restriction *parent,
			   uint64_t number, const char *text, struct policy *policy,
			   unsigned max_ids)
{
	_cleanup_(restriction_unrefp) struct restriction *restriction =
		calloc(1, sizeof(*restriction));
	int r;

	if (!restriction) {
		policy_unref(policy);
		return -ENOMEM;
	}
	restriction->n_refs = 1;
	restriction->policy = policy;
	restriction->number = number;
	restriction->parent = restriction_ref(parent);
	restriction->depth = parent ? parent->depth + 1 : 1;
	restriction->max_ids = max_ids;
	restriction->text = strdup(text);
	if (!restriction->text)
		return -ENOMEM;
	r = roster_add(&core->restrictions, number, restriction);
	if (r < 0)
		return r;
	restriction->roster = &core->restrictions;
	restriction->ledger = core->keep.ledger;
	restriction->row = ledger_add_restriction(restriction->ledger);
	record_restriction(restriction);
	*ret = TAKE_PTR(restriction);
	return 0;
}

struct restriction *restriction_ref(struct restriction *restriction)
{
	if (restriction)
		restriction->n_refs++;
	return restriction;
}

struct restriction *restriction_unref(struct restriction *restriction)
{
	while (restriction && --restriction->n_refs == 0) {
		struct restriction *parent = restriction->parent;

		if (restriction->roster)
			roster_remove(restriction->roster, restriction->number);
		ledger_remove_restriction(restriction->ledger, restriction->row);
		policy_unref(restriction->policy);
		free(restriction->text);
		free(restriction);
		restriction = parent;
	}
	return NULL;
}

struct restriction *restriction_find(const struct core *core, uint64_t number)
{
	return roster_get(&core->restrictions, number);
}

struct restriction *restriction_restore(struct core *core, const struct ledger_restriction *row)
{
	struct restriction *parent = row->parent ? restriction_find(core, row->parent) : NULL;
	struct restriction *restriction;

	if ((row->parent && !parent) || row->text[sizeof(row->text) - 1])
		return NULL;
	if (restriction_find(core, row->number) ||
	    restriction_new(&restriction, core, parent, row->number, row->text, /* policy= */ NULL,
			    row->max_ids) < 0)
		return NULL;
	return restriction;
}

static bool is_same(const struct restriction *restriction, const char *text, unsigned max_ids)
{
	return restriction && strcmp(restriction->text, text) == 0 &&
	       restriction->max_ids == max_ids;
}

static int check(const struct session *session, struct failure *failure)
{
	const struct restriction *parent = session->restriction;

	if (session_count_ids(session) > 0 || !list_is_empty(&session->leases) || session->watch)
		return failure_set(failure, STATUS_BAD_STATE,
				   "restrict: the session has ids, devices or a watch already");
	if (parent && parent->depth >= RESTRICTION_DEPTH_MAX)
		return failure_set(failure, STATUS_QUOTA,
				   "restrict: the session has %d restrictions already",
				   RESTRICTION_DEPTH_MAX);
	return 0;
}

static int parse(struct policy **ret, const char *text, struct failure *failure)
{
	_cleanup_(diag_freep) struct diag *diag = NULL;
	int r;

	if (strlen(text) >= RESTRICTION_TEXT_MAX)
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "restrict: the rules are longer than %d bytes",
				   RESTRICTION_TEXT_MAX - 1);
	r = diag_new(&diag);
	if (r == 0)
		r = policy_load_restriction(ret, NAME, text, strlen(text), diag);
	if (r == -EBADMSG)
		return failure_set(failure, STATUS_BAD_REQUEST, "restrict: %s",
				   diag_first(diag) ?: "the rules have an error");
	if (r == 0 && policy_n_rules(*ret) > RESTRICTION_RULES_MAX)
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "restrict: there are more than %d rules", RESTRICTION_RULES_MAX);
	return failure_errno(failure, r);
}

/* The parsed rules, on one line each and without comments; or TEXT, if they are longer. */
static const char *tidy(const struct policy *policy, const char *text,
			char space[RESTRICTION_TEXT_MAX])
{
	size_t n = 0;

	space[0] = 0;
	for (size_t i = 0; i < policy_n_rules(policy) && n < RESTRICTION_TEXT_MAX; i++)
		n += (size_t)snprintf(space + n, RESTRICTION_TEXT_MAX - n, "%s%s",
				      i > 0 ? "\n" : "", policy_rule_at(policy, i)->text);
	return n < RESTRICTION_TEXT_MAX ? space : text;
}

int restriction_apply(struct session *session, const char *text, unsigned max_ids,
		      struct failure *failure)
{
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	struct core *core = session->core;
	struct restriction *restriction;
	char space[RESTRICTION_TEXT_MAX];
	int r;

	r = parse(&policy, text, failure);
	if (r != 0)
		return r;
	/* An earlier version kept the rules as they were sent. */
	if (is_same(session->restriction, text, max_ids))
		return 0;
	text = tidy(policy, text, space);
	if (is_same(session->restriction, text, max_ids))
		return 0;
	r = check(session, failure);
	if (r != 0)
		return r;
	r = restriction_new(&restriction, core, session->restriction, core_next_number(core), text,
			    TAKE_PTR(policy), max_ids);
	if (r < 0)
		return failure_errno(failure, r);
	restriction_unref(session->restriction);
	session->restriction = restriction;
	/* Permits are what policy and restriction allow together. */
	session->permits = (session->permits & SESSION_PERMIT_CLIENT) |
			   session_permits_over_others(session, /* counts= */ false);
	record_session(session);
	return 0;
}

/*
 * The rules of RESTRICTION, which are parsed when they are first used: a restart would wait for the rules of all sessions.
 * NULL: there is no memory, or an older daemon is started again and does not know the language of a newer one.
 */
static const struct policy *get_policy(struct restriction *restriction)
{
	const char *text = restriction->text;

	if (!restriction->policy &&
	    policy_load_restriction(&restriction->policy, NAME, text, strlen(text), NULL) < 0)
		return NULL;
	return restriction->policy;
}

static void decide(struct restriction *restriction, const struct policy_question *question,
		   struct policy_verdict *ret)
{
	const struct policy *policy = get_policy(restriction);

	if (policy)
		policy_decide(policy, question, ret);
	else
		*ret = (struct policy_verdict){ .answer = POLICY_REJECT };
}

void restriction_narrow(struct restriction *restriction, const struct policy_question *question,
			struct policy_verdict *verdict)
{
	size_t n_examined = verdict->n_examined;
	struct policy_verdict narrowed;

	if (question->operation == POLICY_SESSION)
		return;
	for (; restriction && verdict->answer != POLICY_REJECT; restriction = restriction->parent) {
		decide(restriction, question, &narrowed);
		n_examined += narrowed.n_examined;
		if (narrowed.answer == POLICY_REJECT)
			*verdict = (struct policy_verdict){
				.answer = POLICY_REJECT,
				.reason = narrowed.rule && narrowed.rule->reason ?
						  narrowed.rule->reason :
						  NOT_ALLOWED,
				.by_restriction = true,
			};
		else if (narrowed.answer == POLICY_DEFER)
			verdict->answer = POLICY_DEFER;
	}
	verdict->n_examined = n_examined;
}

static size_t add_rules(const char *text, char *ret, size_t size)
{
	size_t n = 0;

	for (; *text && n + 2 < size; text++) {
		ret[n++] = *text == '\n' ? ';' : *text;
		if (*text == '\n')
			ret[n++] = ' ';
	}
	ret[n] = 0;
	return n;
}

void restriction_describe(const struct restriction *restriction, char *ret, size_t size)
{
	const struct restriction *chain[RESTRICTION_DEPTH_MAX];
	size_t depth = 0, n = 0;

	ret[0] = 0;
	for (; restriction && depth < RESTRICTION_DEPTH_MAX; restriction = restriction->parent)
		chain[depth++] = restriction;
	while (depth > 0) {
		n += add_rules(chain[--depth]->text, ret + n, size - n);
		if (depth > 0 && n + 6 < size)
			n += (size_t)sprintf(ret + n, " AND ");
	}
}

int restriction_count_id(struct restriction *restriction, struct restricted *ret,
			 struct failure *failure)
{
	struct restriction *r;

	for (r = restriction; r; r = r->parent)
		if (r->max_ids > 0 && r->n_ids >= r->max_ids)
			return failure_set(failure, STATUS_QUOTA,
					   "the session is restricted to %u ids", r->max_ids);
	for (r = restriction; r; r = r->parent)
		r->n_ids++;
	ret->restriction = restriction_ref(restriction);
	return 0;
}

void restricted_done(struct restricted *restricted)
{
	for (struct restriction *r = restricted->restriction; r; r = r->parent)
		r->n_ids--;
	restricted->restriction = restriction_unref(restricted->restriction);
}

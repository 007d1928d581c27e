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
DEFINE_CLEANUP(struct restriction *, restriction_unref)

/* PARENT NULL: none. DIAG NULL: complaints are not kept. Returns 0, -EBADMSG or -ENOMEM. */
static int restriction_new(struct restriction **ret, struct core *core, struct restriction *parent,
			   uint64_t number, const char *text, unsigned max_ids, struct diag *diag)
{
	_cleanup_(restriction_unrefp) struct restriction *restriction =
		calloc(1, sizeof(*restriction));
	int r;

	if (!restriction)
		return -ENOMEM;
	list_init(&restriction->link);
	restriction->n_refs = 1;
	restriction->number = number;
	restriction->parent = restriction_ref(parent);
	restriction->depth = parent ? parent->depth + 1 : 1;
	restriction->max_ids = max_ids;
	restriction->text = strdup(text);
	if (!restriction->text)
		return -ENOMEM;
	r = policy_load_restriction(&restriction->policy, NAME, text, strlen(text), diag);
	if (r < 0)
		return r;
	restriction->ledger = core->keep.ledger;
	restriction->row = ledger_add_restriction(restriction->ledger);
	record_restriction(restriction);
	list_insert(&core->restrictions, &restriction->link);
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

		list_remove(&restriction->link);
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
	struct list *l;

	list_for_each(l, &core->restrictions) {
		struct restriction *restriction = container_of(l, struct restriction, link);

		if (restriction->number == number)
			return restriction;
	}
	return NULL;
}

struct restriction *restriction_restore(struct core *core, const struct ledger_restriction *row)
{
	struct restriction *parent = row->parent ? restriction_find(core, row->parent) : NULL;
	struct restriction *restriction;

	if ((row->parent && !parent) || row->text[sizeof(row->text) - 1])
		return NULL;
	if (restriction_new(&restriction, core, parent, row->number, row->text, row->max_ids,
			    /* diag= */ NULL) < 0)
		return NULL;
	return restriction;
}

static int check(const struct session *session, const char *text, struct failure *failure)
{
	const struct restriction *parent = session->restriction;

	if (session_count_ids(session) > 0 || !list_is_empty(&session->leases) || session->watch)
		return failure_set(failure, STATUS_BAD_STATE,
				   "restrict: the session has ids, devices or a watch already");
	if (strlen(text) >= RESTRICTION_TEXT_MAX)
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "restrict: the rules are longer than %d bytes",
				   RESTRICTION_TEXT_MAX - 1);
	if (parent && parent->depth >= RESTRICTION_DEPTH_MAX)
		return failure_set(failure, STATUS_QUOTA,
				   "restrict: the session has %d restrictions already",
				   RESTRICTION_DEPTH_MAX);
	return 0;
}

int restriction_apply(struct session *session, const char *text, unsigned max_ids,
		      struct failure *failure)
{
	_cleanup_(diag_freep) struct diag *diag = NULL;
	const struct restriction *parent = session->restriction;
	struct core *core = session->core;
	struct restriction *restriction;
	int r;

	if (parent && strcmp(parent->text, text) == 0 && parent->max_ids == max_ids)
		return 0;
	r = check(session, text, failure);
	if (r != 0)
		return r;
	r = diag_new(&diag);
	if (r < 0)
		return failure_errno(failure, r);
	r = restriction_new(&restriction, core, session->restriction, core_next_number(core), text,
			    max_ids, diag);
	if (r == -EBADMSG)
		return failure_set(failure, STATUS_BAD_REQUEST, "restrict: %s",
				   diag_first(diag) ?: "the rules have an error");
	if (r < 0)
		return failure_errno(failure, r);
	if (policy_n_rules(restriction->policy) > RESTRICTION_RULES_MAX) {
		restriction_unref(restriction);
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "restrict: there are more than %d rules", RESTRICTION_RULES_MAX);
	}
	restriction_unref(session->restriction);
	session->restriction = restriction;
	/* Permits are what policy and restriction allow together. */
	session->permits = (session->permits & SESSION_PERMIT_CLIENT) |
			   session_permits_over_others(session, /* counts= */ false);
	record_session(session);
	return 0;
}

void restriction_narrow(const struct restriction *restriction,
			const struct policy_question *question, struct policy_verdict *verdict)
{
	struct policy_verdict narrowed;

	if (question->operation == POLICY_SESSION)
		return;
	for (; restriction && verdict->answer != POLICY_REJECT; restriction = restriction->parent) {
		policy_decide(restriction->policy, question, &narrowed);
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
}

/* Parsed rules are on one line each, without comments. */
static size_t add_rules(const struct policy *policy, char *ret, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < policy_n_rules(policy) && n < size; i++)
		n += (size_t)snprintf(ret + n, size - n, "%s%s", i > 0 ? "; " : "",
				      policy_rule_at(policy, i)->text);
	return n < size ? n : size - 1;
}

void restriction_describe(const struct restriction *restriction, char *ret, size_t size)
{
	const struct restriction *chain[RESTRICTION_DEPTH_MAX];
	size_t depth = 0, n = 0;

	ret[0] = 0;
	for (; restriction && depth < RESTRICTION_DEPTH_MAX; restriction = restriction->parent)
		chain[depth++] = restriction;
	while (depth > 0) {
		n += add_rules(chain[--depth]->policy, ret + n, size - n);
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

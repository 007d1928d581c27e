/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/facts/failure.h"
#include "core/object/core.h"
#include "core/object/restriction.h"
#include "takeover/ledger.h"
#include "util/util.h"

#define NOT_ALLOWED "the session is restricted, and no rule of its restriction allows this"

DEFINE_CLEANUP(struct restriction *, restriction_unref)

static void save(struct restriction *restriction)
{
	struct ledger_restriction *row = restriction->row;

	_Static_assert(sizeof(row->text) == RESTRICTION_TEXT_MAX, "the text must fit");
	if (!row)
		return;
	row->parent = restriction->parent ? restriction->parent->number : 0;
	row->max_ids = restriction->max_ids;
	strcpy(row->text, restriction->text);
	row->number = restriction->number;
}

int restriction_new(struct restriction **ret, struct core *core, struct restriction *parent,
		    uint64_t number, const char *text, struct policy *policy, unsigned max_ids)
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
	save(restriction);
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

/*
 * The rules of RESTRICTION, which are parsed when they are first used: a restart would wait for the rules of all
 * sessions. NULL: there is no memory, or an older daemon is started again and does not know the language of a newer
 * one.
 */
static const struct policy *get_policy(struct restriction *restriction)
{
	const char *text = restriction->text;

	if (!restriction->policy && policy_load_restriction(&restriction->policy, RESTRICTION_NAME,
							    text, strlen(text), NULL) < 0)
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

int restriction_count_id(struct restriction *restriction, struct restriction **ret,
			 struct failure *failure)
{
	struct restriction *r;

	for (r = restriction; r; r = r->parent)
		if (r->max_ids > 0 && r->n_ids >= r->max_ids)
			return failure_set(failure, STATUS_QUOTA,
					   "the session is restricted to %u ids", r->max_ids);
	for (r = restriction; r; r = r->parent)
		r->n_ids++;
	*ret = restriction_ref(restriction);
	return 0;
}

void restriction_uncount_id(struct restriction *restriction)
{
	for (struct restriction *r = restriction; r; r = r->parent)
		r->n_ids--;
	restriction_unref(restriction);
}

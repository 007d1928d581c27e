/* SPDX-License-Identifier: BSD-2-Clause */

#include "policy/index/index.h"
#include "policy/index/key.h"
#include "policy/index/index_layout.h"
#include "policy/rule/condition.h"

/* Maximum number of look-ups by both dimensions of a way. If more are needed, only one dimension is used. */
#define LOOKUPS_MAX 256
/* Maximum number of sets that contain an address of a question. If more do, the address is not used for look-ups. */
#define SETS_MAX 256

struct question_keys {
	enum key_state states[_KEY_DIMENSION_MAX];
	size_t n[_KEY_DIMENSION_MAX];
	const uint64_t *keys[_KEY_DIMENSION_MAX];
	uint64_t space[KEY_FACT_MAX + _KEY_DIMENSION_MAX * KEY_LENGTHS + 2 * SETS_MAX];
};

/* NULL: there is no list of HASH. */
static const uint32_t *find_list(const struct policy_index *index, uint64_t hash)
{
	const struct slot *slot = find_slot(index->slots, index->n_slots, hash);

	if (!slot->tag)
		return NULL;
	return slot->list & LAST ? &slot->list : index->lists + slot->list;
}

/*
 * Writes the keys of the sets that contain ADDRESS to RET, and adds their number to *RET_N. False: there are more
 * than SETS_MAX.
 */
static bool add_sets(const struct policy_index *index, enum key_dimension dimension,
		     const struct prefix *address, uint64_t *ret, size_t *ret_n)
{
	uint64_t members[KEY_LENGTHS];
	size_t n_members = key_from_address(address, &index->lengths[KEY_NONE], members), n = 0;

	for (size_t i = 0; i < n_members; i++) {
		const uint32_t *at = find_list(index, hash_member(members[i]));

		for (; at; at = *at & LAST ? NULL : at + 1) {
			if (n == SETS_MAX)
				return false;
			ret[n++] = key_from_set(dimension, *at & ~LAST);
		}
	}
	*ret_n += n;
	return true;
}

static void load_question(const struct policy_index *index, const struct policy_facts *facts,
			  struct question_keys *keys)
{
	unsigned dimensions = index->operations[facts->question->operation].dimensions;
	uint64_t *at = keys->space;

	for (unsigned d = 1; d < _KEY_DIMENSION_MAX; d++) {
		enum key_state *state = &keys->states[d];
		size_t *n = &keys->n[d];

		if (!(dimensions & 1u << d))
			continue;
		keys->keys[d] = at;
		*state = key_from_facts(d, facts, &index->lengths[d], at, n);
		if (*state == KEY_KNOWN && d == KEY_PEER &&
		    !add_sets(index, d, &facts->peer, at + *n, n))
			*state = KEY_TOO_MANY;
		if (*state == KEY_KNOWN && d == KEY_LOCAL &&
		    !add_sets(index, d, &facts->local, at + *n, n))
			*state = KEY_TOO_MANY;
		if (*state == KEY_KNOWN)
			at += *n;
	}
}

/* Adds the list of HASH, if there is one, to the candidates. False: there is no space for it. */
static bool look_up(struct candidates *candidates, uint64_t hash)
{
	const uint32_t *list = find_list(candidates->index, hash);

	if (!list)
		return true;
	if (candidates->n_lists == INDEX_LISTS_MAX)
		return false;
	candidates->lists[candidates->n_lists++] = list;
	return true;
}

/* Returns the dimensions of WAY by which to look up rules, as BY_FIRST and BY_SECOND. */
static unsigned choose_by(struct way way, const struct question_keys *keys)
{
	unsigned first = way.dimensions[0], second = way.dimensions[1], by = 0;

	if (first && keys->states[first] == KEY_KNOWN)
		by |= BY_FIRST;
	if (second && keys->states[second] == KEY_KNOWN)
		by |= BY_SECOND;
	if (by == (BY_FIRST | BY_SECOND) && keys->n[first] * keys->n[second] > LOOKUPS_MAX)
		by = keys->n[first] < keys->n[second] ? BY_FIRST : BY_SECOND;
	return by;
}

/* True if a dimension of WAY that is not in BY has an unknown fact. */
static bool is_maybe(struct way way, unsigned by, const struct question_keys *keys)
{
	for (unsigned i = 0; i < 2; i++)
		if (!(by & (BY_FIRST << i)) && way.dimensions[i] &&
		    keys->states[way.dimensions[i]] == KEY_UNKNOWN)
			return true;
	return false;
}

static bool look_up_way(struct candidates *candidates, struct way way,
			const struct question_keys *keys)
{
	static const uint64_t none[1];
	unsigned operation = candidates->facts->question->operation;
	unsigned by = choose_by(way, keys), wanted = MAYBE_ALLOW | MAYBE_REJECT;
	const uint64_t *firsts = none, *seconds = none;
	size_t n_first = 1, n_second = 1;

	if (by == way_all(way))
		wanted = MAYBE_ALLOW; /* there is only one list, with both allow and reject rules */
	else if (is_maybe(way, by, keys))
		wanted = candidates->wanted;
	if (by & BY_FIRST) {
		firsts = keys->keys[way.dimensions[0]];
		n_first = keys->n[way.dimensions[0]];
	}
	if (by & BY_SECOND) {
		seconds = keys->keys[way.dimensions[1]];
		n_second = keys->n[way.dimensions[1]];
	}
	for (size_t i = 0; i < n_first; i++) {
		for (size_t k = 0; k < n_second; k++) {
			if (wanted & MAYBE_ALLOW &&
			    !look_up(candidates,
				     hash_entry(operation, way, by, firsts[i], seconds[k])))
				return false;
			if (wanted & MAYBE_REJECT &&
			    !look_up(candidates, hash_entry(operation, way, by | OF_REJECTS,
							    firsts[i], seconds[k])))
				return false;
		}
	}
	return true;
}

static uint32_t number_at(const uint32_t *list)
{
	return *list & ~LAST;
}

static void sift_down(struct candidates *candidates, size_t i)
{
	const uint32_t **lists = candidates->lists, *moved = lists[i];
	size_t child;

	while ((child = 2 * i + 1) < candidates->n_lists) {
		if (child + 1 < candidates->n_lists &&
		    number_at(lists[child + 1]) < number_at(lists[child]))
			child++;
		if (number_at(moved) <= number_at(lists[child]))
			break;
		lists[i] = lists[child];
		i = child;
	}
	lists[i] = moved;
}

/* Gathers the lists for a question. False: there are too many, so all rules must be examined. */
static bool gather_lists(struct candidates *candidates)
{
	const struct policy_index *index = candidates->index;
	unsigned operation = candidates->facts->question->operation;
	struct question_keys keys;

	load_question(index, candidates->facts, &keys);
	for (size_t i = 0; i < index->operations[operation].n; i++)
		if (!look_up_way(candidates, index->operations[operation].ways[i], &keys))
			return false;
	for (size_t i = candidates->n_lists / 2; i-- > 0;)
		sift_down(candidates, i);
	return true;
}

void candidates_init(struct candidates *candidates, const struct policy_index *index,
		     size_t n_rules, const struct policy_facts *facts, unsigned wanted,
		     size_t first)
{
	/* LISTS is not initialised, because that would take longer than many decisions do. */
	candidates->index = index;
	candidates->facts = facts;
	candidates->wanted = wanted;
	candidates->next = first;
	candidates->n_plain = index ? INDEX_FIRST_RULE : n_rules;
	candidates->n_rules = n_rules;
	candidates->has_lists = false;
	candidates->n_lists = 0;
}

static bool next_listed(struct candidates *candidates, size_t *ret)
{
	const uint32_t **top = candidates->lists;

	while (candidates->n_lists) {
		size_t rule = number_at(*top);

		if (**top & LAST)
			*top = candidates->lists[--candidates->n_lists];
		else
			++*top;
		if (candidates->n_lists > 1)
			sift_down(candidates, 0);
		/* Skip rules before the first wanted one, and duplicates: a rule can be in several lists. */
		if (rule < candidates->next)
			continue;
		candidates->next = rule + 1;
		*ret = rule;
		return true;
	}
	return false;
}

bool candidates_next(struct candidates *candidates, size_t *ret)
{
	if (candidates->next < candidates->n_plain) {
		*ret = candidates->next++;
		return true;
	}
	if (candidates->n_plain == candidates->n_rules)
		return false;
	if (!candidates->has_lists) {
		if (!gather_lists(candidates)) {
			candidates->n_plain = candidates->n_rules;
			return candidates_next(candidates, ret);
		}
		candidates->has_lists = true;
	}
	return next_listed(candidates, ret);
}

/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/index/index.h"
#include "policy/index/key.h"
#include "policy/index/index_layout.h"
#include "policy/rule/condition.h"

/* A key is rare if at most this many rules have it. */
#define FEW 8
/* The lists of rules with keys can have this many entries for each rule of the policy. */
#define ENTRIES_PER_RULE 64

struct rule_keys {
	size_t n[_KEY_DIMENSION_MAX]; /* 0: the rule has no key in this dimension */
	const struct prefix_set *sets[_KEY_DIMENSION_MAX]; /* NULL: no set */
	struct key keys[_KEY_DIMENSION_MAX][KEY_MATCH_MAX];
};

struct builder {
	const struct policy_index_rules *rules;
	struct policy_index *index;
	struct way *ways; /* the way of each rule */
	struct rule_keys *keys; /* keys of the current rule */
	/*
	 * The number of rules for each pair of key and operation, indexed by some bits of the pair's hash. If two
	 * pairs have the same bits, the number is too high.
	 */
	uint32_t *counts;
	size_t n_counts;
	size_t n_left; /* number of list entries that ENTRIES_PER_RULE still allows */
	/* the sets that rules are filed by, indexed by their number; NULL: none is filed by this set */
	const struct prefix_set **sets;
	/*
	 * By slot: where in index->lists to put the next number of the slot's list. Until close_lists(), slot.list is
	 * the length of the list.
	 */
	uint32_t *ends;
};

static void load_keys(struct builder *builder, size_t rule)
{
	const struct policy_condition *condition = &builder->rules->conditions[rule];
	struct rule_keys *keys = builder->keys;

	memset(keys->n, 0, sizeof(keys->n));
	for (unsigned i = 0; i < condition->n_matches; i++) {
		const struct policy_match *match =
			&builder->rules->matches[condition->first_match + i];
		enum key_dimension dimension = match->word->dimension;

		if (dimension != KEY_NONE)
			keys->n[dimension] = key_from_match(match, keys->keys[dimension],
							    &keys->sets[dimension]);
	}
}

static uint32_t *count_of(struct builder *builder, uint64_t key, unsigned operation)
{
	return &builder->counts[key_mix(key, operation) & (builder->n_counts - 1)];
}

static void count_keys(struct builder *builder, size_t rule)
{
	unsigned operations = builder->rules->conditions[rule].operations;

	load_keys(builder, rule);
	for (unsigned o = 0; o < _POLICY_OPERATION_MAX; o++)
		for (unsigned d = 1; operations & 1u << o && d < _KEY_DIMENSION_MAX; d++)
			for (size_t i = 0; i < builder->keys->n[d]; i++)
				++*count_of(builder, builder->keys->keys[d][i].hash, o);
}

/* Returns how many rules have the most frequent of this rule's keys in DIMENSION. */
static uint32_t count_rules(struct builder *builder, unsigned operations, unsigned dimension)
{
	uint32_t most = 0;

	for (unsigned o = 0; o < _POLICY_OPERATION_MAX; o++) {
		if (!(operations & 1u << o))
			continue;
		for (size_t i = 0; i < builder->keys->n[dimension]; i++) {
			uint64_t key = builder->keys->keys[dimension][i].hash;
			uint32_t n = *count_of(builder, key, o);

			most = n > most ? n : most;
		}
	}
	return most;
}

/* Returns the dimension with the rarest keys, from FROM to TO without EXCEPT; KEY_NONE: there is none. */
static unsigned rarest(const struct builder *builder, const uint32_t *counts, unsigned from,
		       unsigned to, unsigned except)
{
	unsigned best = KEY_NONE;

	for (unsigned d = from; d <= to; d++)
		if (d != except && builder->keys->n[d] && (!best || counts[d] < counts[best]))
			best = d;
	return best;
}

/*
 * Returns the second dimension of the rule's way; KEY_NONE: none. CERTAIN: the best dimension whose fact is always
 * known; KEY_NONE: none.
 */
static unsigned second_best(const struct builder *builder, const uint32_t *counts, unsigned first,
			    unsigned certain)
{
	const size_t *n_keys = builder->keys->n;
	size_t too_many = builder->rules->n_rules / 4;
	unsigned second = KEY_NONE;

	/* CERTAIN finds the rule even if the fact of FIRST is not known. */
	if (certain != first && counts[certain] <= too_many)
		second = certain;
	if (!second && counts[first] > FEW)
		second = rarest(builder, counts, 1, _KEY_DIMENSION_MAX - 1, first);
	if (counts[second] > too_many || n_keys[first] * n_keys[second] > KEY_MATCH_MAX)
		return KEY_NONE;
	return second;
}

static struct way best_way(struct builder *builder, size_t rule)
{
	unsigned operations = builder->rules->conditions[rule].operations;
	uint32_t counts[_KEY_DIMENSION_MAX] = {};
	unsigned first, certain;

	for (unsigned d = 1; d < _KEY_DIMENSION_MAX; d++)
		counts[d] = count_rules(builder, operations, d);

	certain = rarest(builder, counts, 1, KEY_LAST_CERTAIN, KEY_NONE);
	if (certain && counts[certain] <= FEW)
		return (struct way){ { certain, KEY_NONE } };
	first = rarest(builder, counts, 1, _KEY_DIMENSION_MAX - 1, KEY_NONE);
	return (struct way){ { first, second_best(builder, counts, first, certain) } };
}

static size_t count_entries(const struct builder *builder, size_t rule, struct way way)
{
	unsigned operations = builder->rules->conditions[rule].operations;
	size_t n = __builtin_popcount(operations);

	for (unsigned i = 0; i < 2; i++)
		if (way.dimensions[i])
			n *= 1 + builder->keys->n[way.dimensions[i]];
	return n;
}

static void add_way(struct policy_index *index, unsigned operation, struct way way)
{
	size_t *n = &index->operations[operation].n;
	struct way *ways = index->operations[operation].ways;

	for (size_t i = 0; i < *n; i++)
		if (!memcmp(&ways[i], &way, sizeof(way)))
			return;
	ways[(*n)++] = way;
	for (unsigned i = 0; i < 2; i++)
		index->operations[operation].dimensions |= 1u << way.dimensions[i];
}

static void note_keys(struct builder *builder, unsigned dimension)
{
	const struct prefix_set *set = builder->keys->sets[dimension];

	if (dimension == KEY_NONE)
		return;
	for (size_t i = 0; i < builder->keys->n[dimension]; i++)
		key_lengths_add(&builder->index->lengths[dimension],
				builder->keys->keys[dimension][i].length);
	if (!set || builder->sets[set->number])
		return;
	builder->sets[set->number] = set;
	for (size_t i = 0; i < set->n; i++)
		key_lengths_add(&builder->index->lengths[KEY_NONE],
				key_from_prefix(&set->prefixes[i]).length);
}

static void choose_way(struct builder *builder, size_t rule)
{
	unsigned operations = builder->rules->conditions[rule].operations;
	struct way way;

	load_keys(builder, rule);
	way = best_way(builder, rule);
	/* Rules with many keys must not make the index disproportionately large. */
	if (count_entries(builder, rule, way) > builder->n_left)
		way.dimensions[1] = KEY_NONE;
	if (count_entries(builder, rule, way) > builder->n_left)
		way.dimensions[0] = KEY_NONE;
	/* Sort the two dimensions, so that rules with the same dimensions have the same way. */
	if (way.dimensions[1] && way.dimensions[0] > way.dimensions[1])
		way = (struct way){ { way.dimensions[1], way.dimensions[0] } };

	if (way.dimensions[0])
		builder->n_left -= count_entries(builder, rule, way);
	builder->ways[rule] = way;
	for (unsigned o = 0; o < _POLICY_OPERATION_MAX; o++)
		if (operations & 1u << o)
			add_way(builder->index, o, way);
	note_keys(builder, way.dimensions[0]);
	note_keys(builder, way.dimensions[1]);
}

/*
 * Makes an empty table of N slots in place of the one before. Its entries cannot be moved, because a slot has only a
 * part of the hash.
 */
static int make_slots(struct builder *builder, size_t n)
{
	struct policy_index *index = builder->index;

	free(index->slots);
	index->slots = calloc(n, sizeof(index->slots[0]));
	index->n_slots = n;
	index->n_used = 0;
	return index->slots ? 0 : -ENOMEM;
}

typedef int (*entry_fn)(struct builder *builder, uint64_t hash, size_t number);

/* -EAGAIN: there are too few slots. */
static int count_entry(struct builder *builder, uint64_t hash, size_t number)
{
	struct policy_index *index = builder->index;
	struct slot *slot = find_slot(index->slots, index->n_slots, hash);

	(void)number;
	if (!slot->tag) {
		if (++index->n_used * 2 > index->n_slots)
			return -EAGAIN;
		slot->tag = tag_of(hash);
	}
	slot->list++;
	return 0;
}

static int fill_entry(struct builder *builder, uint64_t hash, size_t number)
{
	struct policy_index *index = builder->index;
	struct slot *slot = find_slot(index->slots, index->n_slots, hash);

	index->lists[builder->ends[slot - index->slots]++] = number;
	return 0;
}

static int each_entry_of(struct builder *builder, size_t rule, unsigned operation, entry_fn fn)
{
	struct way way = builder->ways[rule];
	const struct rule_keys *keys = builder->keys;
	const struct key *first = keys->keys[way.dimensions[0]];
	const struct key *second = keys->keys[way.dimensions[1]];
	size_t n_first = way.dimensions[0] ? keys->n[way.dimensions[0]] : 0;
	size_t n_second = way.dimensions[1] ? keys->n[way.dimensions[1]] : 0;
	unsigned part = builder->rules->conditions[rule].allow ? 0 : OF_REJECTS;
	unsigned all = way_all(way), by;
	int r;

	by = all == 0 ? 0 : part;
	r = fn(builder, hash_entry(operation, way, by, 0, 0), rule);
	for (size_t k = 0; r == 0 && k < n_second; k++)
		r = fn(builder, hash_entry(operation, way, BY_SECOND | part, 0, second[k].hash),
		       rule);
	by = all == BY_FIRST ? BY_FIRST : BY_FIRST | part;
	for (size_t i = 0; r == 0 && i < n_first; i++) {
		r = fn(builder, hash_entry(operation, way, by, first[i].hash, 0), rule);
		for (size_t k = 0; r == 0 && k < n_second; k++)
			r = fn(builder,
			       hash_entry(operation, way, all, first[i].hash, second[k].hash),
			       rule);
	}
	return r;
}

static int each_member(struct builder *builder, entry_fn fn)
{
	int r = 0;

	for (size_t i = 0; i < builder->rules->n_sets; i++) {
		const struct prefix_set *set = builder->sets[i];

		for (size_t k = 0; r == 0 && set && k < set->n; k++)
			r = fn(builder, hash_member(key_from_prefix(&set->prefixes[k]).hash), i);
	}
	return r;
}

static int each_entry(struct builder *builder, entry_fn fn)
{
	int r = each_member(builder, fn);

	for (size_t i = INDEX_FIRST_RULE; r == 0 && i < builder->rules->n_rules; i++) {
		unsigned operations = builder->rules->conditions[i].operations;

		load_keys(builder, i);
		for (unsigned o = 0; r == 0 && o < _POLICY_OPERATION_MAX; o++)
			if (operations & 1u << o)
				r = each_entry_of(builder, i, o, fn);
	}
	return r;
}

static int count_lists(struct builder *builder)
{
	int r;

	for (size_t n = 256;; n *= 4) {
		r = make_slots(builder, n);
		if (r == 0)
			r = each_entry(builder, count_entry);
		if (r != -EAGAIN)
			return r;
	}
}

/* Moves the number of a list of one into its slot, and closes the gaps between the other lists. */
static void close_lists(struct builder *builder)
{
	struct policy_index *index = builder->index;
	size_t n_kept = 0;

	for (size_t i = 0; i < index->n_slots; i++) {
		struct slot *slot = &index->slots[i];
		size_t n = slot->list, first = builder->ends[i] - n;

		if (!slot->tag)
			continue;
		index->lists[first + n - 1] |= LAST;
		if (n == 1) {
			slot->list = index->lists[first];
			continue;
		}
		memmove(index->lists + n_kept, index->lists + first, n * sizeof(index->lists[0]));
		slot->list = n_kept;
		n_kept += n;
	}
	index->lists = reallocarray(index->lists, n_kept + 1, sizeof(index->lists[0])) ?:
											 index->lists;
}

static int make_lists(struct builder *builder)
{
	struct policy_index *index = builder->index;
	size_t n = 0;
	int r;

	r = count_lists(builder);
	if (r < 0)
		return r;
	builder->ends = calloc(index->n_slots, sizeof(builder->ends[0]));
	if (!builder->ends)
		return -ENOMEM;
	for (size_t i = 0; i < index->n_slots; i++) {
		builder->ends[i] = n;
		n += index->slots[i].list;
	}

	index->lists = reallocarray(NULL, n + 1, sizeof(index->lists[0]));
	if (!index->lists)
		return -ENOMEM;
	r = each_entry(builder, fill_entry);
	if (r == 0)
		close_lists(builder);
	return r;
}

static int build(struct builder *builder)
{
	size_t n = builder->rules->n_rules;

	builder->n_left = ENTRIES_PER_RULE * n;
	builder->n_counts = 1024;
	while (builder->n_counts < 8 * n)
		builder->n_counts *= 2;
	builder->counts = calloc(builder->n_counts, sizeof(builder->counts[0]));
	builder->ways = calloc(n, sizeof(builder->ways[0]));
	builder->keys = malloc(sizeof(*builder->keys));
	builder->sets = calloc(builder->rules->n_sets + 1, sizeof(builder->sets[0]));
	builder->index = calloc(1, sizeof(*builder->index));
	if (!builder->counts || !builder->ways || !builder->keys || !builder->sets ||
	    !builder->index)
		return -ENOMEM;

	for (size_t i = INDEX_FIRST_RULE; i < n; i++)
		count_keys(builder, i);
	for (size_t i = INDEX_FIRST_RULE; i < n; i++)
		choose_way(builder, i);
	return make_lists(builder);
}

int policy_index_new(struct policy_index **ret, const struct policy_index_rules *rules)
{
	struct builder builder = { .rules = rules };
	int r = 0;

	if (rules->n_rules > INDEX_FIRST_RULE)
		r = build(&builder);
	free(builder.counts);
	free(builder.ways);
	free(builder.keys);
	free(builder.sets);
	free(builder.ends);
	if (r < 0) {
		policy_index_free(builder.index);
		return r;
	}
	*ret = builder.index;
	return 0;
}

struct policy_index *policy_index_free(struct policy_index *index)
{
	if (!index)
		return NULL;

	free(index->slots);
	free(index->lists);
	free(index);
	return NULL;
}

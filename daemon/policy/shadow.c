/* SPDX-License-Identifier: BSD-2-Clause */

#include <arpa/inet.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/rows.h"
#include "policy/rules.h"
#include "policy/shadow.h"
#include "proto/names.h"
#include "util/diag.h"
#include "util/util.h"

/* A request that a rule matches, as far as the rule says. A pattern stands for the names that it matches. */
struct sample {
	struct policy_question question;
	struct policy_facts facts;
	gid_t gid;
};

static struct prefix first_address(const struct prefix_set *set)
{
	struct prefix address = set->prefixes[0];

	address.bits = address.family == 4 ? 32 : 128;
	return address;
}

static void add_fact(struct sample *sample, const struct policy_match *match)
{
	struct policy_question *question = &sample->question;
	const union policy_value *value = &match->value;

	switch (match->word->fact) {
	case FACT_USER:
		question->uid = value->ids->ids[0];
		break;
	case FACT_GROUP:
		sample->gid = value->ids->ids[0];
		question->n_gids = 1;
		break;
	case FACT_UNIT ... FACT_CGROUP:
		question->workload[fact_workload(match->word->fact)] = value->glob;
		break;
	case FACT_PS:
		question->port_space = value->number;
		break;
	case FACT_PORT:
		question->port = value->ports->ranges[0].first;
		break;
	case FACT_DEVICE:
		question->device = value->glob;
		break;
	case FACT_PEER:
		sample->facts.knows_peer = true;
		sample->facts.peer = first_address(value->prefixes);
		break;
	case FACT_LOCAL:
		sample->facts.knows_local = true;
		sample->facts.local = first_address(value->prefixes);
		break;
	case FACT_DATA:
		question->knows_data = true;
		question->data = value->data->bytes;
		question->data_len = value->data->len;
		break;
	case FACT_PKEY:
		question->pkey = value->ports->ranges[0].first;
		break;
	case FACT_NONE:
	case _FACT_MAX:
		break;
	}
}

static void sample_init(struct sample *sample, const struct policy *policy,
			const struct policy_condition *condition)
{
	*sample = (struct sample){
		/* Nobody has this uid, so only rules without users match if the rule has none. */
		.question = { .uid = (uid_t)-1, .port = -1 },
	};
	sample->question.operation = __builtin_ctz(condition->operations);
	sample->question.gids = &sample->gid;
	sample->facts.question = &sample->question;
	for (unsigned i = 0; i < condition->n_matches; i++)
		add_fact(sample, &policy->matches[condition->first_match + i]);
}

static bool take_steps(size_t *steps, size_t n)
{
	if (*steps < n) {
		*steps = 0;
		return false;
	}
	*steps -= n;
	return true;
}

static bool contains_ids(const struct policy_ids *outer, const struct policy_ids *inner,
			 size_t *steps)
{
	size_t k = 0;

	if (outer->is_incomplete || inner->is_incomplete || !take_steps(steps, outer->n + inner->n))
		return false;
	for (size_t i = 0; i < inner->n; i++) {
		while (k < outer->n && outer->ids[k] < inner->ids[i])
			k++;
		if (k == outer->n || outer->ids[k] != inner->ids[i])
			return false;
	}
	return true;
}

/* Returns the last port of the range of PORTS that has PORT; 0: none has it. */
static unsigned end_of_range(const struct policy_ports *ports, unsigned port)
{
	for (size_t i = 0; i < ports->n; i++)
		if (port >= ports->ranges[i].first && port <= ports->ranges[i].last)
			return ports->ranges[i].last;
	return 0;
}

static bool contains_ports(const struct policy_ports *outer, const struct policy_ports *inner,
			   size_t *steps)
{
	for (size_t i = 0; i < inner->n; i++) {
		unsigned port = inner->ranges[i].first;

		/* Ranges of OUTER can follow each other directly. */
		while (port <= inner->ranges[i].last) {
			unsigned end = end_of_range(outer, port);

			if (!take_steps(steps, outer->n) || end == 0)
				return false;
			port = end + 1;
		}
	}
	return true;
}

static bool contains_prefixes(const struct prefix_set *outer, const struct prefix_set *inner,
			      size_t *steps)
{
	if (outer == inner)
		return true;
	for (size_t i = 0; i < inner->n; i++)
		if (!take_steps(steps, 1) || !prefix_set_contains(outer, &inner->prefixes[i]))
			return false;
	return true;
}

/* Returns the length of the part of GLOB before its first wildcard or backslash. */
static size_t head_of(const char *glob)
{
	return strcspn(glob, "*?[\\");
}

/* SAMPLE has the pattern INNER as the fact. */
static bool contains_glob(const struct policy_match *outer, const char *inner,
			  const struct sample *sample)
{
	const char *glob = outer->value.glob;
	size_t head = head_of(glob);

	if (strcmp(glob, inner) == 0)
		return true;
	/* A pattern without wildcards is a name. A control group with this name stands for those below it. */
	if (!inner[head_of(inner)])
		return outer->word->match(outer, &sample->facts) == TERNARY_YES;
	/* In other names '*' does not match a slash. */
	if (outer->word->fact != FACT_UNIT && outer->word->fact != FACT_DEVICE)
		return false;
	return strcmp(glob + head, "*") == 0 && head_of(inner) >= head &&
	       memcmp(glob, inner, head) == 0;
}

static bool contains_data(const struct policy_data *outer, const struct policy_data *inner)
{
	return outer->len <= inner->len && memcmp(outer->bytes, inner->bytes, outer->len) == 0;
}

/*
 * True if OUTER holds whenever INNER does, and is unknown only if INNER is, for the same reason. Both have the same
 * word.
 */
static bool contains(const struct policy_match *outer, const struct policy_match *inner,
		     const struct sample *sample, size_t *steps)
{
	switch (outer->word->fact) {
	case FACT_USER:
	case FACT_GROUP:
		return contains_ids(outer->value.ids, inner->value.ids, steps);
	case FACT_UNIT ... FACT_CGROUP:
	case FACT_DEVICE:
		return contains_glob(outer, inner->value.glob, sample);
	case FACT_PS:
		return outer->value.number == inner->value.number;
	case FACT_PORT:
	case FACT_PKEY:
		return contains_ports(outer->value.ports, inner->value.ports, steps);
	case FACT_PEER:
	case FACT_LOCAL:
		return contains_prefixes(outer->value.prefixes, inner->value.prefixes, steps);
	case FACT_DATA:
		return contains_data(outer->value.data, inner->value.data);
	case FACT_NONE:
	case _FACT_MAX:
		break;
	}
	/* The decision about who the peer is can be made as if the answer favoured the client. */
	return false;
}

/*
 * What becomes of a reject rule with OPERATIONS behind an allow rule with MATCH: if the fact of MATCH is unknown, the
 * allow rule does not match, but the reject rule does.
 */
static enum shade shade_of_reject(const struct policy_match *match, unsigned operations)
{
	switch (match->word->fact) {
	case FACT_USER:
		return SHADE_ALWAYS;
	case FACT_GROUP:
	case FACT_PS:
		return SHADE_IF_KNOWN;
	case FACT_PORT:
	case FACT_PKEY:
	case FACT_DEVICE:
	case FACT_PEER:
	case FACT_LOCAL:
		/* A listener can be on any port, or on all addresses. */
		return operations & 1u << POLICY_LISTEN ? SHADE_NONE : SHADE_IF_KNOWN;
	default:
		return SHADE_NONE;
	}
}

static const struct policy_match *find_match(const struct policy *policy,
					     const struct policy_condition *condition,
					     const struct policy_word *word)
{
	for (unsigned i = 0; i < condition->n_matches; i++)
		if (policy->matches[condition->first_match + i].word == word)
			return &policy->matches[condition->first_match + i];
	return NULL;
}

/* The operations that have a partition. */
#define IN_PARTITION \
	(1u << POLICY_LISTEN | 1u << POLICY_CONNECT | 1u << POLICY_ACCEPT | 1u << POLICY_JOIN)

static bool has_pkey(const struct policy *policy, const struct policy_condition *condition)
{
	for (unsigned i = 0; i < condition->n_matches; i++)
		if (policy->matches[condition->first_match + i].word->fact == FACT_PKEY)
			return true;
	return false;
}

/* What OUTER, an allow rule without 'pkey', leaves to INNER because it does not cover a partition that is named. */
static enum shade shade_of_named(const struct policy *policy, const struct policy_condition *outer,
				 const struct policy_condition *inner)
{
	if (!outer->lacks_pkey || inner->lacks_pkey || !(inner->operations & IN_PARTITION))
		return SHADE_ALWAYS;
	if (has_pkey(policy, inner))
		return SHADE_NONE;
	/* A reject rule refuses what would be refused anyway, unless another rule has 'pkey'. */
	return policy->has_pkey || inner->allow ? SHADE_IF_IMPLIED : SHADE_ALWAYS;
}

/* What OUTER, which is before INNER, leaves to INNER. SAMPLE is that of INNER. */
static enum shade compare(const struct policy *policy, const struct policy_condition *outer,
			  const struct policy_condition *inner, const struct sample *sample,
			  size_t *steps)
{
	enum shade shade = shade_of_named(policy, outer, inner);

	if (shade == SHADE_NONE || inner->operations & ~outer->operations ||
	    outer->n_matches > inner->n_matches)
		return SHADE_NONE;
	for (unsigned i = 0; i < outer->n_matches; i++) {
		const struct policy_match *match = &policy->matches[outer->first_match + i];
		const struct policy_match *other = find_match(policy, inner, match->word);

		if (outer->allow && !inner->allow) {
			enum shade one = shade_of_reject(match, inner->operations);

			shade = one < shade ? one : shade;
		}
		if (shade == SHADE_NONE || !other || !contains(match, other, sample, steps))
			return SHADE_NONE;
	}
	return shade;
}

/* What is passed by costs less than a comparison. */
#define ROWS_OF_A_STEP 16

/* Finds the row of RULE among ROWS of one operation, which are in the order of the rules. */
static const struct policy_row *find_row(const struct policy_row *rows, size_t n, size_t rule)
{
	size_t i = LOWER_BOUND(k, n, rows[k].rule < rule);

	return i < n && rows[i].rule == rule ? &rows[i] : NULL;
}

enum shade shadow_find(const struct policy *policy, size_t rule, size_t *steps, size_t *ret_by)
{
	const struct policy_condition *inner = &policy->conditions[rule];
	const struct policy_rows *rows = &policy->rows;
	/* What takes all requests of RULE is among the rules for each of its operations. */
	int operation = __builtin_ctz(inner->operations);
	const struct policy_row *first = rows->rows + rows->first[operation], *row, *end;
	enum shade best = SHADE_NONE;
	struct sample sample;

	end = find_row(first, rows->first[operation + 1] - rows->first[operation], rule);
	if (!end || !take_steps(steps, (size_t)(end - first) / ROWS_OF_A_STEP))
		return SHADE_NONE;
	sample_init(&sample, policy, inner);
	for (row = first; row < end && best != SHADE_ALWAYS; row++) {
		enum shade shade;

		if (row_is_narrower(row, end))
			continue;
		if (!take_steps(steps, 1))
			break;
		shade = compare(policy, &policy->conditions[row->rule], inner, &sample, steps);
		if (shade > best) {
			best = shade;
			*ret_by = row->rule;
		}
	}
	return best;
}

void shadow_warn(const struct policy *policy, struct diag *diag)
{
	size_t steps = SHADOW_STEPS, by;

	for (size_t i = 1; i < policy->n_rules && steps > 0; i++) {
		enum shade shade = shadow_find(policy, i, &steps, &by);
		const struct policy_rule *rule = &policy->rules[i], *first;

		if (shade == SHADE_NONE)
			continue;
		first = &policy->rules[by];
		diag_warn(diag, rule->file, rule->line, rule->column, NULL, 0,
			  "this rule %s, because \"%.100s\" in %s:%u:%u is before it and %s all "
			  "that it matches",
			  shade == SHADE_ALWAYS     ? "never decides" :
			  shade == SHADE_IF_IMPLIED ? "decides only if a partition is named" :
						      "decides only if a fact is unknown",
			  first->text, first->file, first->line, first->column,
			  shade == SHADE_ALWAYS ? "matches" : "otherwise matches");
	}
}

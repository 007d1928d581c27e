/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/rows.h"
#include "policy/rules.h"
#include "policy/words.h"

static uint32_t hash_name(const char *name)
{
	uint32_t hash = 2166136261;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619;
	return hash;
}

static void add_name(struct policy_row *row, enum row_name of, const char *glob)
{
	if (row->has & ROW_NAME || glob[strcspn(glob, "*?[\\")])
		return;
	row->has |= ROW_NAME;
	row->name_of = of;
	row->name = hash_name(glob);
}

static void add_peer(struct policy_row *row, const struct prefix_set *set)
{
	const struct prefix *prefix = &set->prefixes[0];
	uint8_t mask[4] = { 0 };

	if (set->n != 1 || prefix->family != 4)
		return;
	for (unsigned i = 0; i < prefix->bits; i++)
		mask[i / 8] |= 0x80 >> i % 8;
	row->has |= ROW_PEER;
	memcpy(&row->peer, prefix->address, sizeof(row->peer));
	memcpy(&row->peer_mask, mask, sizeof(row->peer_mask));
}

static void add_match(struct policy_row *row, const struct policy_match *match)
{
	const union policy_value *value = &match->value;

	switch (match->word->fact) {
	case FACT_USER:
		if (value->ids->n == 1 && !value->ids->is_incomplete) {
			row->has |= ROW_USER;
			row->uid = value->ids->ids[0];
		}
		break;
	case FACT_GROUP:
		if (value->ids->n == 1 && !value->ids->is_incomplete) {
			row->has |= ROW_GROUP;
			row->gid = value->ids->ids[0];
		}
		break;
	case FACT_UNIT ... FACT_JOB:
		add_name(row, (enum row_name)fact_workload(match->word->fact), value->glob);
		break;
	case FACT_DEVICE:
		add_name(row, ROW_DEVICE, value->glob);
		break;
	case FACT_PS:
		row->has |= ROW_PS;
		row->ps = (uint16_t)value->number;
		break;
	case FACT_PORT:
		if (value->ports->n == 1) {
			row->has |= ROW_PORTS;
			row->first_port = value->ports->ranges[0].first;
			row->last_port = value->ports->ranges[0].last;
		}
		break;
	case FACT_PEER:
		add_peer(row, value->prefixes);
		break;
	default:
		break;
	}
}

static struct policy_row make(const struct policy *policy, size_t rule)
{
	const struct policy_condition *condition = &policy->conditions[rule];
	struct policy_row row = { .rule = (uint32_t)rule };

	for (unsigned i = 0; i < condition->n_matches; i++)
		add_match(&row, &policy->matches[condition->first_match + i]);
	return row;
}

int rows_make(struct policy *policy)
{
	struct policy_rows *rows = &policy->rows;
	size_t n = 0;

	for (int op = 0; op < _POLICY_OPERATION_MAX; op++) {
		rows->first[op] = n;
		for (size_t i = 0; i < policy->n_rules; i++)
			n += policy->conditions[i].operations >> op & 1;
	}
	rows->first[_POLICY_OPERATION_MAX] = n;
	rows->rows = reallocarray(NULL, n + 1, sizeof(*rows->rows));
	if (!rows->rows)
		return -ENOMEM;
	n = 0;
	for (int op = 0; op < _POLICY_OPERATION_MAX; op++)
		for (size_t i = 0; i < policy->n_rules; i++)
			if (policy->conditions[i].operations >> op & 1)
				rows->rows[n++] = make(policy, i);
	for (size_t i = 0; i < n; i++) {
		rows->has_groups = rows->has_groups || rows->rows[i].has & ROW_GROUP;
		if (rows->rows[i].has & ROW_NAME)
			rows->names |= 1u << rows->rows[i].name_of;
	}
	return 0;
}

void rows_done(struct policy_rows *rows)
{
	free(rows->rows);
	rows->rows = NULL;
}

static void know_name(struct row_facts *facts, const struct policy_rows *rows, enum row_name of,
		      const char *name)
{
	if (!name || !(rows->names >> of & 1))
		return;
	facts->known |= ROW_NAME;
	facts->names |= 1u << of;
	facts->name[of] = hash_name(name);
}

void row_facts_init(struct row_facts *ret, const struct policy_rows *rows,
		    const struct policy_facts *facts)
{
	const struct policy_question *question = facts->question;

	*ret = (struct row_facts){ .known = ROW_USER, .uid = question->uid };
	if (question->port > 0) {
		ret->known |= ROW_PORTS;
		ret->port = question->port;
	}
	if (question->port_space) {
		ret->known |= ROW_PS;
		ret->ps = question->port_space;
	}
	/* Which IP address the host of a GID has is not known. */
	if (facts->knows_peer && facts->peer.family != PREFIX_GID) {
		ret->known |= ROW_PEER;
		ret->peer_is_ipv4 = facts->peer.family == 4;
		memcpy(&ret->peer, facts->peer.address, sizeof(ret->peer));
	}
	if (rows->has_groups && !question->too_many_gids) {
		ret->known |= ROW_GROUP;
		for (size_t i = 0; i < question->n_gids; i++)
			ret->groups[question->gids[i] >> 6 & 3] |= UINT64_C(1)
								   << (question->gids[i] & 63);
	}
	for (int i = 0; i < ROW_DEVICE; i++)
		know_name(ret, rows, (enum row_name)i, question->workload[i]);
	know_name(ret, rows, ROW_DEVICE, question->device);
}

/* In INNER a rule for several users, for example, has no user. Then none that OUTER has is enough. */
bool row_is_narrower(const struct policy_row *outer, const struct policy_row *inner)
{
	unsigned both = outer->has & inner->has;

	return outer->has & ~inner->has & (ROW_USER | ROW_GROUP | ROW_PS) ||
	       (both & ROW_USER && outer->uid != inner->uid) ||
	       (both & ROW_GROUP && outer->gid != inner->gid) ||
	       (both & ROW_PS && outer->ps != inner->ps) ||
	       (both & ROW_PORTS &&
		(inner->first_port < outer->first_port || inner->last_port > outer->last_port)) ||
	       (both & ROW_PEER && (inner->peer & outer->peer_mask) != outer->peer) ||
	       (both & ROW_NAME && outer->name_of == inner->name_of && outer->name != inner->name);
}

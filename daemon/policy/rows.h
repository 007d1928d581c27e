/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The rules of a policy in the order in which they are compared with a question, for each operation. A row has what
 * most rules can be told apart by, so that few rules need a closer look: a decision reads 32 bytes of each of the
 * others.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rule/question.h"

struct policy;
struct policy_facts;

/* The facts of a row. A rule for several users, for example, has no ROW_USER. */
enum {
	ROW_USER = 1 << 0,
	ROW_GROUP = 1 << 1,
	ROW_PORTS = 1 << 2,
	ROW_PS = 1 << 3,
	ROW_PEER = 1 << 4, /* an IPv4 prefix */
	ROW_NAME = 1 << 5, /* a name without wildcards */
};

/* Those of what the client belongs to are as in enum workload_name. */
enum row_name {
	ROW_DEVICE = WORKLOAD_JOB + 1,
	_ROW_NAME_MAX,
};

struct policy_row {
	uint32_t rule; /* position in the policy */
	uint32_t uid, gid;
	uint32_t peer, peer_mask; /* network order */
	uint32_t name; /* a hash */
	uint16_t first_port, last_port;
	uint8_t has; /* ROW_* */
	uint8_t name_of; /* enum row_name */
	uint16_t ps; /* enum rdma_port_space */
};

struct policy_rows {
	struct policy_row *rows; /* those of an operation after those of the one before */
	size_t first[_POLICY_OPERATION_MAX + 1]; /* by operation */
	unsigned names; /* bit i: a row has ROW_NAME of enum row_name i */
	bool has_groups;
};

/* What of a question is known, in the form of rows. */
struct row_facts {
	uint8_t known; /* ROW_* */
	uint8_t names; /* bit i: NAME[i] is known */
	bool peer_is_ipv4;
	uint32_t uid, peer;
	int port, ps;
	uint32_t name[_ROW_NAME_MAX];
	uint64_t groups[4]; /* a bit for each group, by its last bits */
};

/* To be called after the last rule was added. Returns 0 or -ENOMEM. */
int rows_make(struct policy *policy);
void rows_done(struct policy_rows *rows);
void row_facts_init(struct row_facts *ret, const struct policy_rows *rows,
		    const struct policy_facts *facts);

static inline bool row_has_bit(const struct row_facts *facts, uint32_t gid)
{
	return facts->groups[gid >> 6 & 3] >> (gid & 63) & 1;
}

/* True: the rule of ROW does not match, whatever the unknown facts are. */
static inline bool row_excludes(const struct policy_row *row, const struct row_facts *facts)
{
	unsigned has = row->has & facts->known;

	return (has & ROW_USER && row->uid != facts->uid) ||
	       (has & ROW_PORTS &&
		(facts->port < row->first_port || facts->port > row->last_port)) ||
	       (has & ROW_PEER &&
		(!facts->peer_is_ipv4 || (facts->peer & row->peer_mask) != row->peer)) ||
	       (has & ROW_GROUP && !row_has_bit(facts, row->gid)) ||
	       (has & ROW_NAME && facts->names >> row->name_of & 1 &&
		row->name != facts->name[row->name_of]) ||
	       (has & ROW_PS && row->ps != facts->ps);
}

/* True: the rule of OUTER does not match all that the rule of INNER matches. */
bool row_is_narrower(const struct policy_row *outer, const struct policy_row *inner);

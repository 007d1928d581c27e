/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What was refused, or allowed with a warning, in words that a rule could match: the admin reads here what the policy
 * lacks. The rows are in the ledger, so that a restart keeps them; learned.h keeps them on disk.
 *
 *   owner ── row, row, ...   an owner has a share of the table; when it is full, the row leaves that was noted the longest
 *                            ago. The owners of a range have one share together: of them, the owner with the most rows
 *                            loses one
 *   group ── row, row, ...   alike but for the peer, for each of which there is a row; when there are too many, the
 *                            nearest two are joined to a prefix
 *
 * So whatever a client, or the peers of a client, ask for hides nothing that another one has asked for. What has another
 * name or number each time is no difference, so that each job and each login adds to the rows of the one before: a row that
 * was noted for several has "*" in the place of what differs, see likeness.h.
 */

#include "core/admit/intent.h"
#include "policy/policy.h"
#include "takeover/ledger.h"

#define REFUSED_OF_OWNER 256
#define REFUSED_PEERS 8 /* rows of a group */

struct core;
struct ledger;
struct old_ledger;
struct overflow;
struct refused_table;
struct session;

enum refused_outcome { /* kept in the ledger */
		       REFUSED_REJECTED, /* by a rule, or a restriction */
		       REFUSED_NO_RULE,
		       REFUSED_BUSY, /* by a limit of a rule */
		       REFUSED_WARNED, /* allowed by a warn rule */
		       /* These have the operation session, and the quota in place of a rule. */
		       REFUSED_QUOTA, /* by a quota */
		       REFUSED_QUOTA_WARNED, /* above a quota, see quota.h */
		       _REFUSED_OUTCOME_MAX,
};

/* ledger_refused.port_kind */
enum refused_port {
	REFUSED_PORT_UNKNOWN,
	REFUSED_PORT_NUMBER,
	REFUSED_PORT_ANY, /* the kernel has chosen it, so the next one is another; or it has chosen several, for peers */
};

int refused_new(struct refused_table **ret);
struct refused_table *refused_free(struct refused_table *table); /* the rows stay in the ledger */
/*
 * Notes that VERDICT about INTENT refuses, or warns; OVERFLOW as in decide_audit(). If memory runs out, it is not noted.
 */
void refused_note(struct session *session, const struct intent *intent,
		  const struct policy_verdict *verdict, const struct overflow *overflow);
/* As core.on_quota. */
void refused_note_quota(struct session *session, const char *text, bool refused);
/* Takes over what a previous process has noted. */
void core_restore_refused(struct core *core, const struct old_ledger *old);
/* Adds N rows that were noted earlier; LEARNED is about them. ROWS are sorted. */
void core_add_refused(struct core *core, struct ledger_refused *rows, size_t n,
		      const struct ledger_learned *learned);
/* Frees all rows, and begins anew. */
void core_clear_refused(struct core *core);
const struct ledger_learned *core_get_learned(const struct core *core);
unsigned core_count_refused(const struct core *core);
/* True: a previous process has left rows, or that it had none. */
bool core_has_restored_refused(const struct core *core);
/* How often rows have changed in what they say, and how often at all, counts and times included. */
struct refused_changes {
	uint64_t n, n_all;
};
struct refused_changes core_get_refused_changes(const struct core *core);
/* The row with the lowest number that is at least NUMBER; NULL: none. */
const struct ledger_refused *core_refused_from(const struct core *core, uint64_t number);

/* The number of leading bits that both addresses, or prefixes, have in common; -1: they are of different families. */
int refused_common_bits(const struct ledger_prefix *a, const struct ledger_prefix *b);

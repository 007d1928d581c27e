/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What the broker knows: its sessions with their ids, and what decides over them. Between the wire
 * above, of which nothing is known here, and policy and fabric below, which do not know each other.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/admission.h"
#include "core/loglimit.h"
#include "core/metrics.h"
#include "core/pool.h"
#include "core/timewait.h"
#include "core/wait.h"
#include "fabric/fabric.h"
#include "policy/policy.h"
#include "util/account.h"
#include "util/list.h"
#include "util/log.h"

struct core_settings {
	unsigned max_ids_per_session;
	int backlog; /* of a listener where neither client nor rule says */
	int tos; /* likewise; -1: leave it to the kernel */
	unsigned resolve_timeout_ms; /* the cap */
};

struct closer;
struct session;
struct units;

struct core {
	struct fabric *fabric;
	struct policy *policy;
	struct admissions *admissions; /* of policy's rules */
	struct account account;
	struct closer *closer; /* of what clients have touched */
	struct units *units; /* find out which unit a client is in */
	struct core_settings settings;

	sd_event *loop;
	struct list sessions; /* session.link */
	struct list enforcing; /* session.enforcing */
	sd_event_source *enforcer; /* runs while there is one */
	struct waits waits; /* for the fabric */
	struct list exports; /* export.link, see export.c */
	struct list watches; /* watch.link, see watch.h */
	struct timewaits timewaits;
	struct pool *pool;
	bool draining; /* nothing new is taken */
	uint64_t last_session; /* number given to the youngest */

	/* Gauges, kept by id.c: */
	unsigned n_sessions;
	unsigned n_ids;
	unsigned n_listeners;
	unsigned n_connections; /* established */
	unsigned n_handshakes; /* asked for or accepted, not yet established */
	unsigned n_leases; /* kept by lease.c */

	struct metrics metrics;

	struct log_limits log_limits; /* by uid and rule: reconnecting brings nobody more lines */
};

/* POLICY is referenced. The account's limits are the caller's to set. */
int core_new(struct core **ret, sd_event *loop, enum fabric_access access, struct policy *policy);
struct core *core_free(struct core *core); /* all sessions must be gone */

/*
 * For the next line about UID and a decision of the rule that TALLY is of, which may be one of an earlier
 * policy. TALLY NULL: a line that is about no decision.
 */
struct ratelimit *core_log_limit(struct core *core, uid_t uid, const struct tally *tally);

/* From now on POLICY decides; what exists stays as it is. 0 or -ENOMEM: then nothing has changed. */
int core_set_policy(struct core *core, struct policy *policy);
/* enforce.c: what POLICY does not allow any more is ended; where it is much, some of it in each turn of the loop. */
int core_init_enforcing(struct core *core);
void core_enforce(struct core *core);
/*
 * An admin, BY, ends a session or one id of it, as enforcing would; the journal says who did. 0, or
 * STATUS_NO_SUCH_ID, STATUS_BAD_STATE, STATUS_BAD_REQUEST (of itself) with BY's failure set.
 */
int core_kick_session(struct session *by, uint64_t number);
int core_kick_id(struct session *by, uint64_t number, uint32_t handle);
/* Likewise: nothing new is taken from now on, or it is again. */
void core_set_draining(struct session *by, bool draining);

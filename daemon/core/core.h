/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The core: the sessions with their ids, and the decisions about them. It knows nothing of the wire protocol
 * above it (rpc/). It connects policy and fabric below it, which do not know each other.
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
	int backlog; /* of a listener, if neither client nor rule sets it */
	int tos; /* of a connection, likewise; -1: the kernel's default */
	unsigned resolve_timeout_ms; /* upper limit */
};

struct closer;
struct session;
struct units;

struct core {
	struct fabric *fabric;
	struct policy *policy;
	struct admissions *admissions; /* of the policy's rules */
	struct account account;
	struct closer *closer; /* closes descriptors that clients have touched */
	struct units *units; /* look up which unit a client is in */
	struct core_settings settings;

	sd_event *loop;
	fabric_event_fn on_event; /* dispatch_event(), for the ids that id.c creates */
	struct list sessions; /* session.link */
	struct list enforcing; /* session.enforcing */
	sd_event_source *enforcer; /* enabled while there is one */
	struct waits waits; /* requests that wait for the fabric */
	struct list tokens; /* token.link, see token.h */
	struct list watches; /* watch.link, see watch.h */
	struct timewaits timewaits;
	struct pool *pool;
	bool draining; /* nothing new may begin */
	uint64_t last_session; /* the newest session's number */

	/* Gauges, kept by session.c, id.c and id_state.c: */
	unsigned n_sessions;
	unsigned n_ids;
	unsigned n_listeners;
	unsigned n_connections; /* established */
	unsigned n_handshakes; /* connect or accept requested, not yet established */
	unsigned n_leases; /* kept by lease.c */

	struct metrics metrics;

	struct log_limits log_limits; /* by uid and rule, so reconnecting gains no more lines */
};

/* Takes a reference to POLICY. The caller sets the account's limits. */
int core_new(struct core **ret, sd_event *loop, enum fabric_access access, struct policy *policy);
struct core *core_free(struct core *core); /* all sessions must be gone */

/* POLICY decides from now on; what exists already is not changed. 0 or -ENOMEM: then nothing has changed. */
int core_set_policy(struct core *core, struct policy *policy);

/*
 * Returns the rate limit for the next log line about UID and a decision by TALLY's rule. The rule may belong to an
 * earlier policy. TALLY is NULL if the line is not about a decision.
 */
static inline struct ratelimit *core_log_limit(struct core *core, uid_t uid,
					       const struct tally *tally)
{
	return log_limits_get(&core->log_limits, uid, tally ? tally->number : 0);
}

/* For rpc/, which knows nothing of the members: */

static inline struct fabric *core_get_fabric(const struct core *core)
{
	return core->fabric;
}

static inline struct policy *core_get_policy(const struct core *core)
{
	return core->policy;
}

/* RULE NULL: of what no rule matches. */
static inline const struct tally *core_get_tally(const struct core *core,
						 const struct policy_rule *rule)
{
	return admissions_find(core->admissions, rule);
}

static inline struct closer *core_get_closer(const struct core *core)
{
	return core->closer;
}

static inline struct account *core_get_account(struct core *core)
{
	return &core->account;
}

static inline const struct core_settings *core_get_settings(const struct core *core)
{
	return &core->settings;
}

/* What exists now. */
struct core_counts {
	unsigned n_sessions, n_ids, n_listeners, n_connections, n_handshakes, n_leases;
};

static inline struct core_counts core_get_counts(const struct core *core)
{
	return (struct core_counts){
		.n_sessions = core->n_sessions,
		.n_ids = core->n_ids,
		.n_listeners = core->n_listeners,
		.n_connections = core->n_connections,
		.n_handshakes = core->n_handshakes,
		.n_leases = core->n_leases,
	};
}

static inline bool core_is_draining(const struct core *core)
{
	return core->draining;
}

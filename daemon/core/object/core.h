/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The core: sessions, their ids, and the decisions about them. It does not know the wire protocol (rpc/). It connects
 * policy and fabric, which do not know each other.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/facts/admission.h"
#include "core/facts/loglimit.h"
#include "core/facts/metrics.h"
#include "fabric/fabric.h"
#include "policy/policy.h"
#include "util/account.h"
#include "util/list.h"
#include "util/log.h"
#include "util/roster.h"

struct core_settings {
	unsigned max_ids_per_session;
	int backlog; /* backlog of a listener for which neither the client nor a rule sets one */
	/* TOS of a connection for which neither the client nor a rule sets one; -1: the kernel's default */
	int tos;
	unsigned resolve_timeout_ms; /* upper limit and default of each timeout for a resolution */
	/* how long a session without a socket keeps its leases, see linger.h; 0: it does not */
	unsigned resume_timeout_ms;
};

struct refused_table;
struct session;
struct route_holds;
struct sampler;
struct sightings;
struct closer;
struct inquiries;
struct ledger;
struct lingers;
struct timewaits;
struct tokens;
struct waits;
struct workloads;
struct socketstore;
struct whois_index;

/*
 * What the next process of the daemon gets, see id_save() and session_save(). All zero: nothing is kept. Set before the
 * first session; its objects outlive the core.
 */
struct core_keep {
	struct ledger *ledger;
	struct socketstore *socketstore;
	/* see fabric_ops */
	void (*opened)(void *userdata, int file);
	void (*restores)(void *userdata, int file);
	void *userdata;
};

/* What this process has restored of what the previous one has left. */
struct core_take_over {
	uint64_t generation; /* from 1; 0: nothing is kept for the next process */
	unsigned n_sessions;
	unsigned n_ended; /* sessions that could not be restored */
	uint64_t took_ms;
	uint64_t at_ms; /* CLOCK_MONOTONIC */
};

/* The SLs that go with a TOS on Ethernet, see priority.h. */
enum { PRIORITIES_MAX = 32 };

struct priorities {
	struct known_priority {
		struct sockaddr_storage local; /* ss_family 0: none */
		int tos;
		uint8_t sl;
		uint64_t until_ms; /* CLOCK_MONOTONIC */
	} known[PRIORITIES_MAX];
	unsigned next; /* of KNOWN, to be replaced */
};

struct core {
	struct fabric *fabric;
	struct policy *policy;
	struct admissions *admissions; /* tallies of the policy's rules */
	struct account account;
	struct closer *closer; /* threads that close clients' sockets and descriptors */
	struct workloads *workloads; /* look up the systemd units of clients */
	struct core_keep keep;
	struct core_take_over take_over;
	struct core_settings settings;

	sd_event *loop;
	/* dispatch_event(), which handles the events of sessions' ids */
	fabric_event_fn on_event;
	/*
	 * A quota, as TEXT says, has refused what SESSION wanted, or was exceeded with a warning: refused_note_quota(); NULL:
	 * nobody is told
	 */
	void (*on_quota)(struct session *session, const char *text, bool refused);
	struct list sessions; /* session.link */
	struct roster by_number; /* the same sessions */
	struct list enforcing; /* session.enforcing */
	sd_event_source *enforcer; /* timer for the next slice of ENFORCING */
	struct route_holds
		*route_holds; /* ids whose ADDR_RESOLVED or ROUTE_RESOLVED is sent later */
	struct waits *waits;
	struct roster restrictions;
	struct tokens *tokens;
	struct list watches; /* watch.link, see watch.h */
	struct refused_table *refused; /* see refused.h */
	struct sightings *sightings; /* who has used RDMA without the broker */
	struct sampler *sampler;
	struct timewaits *timewaits;
	struct inquiries *inquiries;
	struct lingers *lingers;
	struct whois_index *whois; /* NULL: nobody needs it, see whois.h */
	bool draining; /* clients that begin anything new are refused */
	uint64_t last_session; /* number of the newest session, restriction or published socket */

	unsigned n_sessions;
	unsigned n_ids;
	unsigned n_listeners;
	unsigned n_connections; /* established connections */
	/* connections that are being set up, and pending service look-ups of datagram ids */
	unsigned n_handshakes;
	unsigned n_leases;
	uint64_t n_own_fds; /* those that are charged to no user, when they were last counted */

	struct metrics metrics;
	struct priorities priorities;

	/* rate limits of log lines, by uid and rule: a client cannot escape them by reconnecting */
	struct log_limits log_limits;
};

/* A number that no session, restriction or published socket has had. */
uint64_t core_next_number(struct core *core);
/* New sessions get numbers above LAST. */
void core_set_last_session(struct core *core, uint64_t last);

/*
 * POLICY decides from now on. Existing sessions and ids are not checked. Returns 0 or -ENOMEM: then nothing has
 * changed.
 */
int core_set_policy(struct core *core, struct policy *policy);

/*
 * The number of descriptors that are open in this process; 0: not known. If clients hold many, only theirs are exact:
 * to count all would take milliseconds.
 */
uint64_t core_count_fds(struct core *core);

/*
 * The rate limit for the next log line about OWNER and a decision by TALLY's rule. TALLY NULL: the line is not about a
 * decision.
 */
static inline struct ratelimit *core_log_limit(struct core *core, struct owner owner,
					       const struct tally *tally)
{
	return log_limits_get(&core->log_limits, owner, tally ? tally->number : LOG_ABOUT_OTHER);
}

/* Getters for rpc/, which does not access the members: */

static inline sd_event *core_get_loop(const struct core *core)
{
	return core->loop;
}

static inline struct fabric *core_get_fabric(const struct core *core)
{
	return core->fabric;
}

static inline struct policy *core_get_policy(const struct core *core)
{
	return core->policy;
}

/* RULE is of the policy in force; NULL: the tally of policy requests that no rule matches. */
static inline struct tally *core_get_tally(const struct core *core, const struct policy_rule *rule)
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

static inline struct ledger *core_get_ledger(const struct core *core)
{
	return core->keep.ledger;
}

static inline const struct core_take_over *core_get_take_over(const struct core *core)
{
	return &core->take_over;
}

static inline struct socketstore *core_get_socketstore(const struct core *core)
{
	return core->keep.socketstore;
}

static inline const struct core_settings *core_get_settings(const struct core *core)
{
	return &core->settings;
}

static inline const struct sightings *core_get_sightings(const struct core *core)
{
	return core->sightings;
}

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

/* What warn rules have allowed since the daemon started. */
static inline uint64_t core_count_warned(const struct core *core)
{
	uint64_t n = 0;

	for (int i = 0; i < _POLICY_OPERATION_MAX; i++)
		n += core->metrics.decisions[i][DECISION_WARNED];
	return n;
}

static inline bool core_is_draining(const struct core *core)
{
	return core->draining;
}

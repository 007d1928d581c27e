/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The daemon's counters, except those of rules (struct tally). rpc/do_metrics.c prints them. */

#include <stdint.h>

#include "policy/policy.h"
#include "proto/status.h"
#include "util/metrics.h"

enum decision {
	DECISION_ALLOWED,
	DECISION_REJECTED, /* by a rule */
	DECISION_NO_RULE, /* rejected, because no rule matches */
	DECISION_BUSY, /* allowed, but then refused by a limit of the rule */
	DECISION_WARNED, /* allowed by a warn rule */
	_DECISION_MAX,
};

/* The steps of a connection whose duration the daemon measures. */
enum phase {
	PHASE_RESOLVE_ADDR,
	PHASE_RESOLVE_ROUTE,
	PHASE_CONNECT, /* from the client's request until the peer's answer */
	PHASE_ACCEPT, /* from the connection request until the program has accepted */
	/* from the accept, sent or received, until the connection is established */
	PHASE_ESTABLISH,
	PHASE_DISCONNECT, /* from the client's request until the peer's answer */
	_PHASE_MAX,
};

#define METRICS_N_EVENTS 16 /* the number of values of enum rdma_cm_event_type */

struct metrics {
	uint64_t decisions[_POLICY_OPERATION_MAX][_DECISION_MAX];
	uint64_t refusals[_STATUS_MAX]; /* refused requests of clients, by enum status */
	/*
	 * sent to clients, by enum rdma_cm_event_type; an ADDR_RESOLVED with the route counts as ROUTE_RESOLVED too
	 */
	uint64_t events[METRICS_N_EVENTS];
	struct histogram phases[_PHASE_MAX];
};

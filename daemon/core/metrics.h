/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What is counted since the daemon started, besides the rules' own counters. rpc/metrics.c prints it. */

#include <stdint.h>

#include "policy/policy.h"
#include "proto/status.h"
#include "util/metrics.h"

enum decision {
	DECISION_ALLOWED,
	DECISION_REJECTED, /* by a rule */
	DECISION_NO_RULE,
	DECISION_BUSY, /* allowed, but then refused by a limit of the rule */
	_DECISION_MAX,
};

/* The steps of a connection as the daemon sees them, with the names of cmtime(1). */
enum phase {
	PHASE_RESOLVE_ADDR,
	PHASE_RESOLVE_ROUTE,
	PHASE_CONNECT, /* from the request until the peer's answer */
	PHASE_ACCEPT, /* from the connection request until the program has accepted */
	PHASE_ESTABLISH, /* from the accept, sent or received, until it was confirmed */
	PHASE_DISCONNECT, /* from the request until the peer's answer */
	_PHASE_MAX,
};

#define METRICS_N_EVENTS 16 /* of enum rdma_cm_event_type */

struct metrics {
	uint64_t decisions[_POLICY_OPERATION_MAX][_DECISION_MAX];
	uint64_t refusals[_STATUS_MAX]; /* of requests, by enum status */
	uint64_t events[METRICS_N_EVENTS]; /* sent to clients */
	struct histogram phases[_PHASE_MAX];
};

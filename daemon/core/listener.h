/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The listener of a listening id, and the backlog, which its connection requests share with it. */

#include "proto/status.h"
#include "util/account.h"

struct failure;
struct id;
struct policy_rule;
struct session;

/*
 * Counts a listener's connection requests that wait for the program's answer. The kernel's own backlog cannot
 * serve for that: it counts only requests that the daemon has not read, and the daemon reads at once. The
 * backlog outlives the listener while one of its requests waits, in whatever session.
 */
struct backlog {
	unsigned n_refs; /* one of the listener, and one of each request that waits */
	unsigned max;
	unsigned n_waiting;
};

struct listener {
	struct charge charge;
	struct backlog *backlog;
};

int listener_new(struct listener **ret, struct session *session, unsigned backlog,
		 struct failure *failure);
struct listener *listener_free(struct listener *listener);
int listener_charge(struct session *session, struct charge *charge, struct failure *failure);
/* Replaces the listener's charge by CHARGE, which is on the new owner's user. */
void listener_set_charge(struct listener *listener, struct charge *charge);
/* RULE now applies to LISTENER: reduces the listener's backlog to RULE's. */
void listener_set_rule(struct listener *listener, const struct policy_rule *rule);

/* REQUEST counts in the listener's backlog from now on. */
void listener_add(struct listener *listener, struct id *request);
/* REQUEST no longer counts in its listener's backlog. No effect if it did not count. */
void listener_answered(struct id *request);
/*
 * Rejects a connection request in the broker's name. The caller moves the id to FAILED. RETRY_AFTER_MS: for
 * REFUSAL_BUSY, else 0.
 */
void listener_turn_away(struct id *request, enum refusal_code code, uint32_t retry_after_ms,
			const char *text);

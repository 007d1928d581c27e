/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A listener is a part of an id. It is created when the id begins to listen, and freed with the id. It shares its
 * backlog with its connection requests.
 */

#include "proto/status.h"
#include "util/account.h"

struct failure;
struct id;
struct policy_rule;
struct session;

/*
 * Counts a listener's connection requests that wait for the program's answer. The kernel's own backlog cannot be
 * used, because it counts only requests that the daemon has not read, and the daemon reads at once. The backlog
 * exists until the listener is freed and none of its requests waits any more. A request that another session has
 * taken over still counts as one of them.
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
/* Replaces the listener's charge by CHARGE, which is booked to the account of the new owner's user. */
void listener_set_charge(struct listener *listener, struct charge *charge);
/*
 * RULE now applies to LISTENER: if RULE sets a backlog that is smaller than the listener's, reduces the listener's
 * to it.
 */
void listener_set_rule(struct listener *listener, const struct policy_rule *rule);

/* REQUEST counts in the listener's backlog from now on. */
void listener_add(struct listener *listener, struct id *request);
/* REQUEST no longer counts in its listener's backlog. No effect if it did not count. */
void listener_answered(struct id *request);
/*
 * Rejects a connection request in the broker's name. The peer gets CODE and TEXT. The caller has to set the id's
 * state. RETRY_AFTER_MS: for REFUSAL_BUSY, else 0.
 */
void listener_turn_away(struct id *request, enum refusal_code code, uint32_t retry_after_ms,
			const char *text);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The listening part of an id. A listener is freed with its id, and shares its backlog with its connection requests.
 */

#include "proto/status.h"
#include "util/account.h"
#include "util/list.h"

struct fabric_id;
struct failure;
struct id;
struct policy_rule;

/*
 * Counts a listener's unanswered connection requests, including those that other sessions have imported. The
 * kernel's backlog counts only requests that the daemon has not read.
 */
struct backlog {
	unsigned n_refs; /* one of the listener, and one of each waiting request */
	unsigned max;
	unsigned n_waiting;
};

struct listener {
	struct charge charge;
	struct backlog *backlog;
	struct id *id; /* that listens */
	struct list asked; /* undecided.link: requests that wait, see undecided.h */
};

/* The listener of ID, which the caller sets. */
int listener_new(struct listener **ret, struct id *id, unsigned backlog, struct failure *failure);
struct listener *listener_free(struct listener *listener);
/* If RULE sets a smaller backlog than the listener's, reduces the listener's. */
void listener_set_rule(struct listener *listener, const struct policy_rule *rule);

/* REQUEST counts in the listener's backlog from now on. */
void listener_add(struct listener *listener, struct id *request);
/* REQUEST no longer counts in its backlog. No effect if it did not count. */
void listener_answered(struct id *request);
/* Rejects REQUEST, which nobody has got yet, with CODE and TEXT. RETRY_AFTER_MS: for REFUSAL_BUSY, else 0. */
void listener_reject(struct fabric_id *request, bool is_datagram, enum refusal_code code,
		     uint32_t retry_after_ms, const char *text);
/* The same for an id that has a session. The caller has to set the id's state. */
void listener_turn_away(struct id *request, enum refusal_code code, uint32_t retry_after_ms,
			const char *text);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What each rule has admitted: its counters, the number of objects at a time, and the token buckets behind
 * the limits of struct policy_settings. When the policy is replaced, a rule's tally passes to the new rule
 * with the same file and text. A tally lives at least as long as anything that it admitted.
 *
 * Admission is all or nothing: either all limits of the rule admit an object, or none of them counts it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "policy/policy.h"

struct admissions;
struct tally_user;
struct tally_peer;

/* The maximum of users, and of peers, that one rule keeps buckets for. */
#define TALLY_KEYS_MAX 65536

struct tally {
	unsigned n_refs;
	uint64_t number; /* from 1; never reused, even when the tally is gone */
	char *key; /* file and text of its rule */
	uint64_t n_allowed, n_rejected, n_busy; /* decisions since the daemon started */
	unsigned n_now; /* objects that exist now */
	unsigned n_pending; /* of them: requests that wait for the client's accept */

	/* All times are CLOCK_MONOTONIC in ns. */
	uint64_t bucket; /* when it is full again, see has_token() */
	uint64_t queue; /* when the last of those that were told to retry is due */
	struct tally_user *users; /* a uthash table, by uid */
	struct tally_peer *peers; /* likewise, by address */
	/* Where the sweep for dead keys continues; NULL: at the beginning. */
	struct tally_user *sweep_user;
	struct tally_peer *sweep_peer;
};

/* Embedded in what was admitted. */
struct admitted {
	struct tally *tally; /* NULL: nothing is admitted */
	struct tally_user *user; /* NULL: the rule does not count by user */
	bool pending;
};

/* The limit that was reached, and when to retry. */
struct overflow {
	char limit[64]; /* "rate 200/s" */
	uint32_t retry_after_ms;
};

/* OLD, whose tallies are taken over, may be NULL; it stays the caller's. */
int admissions_new(struct admissions **ret, const struct policy *policy,
		   const struct admissions *old);
struct admissions *admissions_free(struct admissions *admissions); /* takes NULL; returns NULL */
/* RULE is of the policy that ADMISSIONS was made for; NULL: gives the tally for what no rule matches. */
struct tally *admissions_find(const struct admissions *admissions, const struct policy_rule *rule);

struct tally *tally_ref(struct tally *tally);
struct tally *tally_unref(struct tally *tally); /* takes NULL; returns NULL */
/* The number of users and peers that it keeps buckets for; some of them may be dead. */
unsigned tally_count_keys(const struct tally *tally);

/*
 * PEER may be NULL: then limits per peer do not apply. PENDING: the object is a connection request that waits
 * for the client's accept. Returns 0, -ENOMEM, or -EBUSY with RET_OVERFLOW set. RET is released by
 * admitted_done().
 */
int tally_admit(struct tally *tally, const struct policy_settings *settings, uint64_t now_ns,
		uid_t uid, const struct sockaddr *peer, bool pending, struct admitted *ret,
		struct overflow *ret_overflow);
void admitted_answered(struct admitted *admitted); /* no longer waits for the accept */
/* Moves an admission to another owner, of user UID. Limits do not apply, because it was admitted already. */
void admitted_move(struct admitted *from, struct admitted *to, uid_t uid);
void admitted_done(struct admitted *admitted); /* idempotent */

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A rule admits objects: sessions, listeners, connections, multicast groups and leases. The rule's tally counts its
 * decisions and objects, and has the token buckets of its rate limits. When the policy is replaced, a tally passes to
 * the new rule with the same file and text.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "policy/policy.h"

struct admissions;
struct tally_key;

/* A tally has at most this many users, and at most this many peers. */
#define TALLY_KEYS_MAX 65536

struct tally_keys {
	struct tally_key *table; /* a uthash table */
	struct tally_key *sweep; /* where the sweeps go on; NULL: at the first element */
};

struct tally {
	unsigned n_refs;
	uint64_t number; /* from 1; never reused */
	char *key; /* file and text of its rule */
	/* decisions since the tally was created; what a warn rule admits is not in N_ALLOWED */
	uint64_t n_allowed, n_rejected, n_busy, n_warned;
	unsigned n_now; /* objects that exist now */
	unsigned n_pending; /* those of N_NOW that are unanswered connection requests */

	/* All times are CLOCK_MONOTONIC in ns. */
	uint64_t bucket; /* when the bucket is full again, see has_token() */
	uint64_t queue; /* the latest time to retry that a refused request got */
	struct tally_keys users; /* by uid */
	struct tally_keys peers; /* by address */
};

/* An admission. Embedded in the admitted object. */
struct admitted {
	struct tally *tally; /* NULL: nothing was admitted */
	struct tally_key *user; /* NULL: the object is not counted for its user */
	bool pending; /* counted in tally.n_pending */
};

/* The limit that a request has reached, and the time to retry. */
struct overflow {
	char limit[64]; /* for messages: "rate 200/s" */
	uint32_t retry_after_ms;
};

/*
 * Creates the tallies for POLICY. A rule shares the tally of a rule of OLD with the same file and text. OLD NULL:
 * none. Returns 0 or -ENOMEM.
 */
int admissions_new(struct admissions **ret, const struct policy *policy,
		   const struct admissions *old);
struct admissions *admissions_free(struct admissions *admissions); /* takes NULL; returns NULL */
/*
 * RULE must belong to the policy that ADMISSIONS was made for. RULE NULL: the tally of policy requests that no rule
 * matches.
 */
struct tally *admissions_find(const struct admissions *admissions, const struct policy_rule *rule);

struct tally *tally_ref(struct tally *tally);
struct tally *tally_unref(struct tally *tally); /* takes NULL; returns NULL */
/* The number of TALLY's users plus the number of its peers. */
unsigned tally_count_keys(const struct tally *tally);

/*
 * Admits an object of user UID if the limits in SETTINGS allow it. PEER NULL: no limits per peer. PENDING: the object
 * is an unanswered connection request. Returns 0: admitted_done() releases RET; -ENOMEM; or -EBUSY: RET_OVERFLOW is
 * set.
 */
int tally_admit(struct tally *tally, const struct policy_settings *settings, uint64_t now_ns,
		uid_t owner, const struct sockaddr *peer, bool pending, struct admitted *ret,
		struct overflow *ret_overflow);
/* The connection request was answered. Idempotent. */
void admitted_answered(struct admitted *admitted);
/* Moves an admission to another object, of user UID, without checking limits. */
void admitted_move(struct admitted *from, struct admitted *to, uid_t owner);
void admitted_done(struct admitted *admitted); /* idempotent */

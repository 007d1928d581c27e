/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Each rule has a tally: the counters of its decisions, the number of objects that the rule has admitted and that
 * exist now, and the token buckets of its rate limits (struct policy_settings). One more tally counts the policy
 * requests that no rule matches. When the policy is replaced, a tally passes to the new rule with the same file and
 * text. A tally exists at least as long as its objects.
 *
 * Admission is all or nothing: if one limit of a rule refuses an object, no limit of the rule counts the object.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "policy/policy.h"

struct admissions;
struct tally_user;
struct tally_peer;

/* One rule keeps buckets for at most this many users, and for at most this many peers. */
#define TALLY_KEYS_MAX 65536

struct tally {
	unsigned n_refs;
	uint64_t number; /* from 1; never reused, even when the tally is gone */
	char *key; /* file and text of its rule */
	uint64_t n_allowed, n_rejected, n_busy; /* decisions since the tally was created */
	unsigned n_now; /* objects that exist now */
	/* how many of n_now are connection requests that wait for the client's accept */
	unsigned n_pending;

	/* All times are CLOCK_MONOTONIC in ns. */
	uint64_t bucket; /* when the bucket is full again, see has_token() */
	uint64_t queue; /* the latest of the times to retry that refused requests got */
	struct tally_user *users; /* a uthash table, by uid */
	struct tally_peer *peers; /* a uthash table, by address */
	/* The next elements of USERS and PEERS to check, and to free if they are not needed; NULL: the first. */
	struct tally_user *sweep_user;
	struct tally_peer *sweep_peer;
};

/* An admission. Embedded in the object that was admitted. */
struct admitted {
	struct tally *tally; /* NULL: nothing was admitted */
	struct tally_user *user; /* NULL: the object is not counted for its user */
	bool pending; /* counted in tally.n_pending */
};

/* The limit that a request has reached, and the time to retry. */
struct overflow {
	char limit[64]; /* the limit as in a rule: "rate 200/s" */
	uint32_t retry_after_ms;
};

/*
 * Creates the tallies for the rules of POLICY. A rule gets its tally from OLD if OLD has one for a rule with the
 * same file and text. OLD may be NULL; it stays the caller's. Returns 0 or -ENOMEM.
 */
int admissions_new(struct admissions **ret, const struct policy *policy,
		   const struct admissions *old);
struct admissions *admissions_free(struct admissions *admissions); /* takes NULL; returns NULL */
/*
 * Finds the tally of RULE, which must be of the policy that ADMISSIONS was made for. RULE NULL: finds the
 * tally of the requests that no rule matches.
 */
struct tally *admissions_find(const struct admissions *admissions, const struct policy_rule *rule);

struct tally *tally_ref(struct tally *tally);
struct tally *tally_unref(struct tally *tally); /* takes NULL; returns NULL */
/* The number of users plus the number of peers for which TALLY keeps buckets, including full buckets. */
unsigned tally_count_keys(const struct tally *tally);

/*
 * Admits an object of user UID, if all limits in SETTINGS allow it. PEER may be NULL: then limits per peer do
 * not apply. PENDING: the object is a connection request that waits for the client's accept. Returns 0: RET is set,
 * and admitted_done() releases it; -ENOMEM; or -EBUSY: RET_OVERFLOW is set.
 */
int tally_admit(struct tally *tally, const struct policy_settings *settings, uint64_t now_ns,
		uid_t uid, const struct sockaddr *peer, bool pending, struct admitted *ret,
		struct overflow *ret_overflow);
/* To be called when the object no longer waits for the client's accept. Idempotent. */
void admitted_answered(struct admitted *admitted);
/* Moves an admission to another owner, of user UID. No limit is checked, because the object was admitted before. */
void admitted_move(struct admitted *from, struct admitted *to, uid_t uid);
void admitted_done(struct admitted *admitted); /* idempotent */

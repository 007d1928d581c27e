/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What each rule has admitted: the counters, the objects at a time and the token buckets behind the
 * limits of struct policy_settings. A rule's tally is handed on to the rule with the same file and text
 * when the policy is replaced, and lives for as long as something that it admitted.
 *
 * All or nothing: an object is admitted by every limit of its rule, or no limit has noticed it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "policy/policy.h"

struct admissions;
struct tally_user;
struct tally_peer;

/* Users, and peers, that one rule keeps buckets for. */
#define TALLY_KEYS_MAX 65536

struct tally {
	unsigned n_refs;
	uint64_t number; /* stands for it and no other, from 1, also when it is gone */
	char *key; /* file and text of its rule */
	uint64_t n_allowed, n_rejected, n_busy; /* decisions since the daemon started */
	unsigned n_now; /* objects at a time */
	unsigned n_pending; /* of them: requests that wait for the client's accept */

	/* All times are CLOCK_MONOTONIC in ns. */
	uint64_t bucket; /* when its next token is due, see take() */
	uint64_t queue; /* when the last of those told to come again will come */
	struct tally_user *users; /* a uthash table, by uid */
	struct tally_peer *peers; /* likewise, by address */
	/* Where the sweep for dead keys goes on; NULL: at the beginning. */
	struct tally_user *sweep_user;
	struct tally_peer *sweep_peer;
};

/* Embedded in what was admitted. */
struct admitted {
	struct tally *tally; /* NULL: nothing is */
	struct tally_user *user; /* NULL: the rule does not count by user */
	bool pending;
};

/* Why not now. */
struct overflow {
	char limit[64]; /* "rate 200/s" */
	uint32_t retry_after_ms;
};

/* OLD, whose tallies are taken over, may be NULL; it stays the caller's. */
int admissions_new(struct admissions **ret, const struct policy *policy,
		   const struct admissions *old);
struct admissions *admissions_free(struct admissions *admissions); /* takes NULL; returns NULL */
/* RULE is of the policy that ADMISSIONS was made for; NULL: the tally of what no rule matches. */
struct tally *admissions_find(const struct admissions *admissions, const struct policy_rule *rule);

struct tally *tally_ref(struct tally *tally);
struct tally *tally_unref(struct tally *tally); /* takes NULL; returns NULL */
/* Users and peers that it keeps buckets for, some dead ones among them. */
unsigned tally_count_keys(const struct tally *tally);

/*
 * PEER may be NULL: then no limit is by peer. PENDING: it waits for the client's accept from now on.
 * Returns 0, -ENOMEM or -EBUSY: then RET_OVERFLOW says why. RET is given back by admitted_done().
 */
int tally_admit(struct tally *tally, const struct policy_settings *settings, uint64_t now_ns,
		uid_t uid, const struct sockaddr *peer, bool pending, struct admitted *ret,
		struct overflow *ret_overflow);
void admitted_answered(struct admitted *admitted); /* it does not wait any more */
/* It is UID's from now on, past any limit: it was admitted already. */
void admitted_move(struct admitted *from, struct admitted *to, uid_t uid);
void admitted_done(struct admitted *admitted); /* may be called again */

/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/facts/admission.h"
#include "proto/addr.h"
#include "util/hash.h"
#include "util/util.h"

#define NS 1000000000ULL
#define NS_PER_MS 1000000ULL
/* Each admission checks this many users and this many peers of its tally, and frees those that are not needed. */
#define SWEEP_STEP 2
/*
 * If a table is full, at most this many entries are checked to find one that can be freed. If none can, the admission
 * is refused.
 */
#define SWEEP_FULL 256
#define RETRY_MAX_MS 2000
/* Estimates: it is not known when an object will be freed, or a connection request answered. */
#define RETRY_OBJECT_MS 500
#define RETRY_PENDING_MS 100

struct admissions {
	uint64_t last_number; /* of the newest tally */
	size_t n;
	/* tallies[i] is the tally of rule i; the last one counts the policy requests that no rule matches */
	struct tally *tallies[];
};

/* A user or a peer. */
struct tally_key {
	uint8_t key[ADDR_HOST_LEN];
	unsigned n_now; /* of a user */
	uint64_t bucket, queue;
	UT_hash_handle hh;
};

static struct tally *tally_new(const char *file, const char *text, uint64_t number)
{
	struct tally *tally = calloc(1, sizeof(*tally));

	if (!tally)
		return NULL;
	if (asprintf(&tally->key, "%s\n%s", file, text) < 0) {
		free(tally);
		return NULL;
	}
	tally->n_refs = 1;
	tally->number = number;
	return tally;
}

struct tally *tally_ref(struct tally *tally)
{
	tally->n_refs++;
	return tally;
}

static void keys_done(struct tally_keys *keys)
{
	struct tally_key *key, *next;

	HASH_ITER(hh, keys->table, key, next)
	{
		HASH_DEL(keys->table, key);
		free(key);
	}
}

struct tally *tally_unref(struct tally *tally)
{
	if (!tally || --tally->n_refs > 0)
		return NULL;
	assert(tally->n_now == 0 && tally->n_pending == 0);
	keys_done(&tally->users);
	keys_done(&tally->peers);
	free(tally->key);
	free(tally);
	return NULL;
}

/* A tally of the old policy, in a uthash table by tally.key. */
struct known {
	struct tally *tally;
	UT_hash_handle hh;
};

static struct known *known_new(const struct admissions *old, struct known **ret_array)
{
	struct known *table = NULL, *array, *found;

	*ret_array = array = old ? calloc(old->n, sizeof(*array)) : NULL;
	if (!array)
		return NULL;
	for (size_t i = 0; i < old->n; i++) {
		struct tally *tally = old->tallies[i];

		/* Of two identical rules only the first can match, so only its tally is needed. */
		HASH_FIND_STR(table, tally->key, found);
		if (found)
			continue;
		array[i].tally = tally;
		HASH_ADD_KEYPTR(hh, table, tally->key, strlen(tally->key), &array[i]);
	}
	return table;
}

static struct tally *take_tally(struct known *known, const char *file, const char *text,
				uint64_t *last_number)
{
	_cleanup_free_ char *key = NULL;
	struct known *found = NULL;

	if (known && asprintf(&key, "%s\n%s", file, text) < 0)
		return NULL;
	if (known)
		HASH_FIND_STR(known, key, found);
	return found ? tally_ref(found->tally) : tally_new(file, text, ++*last_number);
}

int admissions_new(struct admissions **ret, const struct policy *policy,
		   const struct admissions *old)
{
	size_t n = policy_n_rules(policy) + 1;
	struct known *array, *known = known_new(old, &array);
	struct admissions *admissions;
	int r = 0;

	admissions = calloc(1, sizeof(*admissions) + n * sizeof(admissions->tallies[0]));
	if (!admissions || (old && !array)) {
		HASH_CLEAR(hh, known);
		free(admissions);
		free(array);
		return -ENOMEM;
	}
	admissions->last_number = old ? old->last_number : 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct policy_rule *rule = policy_rule_at(policy, i);

		admissions->tallies[i] = take_tally(known, rule ? rule->file : "",
						    rule ? rule->text : "",
						    &admissions->last_number);
		if (admissions->tallies[i])
			admissions->n++;
		else
			r = -ENOMEM;
	}
	HASH_CLEAR(hh, known);
	free(array);
	if (r < 0)
		admissions_free(admissions);
	else
		*ret = admissions;
	return r;
}

struct admissions *admissions_free(struct admissions *admissions)
{
	if (!admissions)
		return NULL;
	for (size_t i = 0; i < admissions->n; i++)
		tally_unref(admissions->tallies[i]);
	free(admissions);
	return NULL;
}

struct tally *admissions_find(const struct admissions *admissions, const struct policy_rule *rule)
{
	return admissions->tallies[rule ? rule->index : admissions->n - 1];
}

/*
 * A bucket is the time at which it will be full again. Taking a token moves this time by one interval. The bucket is
 * empty if this time is more than BURST - 1 intervals ahead.
 */
static bool has_token(uint64_t bucket, const struct policy_rate *rate, uint64_t now)
{
	if (rate->per_second == 0)
		return true;
	return bucket <= now + (rate->burst - 1) * (NS / rate->per_second);
}

static void take(uint64_t *bucket, const struct policy_rate *rate, uint64_t now)
{
	if (rate->per_second > 0)
		*bucket = (*bucket > now ? *bucket : now) + NS / rate->per_second;
}

/*
 * Returns the time, in ms from now, when a refused request should be retried. Each request gets a later time than the
 * one before, up to RETRY_MAX_MS, so that few are retried together.
 */
static uint32_t line_up(uint64_t *queue, const struct policy_rate *rate, uint64_t now)
{
	uint64_t ms;

	*queue = (*queue > now ? *queue : now) + NS / rate->per_second;
	if (*queue > now + RETRY_MAX_MS * NS_PER_MS)
		*queue = now + RETRY_MAX_MS * NS_PER_MS;
	ms = (*queue - now + NS_PER_MS - 1) / NS_PER_MS;
	return (uint32_t)ms;
}

/*
 * A user or peer of a tally can be freed if its bucket is full, no object is counted for it, and its times to retry
 * have passed. Each admission checks only a few of them, because a table can be large.
 */

static void sweep(struct tally_keys *keys, unsigned n, uint64_t now)
{
	struct tally_key *key;

	for (; n > 0 && (key = keys->sweep ?: keys->table); n--) {
		keys->sweep = key->hh.next;
		if (key->n_now > 0 || key->bucket > now || key->queue > now)
			continue;
		HASH_DEL(keys->table, key);
		free(key);
	}
}

unsigned tally_count_keys(const struct tally *tally)
{
	return HASH_COUNT(tally->users.table) + HASH_COUNT(tally->peers.table);
}

static int get(struct tally_keys *keys, const uint8_t key[ADDR_HOST_LEN], uint64_t now,
	       struct tally_key **ret)
{
	struct tally_key *found;

	HASH_FIND(hh, keys->table, key, sizeof(found->key), found);
	if (!found) {
		for (unsigned i = 0; i < SWEEP_FULL && HASH_COUNT(keys->table) >= TALLY_KEYS_MAX;
		     i++)
			sweep(keys, 1, now);
		if (HASH_COUNT(keys->table) >= TALLY_KEYS_MAX)
			return -EBUSY;
		found = calloc(1, sizeof(*found));
		if (!found)
			return -ENOMEM;
		memcpy(found->key, key, sizeof(found->key));
		HASH_ADD_OR_FREE(keys->table, key, found);
	}
	*ret = found;
	return found ? 0 : -ENOMEM;
}

static int get_user(struct tally *tally, uid_t uid, uint64_t now, struct tally_key **ret)
{
	uint8_t key[ADDR_HOST_LEN] = { 0 };

	memcpy(key, &uid, sizeof(uid));
	return get(&tally->users, key, now, ret);
}

static int get_peer(struct tally *tally, const struct sockaddr *addr, uint64_t now,
		    struct tally_key **ret)
{
	uint8_t key[ADDR_HOST_LEN];

	addr_host(addr, key);
	return get(&tally->peers, key, now, ret);
}

static int overflow(struct overflow *ret, uint32_t retry_after_ms, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int overflow(struct overflow *ret, uint32_t retry_after_ms, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret->limit, sizeof(ret->limit), fmt, ap);
	va_end(ap);
	ret->retry_after_ms = retry_after_ms;
	return -EBUSY;
}

static int check(struct tally *tally, const struct policy_settings *s, uint64_t now,
		 struct tally_key *user, struct tally_key *peer, bool pending, struct overflow *ret)
{
	if (s->max > 0 && tally->n_now >= s->max)
		return overflow(ret, RETRY_OBJECT_MS, "max %u", s->max);
	if (s->max_per_user > 0 && user->n_now >= s->max_per_user)
		return overflow(ret, RETRY_OBJECT_MS, "max-per-user %u", s->max_per_user);
	if (pending && s->pending > 0 && tally->n_pending >= s->pending)
		return overflow(ret, RETRY_PENDING_MS, "pending %u", s->pending);
	if (!has_token(tally->bucket, &s->rate, now))
		return overflow(ret, line_up(&tally->queue, &s->rate, now), "rate %u/s",
				s->rate.per_second);
	if (user && !has_token(user->bucket, &s->rate_per_user, now))
		return overflow(ret, line_up(&user->queue, &s->rate_per_user, now),
				"rate-per-user %u/s", s->rate_per_user.per_second);
	if (peer && !has_token(peer->bucket, &s->rate_per_peer, now))
		return overflow(ret, line_up(&peer->queue, &s->rate_per_peer, now),
				"rate-per-peer %u/s", s->rate_per_peer.per_second);
	return 0;
}

int tally_admit(struct tally *tally, const struct policy_settings *settings, uint64_t now_ns,
		uid_t owner, const struct sockaddr *peer_addr, bool pending, struct admitted *ret,
		struct overflow *ret_overflow)
{
	bool by_user = settings->max_per_user > 0 || settings->rate_per_user.per_second > 0;
	bool by_peer = peer_addr && settings->rate_per_peer.per_second > 0;
	struct tally_key *user = NULL;
	struct tally_key *peer = NULL;
	int r = 0;

	sweep(&tally->users, SWEEP_STEP, now_ns);
	sweep(&tally->peers, SWEEP_STEP, now_ns);
	if (by_user)
		r = get_user(tally, owner, now_ns, &user);
	if (r == 0 && by_peer)
		r = get_peer(tally, peer_addr, now_ns, &peer);
	if (r == -EBUSY)
		r = overflow(ret_overflow, RETRY_OBJECT_MS, "limit of %u users or peers",
			     TALLY_KEYS_MAX);
	if (r == 0)
		r = check(tally, settings, now_ns, user, peer, pending, ret_overflow);
	if (r == -EBUSY)
		tally->n_busy++;
	if (r < 0)
		return r;

	take(&tally->bucket, &settings->rate, now_ns);
	if (user) {
		take(&user->bucket, &settings->rate_per_user, now_ns);
		user->n_now++;
	}
	if (peer)
		take(&peer->bucket, &settings->rate_per_peer, now_ns);
	tally->n_now++;
	tally->n_pending += pending;
	*ret = (struct admitted){ .tally = tally_ref(tally), .user = user, .pending = pending };
	return 0;
}

void admitted_answered(struct admitted *admitted)
{
	if (admitted->pending)
		admitted->tally->n_pending--;
	admitted->pending = false;
}

void admitted_move(struct admitted *from, struct admitted *to, uid_t owner)
{
	*to = *from;
	*from = (struct admitted){ 0 };
	if (!to->user || memcmp(to->user->key, &owner, sizeof(owner)) == 0)
		return;
	to->user->n_now--;
	/* If the table is full, or memory runs out, the object is counted for no user. */
	if (get_user(to->tally, owner, /* now= */ 0, &to->user) == 0)
		to->user->n_now++;
	else
		to->user = NULL;
}

void admitted_done(struct admitted *admitted)
{
	if (!admitted->tally)
		return;
	admitted_answered(admitted);
	if (admitted->user)
		admitted->user->n_now--;
	assert(admitted->tally->n_now > 0);
	admitted->tally->n_now--;
	tally_unref(admitted->tally);
	*admitted = (struct admitted){ 0 };
}

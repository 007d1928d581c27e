/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "core/facts/loglimit.h"
#include "util/hash.h"

/* The struct must have no padding, because uthash hashes its bytes. */
struct key {
	uint64_t subject;
	struct owner owner;
};

/* All owners of a range. It is kept when they have no pairs: there are few ranges, and its limit goes on. */
struct log_range {
	uid_t first;
	unsigned n; /* pairs */
	struct ratelimit lines;
	UT_hash_handle hh;
};

struct log_user {
	struct owner owner;
	struct log_range *range; /* NULL: none */
	unsigned n; /* pairs */
	struct list pairs; /* log_limit.of_user, the oldest at the front */
	struct ratelimit lines; /* of all pairs */
	UT_hash_handle hh;
};

struct log_limit {
	struct key key;
	struct log_user *user;
	struct ratelimit limit;
	struct list link; /* log_limits.limiting or log_limits.pending */
	struct list of_user; /* log_user.pairs */
	UT_hash_handle hh;
};

void log_limits_init(struct log_limits *limits)
{
	*limits = (struct log_limits){ .max_of_user = LOG_LINES_OF_USER, .max = LOG_LINES };
	list_init(&limits->limiting);
	list_init(&limits->pending);
}

/* Those of a range are told together: it can have more users than lines. */
static void tell_left_out(unsigned n, const struct log_user *user)
{
	if (user->range)
		user->range->lines.n_suppressed += n;
	else if (n > 0)
		log_notice("(%u entries about uid %u were left out)", n, user->owner.uid);
}

static void tell_left_out_of_range(unsigned n, uid_t first)
{
	if (n > 0 && first == OWNER_STRANGERS)
		log_notice("(%u entries about uids of containers were left out)", n);
	else if (n > 0)
		log_notice("(%u entries about the range of uid %u were left out)", n, first);
}

/* NULL: there is no memory. */
static struct log_range *get_range(struct log_limits *limits, uid_t first)
{
	struct log_range *range;

	HASH_FIND(hh, limits->ranges, &first, sizeof(first), range);
	if (range)
		return range;
	range = calloc(1, sizeof(*range));
	if (!range)
		return NULL;
	range->first = first;
	HASH_ADD_OR_FREE(limits->ranges, first, range);
	return range;
}

static void put_user(struct log_limits *limits, struct log_user *user)
{
	if (user->n > 0)
		return;
	tell_left_out(user->lines.n_suppressed, user);
	HASH_DEL(limits->users, user);
	free(user);
}

static struct log_user *get_user(struct log_limits *limits, struct owner owner)
{
	struct log_user *user;

	HASH_FIND(hh, limits->users, &owner, sizeof(owner), user);
	if (user)
		return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->owner = owner;
	list_init(&user->pairs);
	if (owner.range != OWNER_ALONE) {
		user->range = get_range(limits, owner.range);
		if (!user->range) {
			free(user);
			return NULL;
		}
	}
	HASH_ADD_OR_FREE(limits->users, owner, user);
	return user;
}

static void count_pair(struct log_user *user, int n)
{
	user->n = (unsigned)((int)user->n + n);
	if (user->range)
		user->range->n = (unsigned)((int)user->range->n + n);
}

static void drop(struct log_limits *limits, struct log_limit *pair)
{
	HASH_DEL(limits->pairs, pair);
	list_remove(&pair->link);
	list_remove(&pair->of_user);
	count_pair(pair->user, -1);
	put_user(limits, pair->user);
	free(pair);
}

void log_limits_done(struct log_limits *limits)
{
	struct log_limit *pair, *next;
	struct log_range *range, *next_range;

	HASH_ITER(hh, limits->pairs, pair, next)
	drop(limits, pair);
	HASH_ITER(hh, limits->ranges, range, next_range)
	{
		tell_left_out_of_range(range->lines.n_suppressed, range->first);
		HASH_DEL(limits->ranges, range);
		free(range);
	}
}

static void drop_finished(struct log_limits *limits)
{
	struct list *l;

	while ((l = list_first(&limits->limiting))) {
		struct log_limit *pair = container_of(l, struct log_limit, link);

		if (!ratelimit_is_over(&pair->limit))
			return;
		if (pair->limit.n_suppressed > 0) {
			list_remove(&pair->link);
			list_insert(&limits->pending, &pair->link);
		} else {
			drop(limits, pair);
		}
	}
}

/* Of all ranges and of the users in none, the one with the most pairs, and of the range the user. */
static struct log_user *find_greatest(struct log_limits *limits)
{
	struct log_user *user, *next, *greatest = NULL;
	unsigned most = 0;

	HASH_ITER(hh, limits->users, user, next)
	{
		unsigned n = user->range ? user->range->n : user->n;

		if (!greatest || n > most || (n == most && user->n > greatest->n)) {
			most = n;
			greatest = user;
		}
	}
	return greatest;
}

static void make_room(struct log_limits *limits)
{
	struct list *l = list_first(&limits->pending);
	struct log_limit *pair;

	if (l)
		pair = container_of(l, struct log_limit, link);
	else
		pair = container_of(list_first(&find_greatest(limits)->pairs), struct log_limit,
				    of_user);
	tell_left_out(pair->limit.n_suppressed, pair->user);
	drop(limits, pair);
}

static struct log_limit *add(struct log_limits *limits, const struct key *key)
{
	struct log_user *user = get_user(limits, key->owner);
	struct log_limit *pair = user ? calloc(1, sizeof(*pair)) : NULL;

	if (pair) {
		pair->key = *key;
		HASH_ADD_OR_FREE(limits->pairs, key, pair);
	}
	if (!pair) {
		if (user)
			put_user(limits, user);
		return NULL;
	}
	pair->user = user;
	count_pair(user, 1);
	list_init(&pair->link);
	list_init(&pair->of_user);
	return pair;
}

/* A user of a range has half of its lines, so that one container does not take those of all others. */
static bool pass_user(struct log_limits *limits, struct log_user *user)
{
	unsigned n, max = limits->max_of_user;

	if (!ratelimit_pass_burst(&user->lines, user->range ? max - max / 2 : max, &n))
		return false;
	tell_left_out(n, user);
	if (!user->range)
		return true;
	if (!ratelimit_pass_burst(&user->range->lines, max, &n))
		return false;
	tell_left_out_of_range(n, user->range->first);
	return true;
}

/*
 * The limit of PAIR, or one that lets nothing pass, because of the user's other lines or of all lines. Lines that the
 * pair leaves out itself do not count.
 */
static struct ratelimit *limit_of(struct log_limits *limits, struct log_limit *pair)
{
	struct log_user *user = pair->user;
	unsigned n;

	if (!ratelimit_is_over(&pair->limit) && pair->limit.n >= RATELIMIT_BURST)
		return &pair->limit;
	ratelimit_mute(&limits->mute);
	if (!pass_user(limits, user))
		return &limits->mute;
	if (!ratelimit_pass_burst(&limits->all, limits->max, &n))
		return &limits->mute;
	if (n > 0)
		log_notice(
			"(%u entries about users were left out: there were more than %u in 10 s)",
			n, limits->max);
	return &pair->limit;
}

struct ratelimit *log_limits_get(struct log_limits *limits, struct owner owner, uint64_t subject)
{
	const struct key key = { .subject = subject, .owner = owner };
	struct log_limit *pair;

	drop_finished(limits);
	HASH_FIND(hh, limits->pairs, &key, sizeof(key), pair);
	if (pair && !ratelimit_is_over(&pair->limit))
		return limit_of(limits, pair);
	if (!pair) {
		if (log_limits_count(limits) >= LOG_LIMITS_MAX)
			make_room(limits);
		pair = add(limits, &key);
	}
	if (!pair) {
		/* If memory runs out, the line is logged without a limit. */
		limits->spare = (struct ratelimit){ 0 };
		return &limits->spare;
	}
	/* The next line begins a new window, so the pair becomes the newest one in both lists. */
	list_remove(&pair->link);
	list_insert(&limits->limiting, &pair->link);
	list_remove(&pair->of_user);
	list_insert(&pair->user->pairs, &pair->of_user);
	return limit_of(limits, pair);
}

unsigned log_limits_count(const struct log_limits *limits)
{
	return HASH_COUNT(limits->pairs);
}

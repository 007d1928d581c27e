/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/facts/sighting.h"
#include "proto/text.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/owner.h"
#include "util/roster.h"
#include "util/util.h"

#define PAUSE_MS (600 * UINT64_C(1000))

/* Compared by its bytes. */
struct key {
	uint32_t uid;
	char name[sizeof(((struct ledger_sighting *)0)->name)];
	char unit[sizeof(((struct ledger_sighting *)0)->unit)];
};

/* An owner, or all of a range. */
struct share {
	UT_hash_handle hh; /* sightings.shares */
	uint64_t key; /* owner_group() */
	struct list rows; /* row.of_share; the one that was seen last is the last */
	unsigned n;
};

struct row {
	UT_hash_handle hh; /* sightings.by_key */
	struct key key;
	struct share *share;
	struct list of_share;
	struct ledger_sighting *at; /* in the ledger, or OWN */
	struct ledger_sighting own;
};

struct sightings {
	struct row *by_key;
	struct share *shares;
	struct roster rows; /* by number */
	unsigned n;
	uint64_t last_number;
	struct ledger_sampling sampling;
	struct ledger_sampling *kept_sampling; /* in the ledger; NULL: it is not there */
};

int sightings_new(struct sightings **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static void drop_empty(struct sightings *sightings, struct share *share)
{
	if (share->n > 0)
		return;
	HASH_DEL(sightings->shares, share);
	free(share);
}

/* LEDGER NULL: the row stays in it. */
static void row_free(struct sightings *sightings, struct ledger *ledger, struct row *row)
{
	struct share *share = row->share;

	roster_remove(&sightings->rows, row->at->number);
	HASH_DEL(sightings->by_key, row);
	list_remove(&row->of_share);
	sightings->n--;
	share->n--;
	drop_empty(sightings, share);
	if (row->at != &row->own && ledger)
		ledger_remove_sighting(ledger, row->at);
	free(row);
}

struct sightings *sightings_free(struct sightings *sightings)
{
	struct row *row;

	if (!sightings)
		return NULL;
	while ((row = roster_from(&sightings->rows, 0)))
		row_free(sightings, /* ledger= */ NULL, row);
	roster_done(&sightings->rows);
	free(sightings);
	return NULL;
}

static struct owner owner_of_row(const struct row *row)
{
	return (struct owner){ row->at->charged_uid, row->at->charged_range };
}

static unsigned count_alike(const struct share *share, const struct row *like)
{
	unsigned n = 0;
	struct list *l;

	list_for_each(l, &share->rows)
		n += owner_is(owner_of_row(container_of(l, struct row, of_share)),
			      owner_of_row(like));
	return n;
}

/* A row of the owner with the most, the one that was seen the longest time ago. */
static void drop_oldest(struct sightings *sightings, struct ledger *ledger, struct share *share)
{
	struct row *oldest = NULL;
	unsigned most = 0;
	struct list *l;

	list_for_each(l, &share->rows) {
		struct row *row = container_of(l, struct row, of_share);
		unsigned n = count_alike(share, row);

		if (n > most) {
			most = n;
			oldest = row;
		}
	}
	if (oldest)
		row_free(sightings, ledger, oldest);
}

static void make_room(struct sightings *sightings, struct ledger *ledger, uint64_t share_key)
{
	struct share *share, *most = NULL, *next;

	HASH_FIND(hh, sightings->shares, &share_key, sizeof(share_key), share);
	if (share && share->n >= SIGHTINGS_OF_OWNER) {
		drop_oldest(sightings, ledger, share);
		return;
	}
	if (sightings->n < LEDGER_SIGHTINGS)
		return;
	HASH_ITER(hh, sightings->shares, share, next)
	if (!most || share->n > most->n)
		most = share;
	drop_oldest(sightings, ledger, most);
}

/* NULL: no memory. */
static struct share *get_share(struct sightings *sightings, uint64_t key)
{
	struct share *share;

	HASH_FIND(hh, sightings->shares, &key, sizeof(key), share);
	if (share)
		return share;
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	share->key = key;
	list_init(&share->rows);
	HASH_ADD_OR_FREE(sightings->shares, key, share);
	return share;
}

static void make_key(struct key *ret, uint32_t uid, const char *name, const char *unit)
{
	memset(ret, 0, sizeof(*ret));
	ret->uid = uid;
	text_copy(ret->name, sizeof(ret->name), name);
	text_copy(ret->unit, sizeof(ret->unit), unit);
}

static struct row *find(const struct sightings *sightings, const struct key *key)
{
	struct row *row;

	HASH_FIND(hh, sightings->by_key, key, sizeof(*key), row);
	return row;
}

/* A row like FROM, with FROM's number if it has one. If memory runs out, there is none. */
static void add(struct sightings *sightings, struct ledger *ledger,
		const struct ledger_sighting *from, const struct key *key)
{
	uint64_t share_key = owner_group((struct owner){ from->charged_uid, from->charged_range });
	uint64_t number = from->number ?: sightings->last_number + 1;
	struct share *share;
	struct row *row;

	make_room(sightings, ledger, share_key);
	share = get_share(sightings, share_key);
	row = share ? calloc(1, sizeof(*row)) : NULL;
	if (row && roster_add(&sightings->rows, number, row) < 0) {
		free(row);
		row = NULL;
	}
	if (row) {
		row->key = *key;
		HASH_ADD_OR_FREE(sightings->by_key, key, row);
		if (!row)
			roster_remove(&sightings->rows, number);
	}
	if (!row) {
		if (share)
			drop_empty(sightings, share);
		return;
	}
	row->at = ledger_add_sighting(ledger) ?: &row->own;
	memcpy((char *)row->at + sizeof(number), (const char *)from + sizeof(number),
	       sizeof(*from) - sizeof(number));
	/* The first member is last: it makes the row one that is used. */
	row->at->number = number;
	if (number > sightings->last_number)
		sightings->last_number = number;
	row->share = share;
	list_insert(&share->rows, &row->of_share);
	share->n++;
	sightings->n++;
}

/* The uids of a user namespace that no file names are the strangers', see util/owner.h. */
static struct owner find_owner(uid_t uid)
{
	return owner_of_stranger(uid, uid);
}

void sightings_note(struct sightings *sightings, struct ledger *ledger, const struct seen *seen,
		    uint64_t now_ms)
{
	struct owner owner = find_owner(seen->uid);
	struct ledger_sighting new = {
		.first_ms = now_ms,
		.last_ms = now_ms,
		.uid = seen->uid,
		.charged_uid = owner.uid,
		.charged_range = owner.range,
		.had_ids = seen->has_ids,
	};
	struct row *row;
	struct key key;

	make_key(&key, seen->uid, seen->name, seen->unit);
	row = find(sightings, &key);
	if (!row) {
		memcpy(new.name, key.name, sizeof(new.name));
		memcpy(new.unit, key.unit, sizeof(new.unit));
		add(sightings, ledger, &new, &key);
		return;
	}
	row->at->last_ms = now_ms;
	if (seen->has_ids)
		row->at->had_ids = true;
	list_remove(&row->of_share);
	list_insert(&row->share->rows, &row->of_share);
}

void sightings_sampled(struct sightings *sightings, struct ledger *ledger, uint64_t now_ms)
{
	struct ledger_sampling *sampling = &sightings->sampling;

	if (sampling->last_ms + PAUSE_MS < now_ms)
		sampling->since_ms = now_ms;
	sampling->last_ms = now_ms;
	if (!sightings->kept_sampling)
		sightings->kept_sampling = ledger_add_sampling(ledger);
	if (!sightings->kept_sampling)
		return;
	sightings->kept_sampling->last_ms = now_ms;
	sightings->kept_sampling->since_ms = sampling->since_ms;
}

void sightings_restore(struct sightings *sightings, struct ledger *ledger,
		       const struct old_ledger *old)
{
	for (size_t i = 0; i < old->n_sightings; i++) {
		struct ledger_sighting *row = &old->sightings[i];
		struct key key;

		row->name[sizeof(row->name) - 1] = row->unit[sizeof(row->unit) - 1] = 0;
		make_key(&key, row->uid, row->name, row->unit);
		if (!find(sightings, &key))
			add(sightings, ledger, row, &key);
	}
	if (old->n_samplings == 0)
		return;
	sightings->sampling = old->samplings[0];
	sightings->kept_sampling = ledger_add_sampling(ledger);
	if (sightings->kept_sampling)
		*sightings->kept_sampling = sightings->sampling;
}

const struct ledger_sighting *sightings_from(const struct sightings *sightings, uint64_t number)
{
	const struct row *row = roster_from(&sightings->rows, number);

	return row ? row->at : NULL;
}

struct ledger_sampling sightings_get_sampling(const struct sightings *sightings)
{
	return sightings->sampling;
}

static int compare_uids(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

unsigned sightings_count_users(const struct sightings *sightings, uint64_t since_ms)
{
	uint32_t uids[LEDGER_SIGHTINGS];
	unsigned n = 0, n_users = 0;
	const struct row *row, *next;

	HASH_ITER(hh, sightings->by_key, row, next)
	if (row->at->last_ms >= since_ms)
		uids[n++] = row->at->uid;
	qsort(uids, n, sizeof(*uids), compare_uids);
	for (unsigned i = 0; i < n; i++)
		n_users += i == 0 || uids[i] != uids[i - 1];
	return n_users;
}

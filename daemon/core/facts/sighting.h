/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Who has used RDMA without the broker, as the sampler has seen it: users, with their units and programs. The rows are in
 * the ledger, so that a restart keeps them.
 *
 *   share ── row, row, ...   an owner, or all owners of a range, have a share of the table; when it is full, its owner
 *                            with the most rows loses the one that was seen the longest time ago
 *
 * So however many programs a user starts, and whatever he calls them, what is known of others stays.
 */

#include <stdint.h>
#include <sys/types.h>

#include "takeover/ledger.h"

#define SIGHTINGS_OF_OWNER 64
#define SIGHTINGS_DAY_MS (24 * 3600 * UINT64_C(1000))

struct sightings;
struct old_ledger;

/* A process that was seen. */
struct seen {
	pid_t pid;
	uid_t uid;
	bool has_ids; /* false: it only has devices open */
	char name[32];
	char unit[256]; /* as unit_class() has it; "": not known */
};

int sightings_new(struct sightings **ret);
struct sightings *sightings_free(struct sightings *sightings); /* the rows stay in the ledger */
/* LEDGER NULL: the rows are not kept for the next process. NOW_MS: CLOCK_REALTIME. If memory runs out, SEEN is not noted. */
void sightings_note(struct sightings *sightings, struct ledger *ledger, const struct seen *seen,
		    uint64_t now_ms);
/* A sample of all processes was taken. After a pause of more than ten minutes, it counts as the first one. */
void sightings_sampled(struct sightings *sightings, struct ledger *ledger, uint64_t now_ms);
/* Takes over what a previous process has noted. */
void sightings_restore(struct sightings *sightings, struct ledger *ledger,
		       const struct old_ledger *old);
/* The row with the lowest number that is at least NUMBER; NULL: none. */
const struct ledger_sighting *sightings_from(const struct sightings *sightings, uint64_t number);
/* The first and the last sample; both 0: there was none. */
struct ledger_sampling sightings_get_sampling(const struct sightings *sightings);
/* The users who were seen since SINCE_MS. */
unsigned sightings_count_users(const struct sightings *sightings, uint64_t since_ms);

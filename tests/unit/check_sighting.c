/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "core/facts/sighting.h"
#include "tests/unit/unit.h"
#include "util/owner.h"

/* What is kept of those who use RDMA without the broker. */

static struct sightings *sightings;
static uint64_t now = 1000 * UINT64_C(1000000000);

static void set_up(void)
{
	ck_assert_int_eq(sightings_new(&sightings), 0);
}

static void tear_down(void)
{
	sightings_free(sightings);
	owners_use(NULL);
}

static void note(uid_t uid, const char *name, const char *unit, bool has_ids)
{
	struct seen seen = { .uid = uid, .has_ids = has_ids };

	snprintf(seen.name, sizeof(seen.name), "%s", name);
	snprintf(seen.unit, sizeof(seen.unit), "%s", unit);
	sightings_note(sightings, /* ledger= */ NULL, &seen, now);
}

static unsigned count_rows(uid_t uid)
{
	const struct ledger_sighting *row;
	unsigned n = 0;

	for (uint64_t at = 0; (row = sightings_from(sightings, at)); at = row->number + 1)
		n += row->uid == uid;
	return n;
}

static void note_many(uid_t uid, unsigned n)
{
	char name[32];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		note(uid, name, "", false);
	}
}

START_TEST(a_row_has_first_and_last)
{
	const struct ledger_sighting *row;
	uint64_t first = now;

	note(1000, "qperf", "qperf.service", false);
	now += 5000;
	note(1000, "qperf", "qperf.service", true);
	now += 5000;
	note(1000, "qperf", "qperf.service", false);
	note(1000, "qperf", "", false);
	note(1001, "qperf", "qperf.service", false);
	row = sightings_from(sightings, 0);
	ck_assert_uint_eq(row->first_ms, first);
	ck_assert_uint_eq(row->last_ms, now);
	ck_assert(row->had_ids);
	ck_assert_str_eq(row->name, "qperf");
	ck_assert_str_eq(row->unit, "qperf.service");
	ck_assert_uint_eq(count_rows(1000), 2);
	ck_assert_uint_eq(count_rows(1001), 1);
	ck_assert_uint_eq(sightings_count_users(sightings, now), 2);
	ck_assert_uint_eq(sightings_count_users(sightings, now + 1), 0);
}
END_TEST

/* The row that was seen the longest time ago leaves. */
START_TEST(share_of_a_user)
{
	note(1000, "storage", "", true);
	note(1001, "once", "", true);
	for (unsigned i = 0; i < 3; i++) {
		note_many(1001, SIGHTINGS_OF_OWNER);
		note(1001, "always", "", true);
	}
	ck_assert_uint_eq(count_rows(1001), SIGHTINGS_OF_OWNER);
	ck_assert_uint_eq(count_rows(1000), 1);
	ck_assert_str_eq(sightings_from(sightings, 0)->name, "storage");
}
END_TEST

START_TEST(full_table)
{
	note(1, "storage", "", true);
	for (uid_t uid = 1000; uid < 1000 + 2 * LEDGER_SIGHTINGS / SIGHTINGS_OF_OWNER; uid++)
		note_many(uid, SIGHTINGS_OF_OWNER);
	ck_assert_uint_eq(count_rows(1), 1);
	for (uid_t uid = 1000; uid < 1000 + LEDGER_SIGHTINGS / SIGHTINGS_OF_OWNER; uid++)
		ck_assert_uint_ge(count_rows(uid), SIGHTINGS_OF_OWNER / 2 - 1);
}
END_TEST

/* Uids that no file names are as many as their user wants. */
START_TEST(share_of_strangers)
{
	const uid_t first = 3000000000;

	note(1000, "storage", "", true);
	for (uid_t uid = first; uid < first + 4 * SIGHTINGS_OF_OWNER; uid++)
		note(uid, "x", "", false);
	for (uid_t uid = first, n = 0; uid < first + 4 * SIGHTINGS_OF_OWNER; uid++) {
		n += count_rows(uid);
		ck_assert_uint_le(n, SIGHTINGS_OF_OWNER);
	}
	ck_assert_uint_eq(count_rows(1000), 1);
	/* Among them, he who has most gives way. */
	note_many(first, SIGHTINGS_OF_OWNER);
	note(first + 1, "y", "", false);
	ck_assert_uint_eq(count_rows(first + 1), 1);
	note_many(first, SIGHTINGS_OF_OWNER);
	ck_assert_uint_eq(count_rows(first + 1), 1);
}
END_TEST

START_TEST(a_restart_keeps_rows)
{
	struct ledger_sighting rows[8] = { 0 };
	struct ledger_sampling sampling;
	const struct ledger_sighting *row;
	struct old_ledger old = { .sightings = rows, .samplings = &sampling, .n_samplings = 1 };

	note(1000, "qperf", "", true);
	note(1001, "rping", "", true);
	sightings_sampled(sightings, NULL, now);
	sampling = sightings_get_sampling(sightings);
	for (uint64_t at = 0; (row = sightings_from(sightings, at)); at = row->number + 1)
		rows[old.n_sightings++] = *row;
	sightings_free(sightings);
	ck_assert_int_eq(sightings_new(&sightings), 0);
	sightings_restore(sightings, NULL, &old);
	now += 1000;
	note(1000, "qperf", "", false);
	note(1002, "new", "", false);
	ck_assert_uint_eq(count_rows(1000), 1);
	ck_assert_uint_eq(count_rows(1001), 1);
	ck_assert_uint_eq(sightings_from(sightings, 3)->uid, 1002);
	ck_assert_uint_eq(sightings_from(sightings, 0)->last_ms, now);
	sightings_sampled(sightings, NULL, now);
	ck_assert_uint_eq(sightings_get_sampling(sightings).since_ms, sampling.since_ms);
}
END_TEST

/* What happened in a long pause is not known, so it is watched since its end. */
START_TEST(a_pause)
{
	uint64_t first = now;

	sightings_sampled(sightings, NULL, now);
	now += 60000;
	sightings_sampled(sightings, NULL, now);
	ck_assert_uint_eq(sightings_get_sampling(sightings).since_ms, first);
	now += 11 * 60000;
	sightings_sampled(sightings, NULL, now);
	ck_assert_uint_eq(sightings_get_sampling(sightings).since_ms, now);
	ck_assert_uint_eq(sightings_get_sampling(sightings).last_ms, now);
}
END_TEST

UNIT_MAIN("sighting", set_up, tear_down, a_row_has_first_and_last, share_of_a_user, full_table,
	  share_of_strangers, a_restart_keeps_rows, a_pause)

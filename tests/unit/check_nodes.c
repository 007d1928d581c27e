/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/sightings.h"
#include "core/facts/sighting.h"
#include "tests/unit/program.h"

/* What rdmabrokerctl and the metrics say of those who use RDMA without the broker, and when closing the nodes is safe. */

static uint64_t now;

static void start_afresh(void)
{
	set_up_ctl();
	now = (uint64_t)time(NULL) * 1000;
}

struct sighted {
	uid_t uid;
	const char *name, *unit;
	bool has_ids;
	uint64_t ago_ms;
};

static void do_note(void *arg)
{
	const struct sighted *in = arg;
	struct seen seen = { .uid = in->uid, .has_ids = in->has_ids };

	snprintf(seen.name, sizeof(seen.name), "%s", in->name);
	snprintf(seen.unit, sizeof(seen.unit), "%s", in->unit);
	sightings_note(harness.core->sightings, NULL, &seen, now - in->ago_ms);
}

static void do_sample(void *arg)
{
	sightings_sampled(harness.core->sightings, NULL, *(uint64_t *)arg);
}

static void sample(uint64_t ago_ms)
{
	uint64_t at = now - ago_ms;

	in_server(do_sample, &at);
}

static void note(uid_t uid, const char *name, const char *unit, bool has_ids, uint64_t ago_ms)
{
	struct sighted seen = { uid, name, unit, has_ids, ago_ms };

	in_server(do_note, &seen);
}

static bool is_root(void)
{
	if (geteuid() == 0)
		return true;
	fprintf(stderr, "skipped: nodes has to be used by root\n");
	return false;
}

START_TEST(since)
{
	if (!is_root())
		return;
	sample(10000);
	sample(0);
	note(0, "qperf", "qperf.service", false, 5000);
	note(4000001, "old", "", true, 3 * DAY_MS);
	note(4000002, "evil\033[2J", "session-*.scope", true, 4000);
	ck_assert_int_eq(ctl("nodes", "status", "--since", "1d"), 0);
	assert_has(got.out, "Programs seen without the broker since 1d");
	assert_has(got.out, "qperf.service");
	assert_has(got.out, "evil\\x1b[2J");
	assert_lacks(got.out, "old");
	ck_assert_int_eq(ctl("nodes", "status", "--since", "7d", "--json"), 0);
	assert_json(
		"[(s[\"name\"], s[\"uid\"], s[\"unit\"], s[\"with\"]) for s in d[\"seen\"]] == "
		"[(\"evil\\x1b[2J\", 4000002, \"session-*.scope\", \"ids\"), "
		"(\"qperf\", 0, \"qperf.service\", \"verbs\"), (\"old\", 4000001, None, \"ids\")]");
	assert_json("d[\"sampled_ms\"] - d[\"sampled_since_ms\"] == 10000");
	ck_assert_int_eq(ctl("nodes", "status", "--json"), 0);
	assert_json("\"seen\" not in d");
	ck_assert_int_eq(ctl("nodes", "status", "--since", "yesterday"), 2);
	assert_has(got.err, "invalid --since \"yesterday\"");
	ck_assert_int_eq(ctl("nodes", "open", "--since", "1d"), 2);
	assert_has(got.err, "only status has --since");
	ck_assert_int_eq(ctl("nodes", "status", "--yes"), 2);
	assert_has(got.err, "only close has --yes");
}
END_TEST

/* More than one page of the reply. */
START_TEST(many)
{
	char name[32];

	if (!is_root())
		return;
	for (uid_t uid = 1000; uid < 1100; uid++) {
		snprintf(name, sizeof(name), "program-%u", uid);
		note(uid, name, "", true, 1000);
	}
	ck_assert_int_eq(ctl("nodes", "status", "--since", "1h", "--json"), 0);
	assert_json("len(set(s[\"name\"] for s in d[\"seen\"])) == 100");
}
END_TEST

START_TEST(metrics)
{
	note(1000, "a", "", true, 1000);
	note(1000, "b", "", true, 1000);
	note(1001, "b", "", false, DAY_MS - 60000);
	note(1002, "b", "", true, DAY_MS + 60000);
	sample(300000);
	sample(0);
	ck_assert_int_eq(ctl("metrics"), 0);
	assert_has(got.out, "rdmabroker_nodes_open 0\n");
	assert_has(got.out, "rdmabroker_nodes_sampled_seconds 300\n");
	assert_has(got.out, "rdmabroker_users_without_broker 2\n");
}
END_TEST

/* Closing is safe if it was looked for a day, until now, and nobody was seen. */
START_TEST(doubts)
{
	struct rdmabroker_sighting one = { .name = "qperf", .last_ms = now - 1000 };
	struct rdmabroker_sightings sightings = { .n = 0 };
	char text[DOUBT_MAX];

	ck_assert(sightings_doubt(&sightings, now, text));
	assert_has(text, "has not looked for programs without it yet");
	sightings.since_ms = now - DAY_MS / 2;
	sightings.sampled_ms = now - 10000;
	ck_assert(sightings_doubt(&sightings, now, text));
	assert_has(text, "not for a day");
	sightings.since_ms = now - DAY_MS;
	ck_assert(!sightings_doubt(&sightings, now, text));
	sightings.sampled_ms = now - DAY_MS / 2;
	ck_assert(sightings_doubt(&sightings, now, text));
	assert_has(text, "has not looked for programs without it since ");
	sightings.sampled_ms = now;
	sightings.list = &one;
	sightings.n = 1;
	ck_assert(sightings_doubt(&sightings, now, text));
	assert_has(text, "within the last day: 1");
}
END_TEST

UNIT_MAIN("nodes", start_afresh, tear_down, since, many, metrics, doubts)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/output.h"
#include "fleetctl.h"
#include "proto/clock.h"

/* The roll-out: which version hosts with a label take. */

#define HISTORY_MAX 16

/* "NAME@HOST" of who runs this, as they say. */
static json_t *new_author(void)
{
	const struct passwd *entry = getpwuid(getuid());
	char host[256] = "", uid[32];

	gethostname(host, sizeof(host) - 1);
	snprintf(uid, sizeof(uid), "%u", getuid());
	return json_sprintf("%s@%s", entry ? entry->pw_name : uid, host);
}

static const char *version_at(const json_t *history, size_t i)
{
	const char *name =
		json_string_value(json_object_get(json_array_get(history, i), "version"));

	/* It may be printed. */
	return name && site_is_name(name) ? name : NULL;
}

/* The index of the newest entry for VERSION; the size of HISTORY: there is none. */
static size_t find_in(const json_t *history, const char *version)
{
	size_t n = json_array_size(history);

	for (size_t i = n; i > 0; i--) {
		const char *name = version_at(history, i - 1);

		if (name && strcmp(name, version) == 0)
			return i - 1;
	}
	return n;
}

static void append(json_t *history, const char *version, json_t *author)
{
	while (json_array_size(history) >= HISTORY_MAX)
		json_array_remove(history, 0);
	json_array_append_new(history, json_pack("{s:s, s:I, s:o}", "version", version, "time",
						 (json_int_t)time(NULL), "by", author));
}

/*
 * The history up to the version that is rolled out now, with it. If another program has rolled it out, nobody knows who
 * that was.
 */
static json_t *known_history(const struct rollout *rollout)
{
	json_t *history = json_array();
	size_t n = rollout ? json_array_size(rollout->history) : 0, end = n;
	bool is_set = rollout && rollout->revision > 0 && *rollout->version;

	if (is_set) {
		end = find_in(rollout->history, rollout->version);
		end = end < n ? end + 1 : n;
	}
	for (size_t i = 0; i < end; i++)
		json_array_append(history, json_array_get(rollout->history, i));
	if (is_set && find_in(history, rollout->version) == json_array_size(history))
		append(history, rollout->version, json_null());
	return history;
}

/* The key of the label, its history, and that the version exists: all in one, or nothing. */
static bool write_rollout(struct fleetctl *ctl, const struct fleet *fleet, const char *label,
			  const char *version, json_t *history)
{
	const struct rollout *rollout = fleet_find_rollout(fleet, label);
	char *text = history ? json_dumps(history, JSON_COMPACT) : NULL;
	char keys[3][FLEETCTL_KEY_MAX];
	const struct etcd_change changes[] = {
		{ .kind = ETCD_PUT,
		  .key = keys[0],
		  .revision = rollout ? rollout->revision : 0,
		  .value = version,
		  .len = strlen(version) },
		{ .kind = ETCD_PUT,
		  .key = keys[1],
		  .revision = rollout ? rollout->history_revision : 0,
		  .value = text,
		  .len = text ? strlen(text) : 0 },
		{ .kind = ETCD_EXISTS, .key = keys[2] },
	};
	int r;

	json_decref(history);
	if (!text) {
		complain("out of memory");
		return false;
	}
	fleetctl_key(ctl, keys[0], "rollout", label);
	fleetctl_key(ctl, keys[1], "history", label);
	fleetctl_key(ctl, keys[2], "versions", version);
	/* The history has who wrote it, and when, so it cannot be somebody else's. */
	r = fleetctl_change(ctl, changes, 3);
	if (r == ETCD_CHANGED)
		complain(
			"somebody else has just changed the roll-out to label %s, or removed version "
			"%s; look at \"rdmabrokerctl fleet status\", and try again",
			label, version);
	else if (r != 0)
		complain("cannot use etcd: %s; look at \"rdmabrokerctl fleet status\" whether the "
			 "roll-out was written",
			 etcd_error(ctl->etcd));
	free(text);
	return r == 0;
}

/* Waits until all hosts have the version */

struct progress {
	unsigned n_hosts, n_ok, n_waiting, n_away;
	const struct host *bad; /* the first one that does not get it; NULL: none */
	struct judgement why;
};

static struct progress look(const struct fleet *fleet, const char *label)
{
	struct progress ret = {};

	for (size_t i = 0; i < fleet->n_hosts; i++) {
		struct judgement judgement = host_judge(fleet, &fleet->hosts[i]);

		if (!host_exists(&fleet->hosts[i]) || !judgement.rollout ||
		    strcmp(judgement.rollout->label, label) != 0)
			continue;
		ret.n_hosts++;
		ret.n_ok += judgement.verdict == HOST_OK;
		ret.n_waiting += judgement.verdict == HOST_WAITING;
		ret.n_away += judgement.verdict == HOST_AWAY;
		if (!ret.bad && judgement.verdict != HOST_OK && judgement.verdict != HOST_WAITING &&
		    judgement.verdict != HOST_AWAY) {
			ret.bad = &fleet->hosts[i];
			ret.why = judgement;
		}
	}
	return ret;
}

static int conclude(const struct progress *progress, const char *version)
{
	char name[256], why[512];

	if (progress->bad) {
		printable(name, sizeof(name), progress->bad->name);
		printable(why, sizeof(why), progress->why.why ?: "");
		complain("%s: %s%s%s", name, verdict_names[progress->why.verdict], *why ? ": " : "",
			 why);
	}
	printf("version %s is in force on %u of %u host%s", version, progress->n_ok,
	       progress->n_hosts, progress->n_hosts == 1 ? "" : "s");
	if (progress->n_away > 0)
		printf("; away: %u", progress->n_away);
	putchar('\n');
	return progress->n_ok > 0 && progress->n_ok + progress->n_away == progress->n_hosts ?
		       EXIT_SUCCESS :
		       EXIT_FAILURE;
}

/* Waits for the next events, at most until DEADLINE. False: etcd has failed in a way that ends the wait. */
static bool follow(struct fleetctl *ctl, struct fleet *fleet, struct etcd_watch **watch,
		   int64_t deadline)
{
	struct etcd_event event = {};
	int64_t ms = deadline - now_ms();
	int r = etcd_watch_next(*watch, ms > 1000 ? 1000 : ms > 0 ? (int)ms : 0, NULL, 0, &event);

	while (r == ETCD_EVENT) {
		fleet_apply(fleet, &event);
		etcd_event_done(&event);
		r = etcd_watch_next(*watch, 0, NULL, 0, &event);
	}
	/* The watch connects again by itself, unless it would get the same message that is too large. */
	if (r != ETCD_COMPACTED && r != -EMSGSIZE)
		return true;
	*watch = etcd_watch_free(*watch);
	fleet_done(fleet);
	if (fleet_read(fleet, ctl->etcd, ctl->settings.prefix) == 0 &&
	    fleet_watch(fleet, ctl->etcd, watch) == 0)
		return true;
	fleetctl_complain(ctl);
	return false;
}

/* False: somebody else has changed it meanwhile, so the hosts go somewhere else. */
static bool is_rolled_out(const struct fleet *fleet, const char *label, const char *version)
{
	const struct rollout *rollout = fleet_find_rollout(fleet, label);

	return rollout && rollout->revision > 0 && strcmp(rollout->version, version) == 0;
}

static int wait_for_hosts(struct fleetctl *ctl, const char *label, const char *version)
{
	int64_t deadline = now_ms() + (int64_t)ctl->wait_s * 1000;
	struct etcd_watch *watch = NULL;
	struct progress progress = {};
	struct fleet fleet;
	int status = EXIT_FAILURE;
	bool good = fleet_read(&fleet, ctl->etcd, ctl->settings.prefix) == 0 &&
		    fleet_watch(&fleet, ctl->etcd, &watch) == 0;

	if (!good)
		fleetctl_complain(ctl);
	while (good && is_rolled_out(&fleet, label, version)) {
		progress = look(&fleet, label);
		if (progress.n_waiting == 0 || now_ms() >= deadline)
			break;
		good = follow(ctl, &fleet, &watch, deadline);
	}
	if (good && !is_rolled_out(&fleet, label, version)) {
		complain("somebody else has rolled out another version to label %s meanwhile",
			 label);
	} else if (good) {
		if (progress.n_waiting > 0)
			complain("after %u s, %u of %u hosts do not have version %s", ctl->wait_s,
				 progress.n_waiting, progress.n_hosts, version);
		status = conclude(&progress, version);
	}
	etcd_watch_free(watch);
	fleet_done(&fleet);
	return status;
}

/* Takes the reference to HISTORY. */
static int roll_out(struct fleetctl *ctl, const struct fleet *fleet, const char *version,
		    json_t *history)
{
	const char *label = ctl->label ?: "all";
	const struct rollout *rollout = fleet_find_rollout(fleet, label);
	char was[SITE_NAME_MAX + 1] = "";
	unsigned n;

	if (rollout && rollout->revision > 0)
		strcpy(was, rollout->version);
	if (!write_rollout(ctl, fleet, label, version, history))
		return EXIT_FAILURE;
	n = look(fleet, label).n_hosts;
	printf("version %s is rolled out to label %s", version, label);
	if (*was)
		printf(", before it was %s", was);
	if (n > 0)
		printf("; %u host%s", n, n == 1 ? "" : "s");
	putchar('\n');
	fflush(stdout);
	return ctl->wait_s > 0 ? wait_for_hosts(ctl, label, version) : EXIT_SUCCESS;
}

static bool read_fleet(struct fleetctl *ctl, struct fleet *ret)
{
	*ret = (struct fleet){};
	if (!ctl->etcd && !fleetctl_connect(ctl))
		return false;
	if (fleet_read(ret, ctl->etcd, ctl->settings.prefix) == 0)
		return true;
	fleetctl_complain(ctl);
	return false;
}

static int use(struct fleetctl *ctl, const struct fleet *fleet, const char *version)
{
	const struct rollout *rollout = fleet_find_rollout(fleet, ctl->label ?: "all");
	json_t *history = known_history(rollout);
	size_t n = json_array_size(history);

	/* To use a version again is no new entry. */
	if (n == 0 || !version_at(history, n - 1) ||
	    strcmp(version_at(history, n - 1), version) != 0)
		append(history, version, new_author());
	return roll_out(ctl, fleet, version, history);
}

int rollout_use(struct fleetctl *ctl, const char *version)
{
	int status = EXIT_FAILURE;
	struct fleet fleet;

	if (read_fleet(ctl, &fleet)) {
		if (!fleet_has_version(&fleet, version))
			complain("etcd has no version %s", version);
		else
			status = use(ctl, &fleet, version);
	}
	fleet_done(&fleet);
	return status;
}

int action_use(struct fleetctl *ctl, char **arguments)
{
	if (site_is_name(arguments[0]))
		return rollout_use(ctl, arguments[0]);
	complain("invalid name of a version \"%s\"", arguments[0]);
	return EXIT_USAGE;
}

/* Back to the version before the one that is rolled out now, which the history no longer has then. */
static int roll_back(struct fleetctl *ctl, const struct fleet *fleet)
{
	const char *label = ctl->label ?: "all", *version;
	const struct rollout *rollout = fleet_find_rollout(fleet, label);
	json_t *history;
	size_t n;

	if (!rollout || rollout->revision == 0) {
		complain("no version is rolled out to label %s", label);
		return EXIT_FAILURE;
	}
	history = known_history(rollout);
	n = json_array_size(history);
	json_array_remove(history, n - 1);
	version = n > 1 ? version_at(history, n - 2) : NULL;
	if (version && fleet_has_version(fleet, version))
		return roll_out(ctl, fleet, version, history);
	if (version)
		complain(
			"before %s it was %s, but etcd has that version no longer; \"rdmabrokerctl "
			"fleet use\" takes any other",
			rollout->version, version);
	else
		complain("no version before %s is known for label %s; \"rdmabrokerctl fleet use\" "
			 "takes any",
			 rollout->version, label);
	json_decref(history);
	return EXIT_FAILURE;
}

int action_rollback(struct fleetctl *ctl, char **arguments)
{
	int status = EXIT_FAILURE;
	struct fleet fleet;

	if (read_fleet(ctl, &fleet))
		status = roll_back(ctl, &fleet);
	fleet_done(&fleet);
	return status;
}

int action_clear(struct fleetctl *ctl, char **arguments)
{
	char key[FLEETCTL_KEY_MAX];
	int64_t n;

	if (!ctl->label) {
		complain("clear needs --label");
		return EXIT_USAGE;
	}
	fleetctl_key(ctl, key, "rollout", ctl->label);
	if (!fleetctl_connect(ctl))
		return EXIT_FAILURE;
	if (etcd_delete(ctl->etcd, key, /* is_prefix= */ false, &n) != 0)
		return fleetctl_complain(ctl);
	if (n == 0) {
		complain("no version is rolled out to label %s", ctl->label);
		return EXIT_FAILURE;
	}
	printf("label %s has no version of its own; its hosts take that of their next label\n",
	       ctl->label);
	return EXIT_SUCCESS;
}

int action_forget(struct fleetctl *ctl, char **arguments)
{
	const char *name = arguments[0];
	const struct host *host;
	char key[FLEETCTL_KEY_MAX];
	int status = EXIT_FAILURE;
	struct fleet fleet;
	int64_t n = 0;

	if (strlen(name) >= SETTINGS_PATH_MAX) {
		complain("the name of a host has at most %d bytes", SETTINGS_PATH_MAX - 1);
		return EXIT_USAGE;
	}
	if (read_fleet(ctl, &fleet)) {
		host = fleet_find_host(&fleet, name);
		fleetctl_key(ctl, key, "known", name);
		if (host && (host->state || host->is_invalid))
			complain("host %s is there; stop rdmabroker-fleet on it first", name);
		else if (host && etcd_delete(ctl->etcd, key, /* is_prefix= */ false, &n) != 0)
			fleetctl_complain(ctl);
		else if (n == 0)
			complain("no host %s is known", name);
		else
			status = EXIT_SUCCESS;
	}
	if (status == EXIT_SUCCESS)
		printf("host %s is forgotten\n", name);
	fleet_done(&fleet);
	return status;
}

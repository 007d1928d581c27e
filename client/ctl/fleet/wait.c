/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output.h"
#include "names.h"
#include "proto/clock.h"
#include "wait.h"

#define LINES_MAX 10 /* of hosts, with what keeps the version from each */

/* Whether the version can still come into force by itself. */
static bool is_pending(enum verdict verdict)
{
	return verdict == HOST_WAITING || verdict == HOST_TRYING;
}

static bool follows(const struct host *host, const struct judgement *judgement, const char *label)
{
	return host_exists(host) && judgement->rollout &&
	       strcmp(judgement->rollout->label, label) == 0;
}

struct progress {
	unsigned n_hosts, n_ok, n_bad; /* BAD: the version does not come into force by itself */
	struct names pending, away;
};

static struct progress look(const struct fleet *fleet, const char *label)
{
	struct progress ret = { 0 };

	for (size_t i = 0; i < fleet->n_hosts; i++) {
		const struct host *host = &fleet->hosts[i];
		struct judgement judgement = host_judge(fleet, host);

		if (!follows(host, &judgement, label))
			continue;
		ret.n_hosts++;
		if (judgement.verdict == HOST_OK)
			ret.n_ok++;
		else if (is_pending(judgement.verdict))
			names_add(&ret.pending, host->name);
		else if (judgement.verdict == HOST_AWAY)
			names_add(&ret.away, host->name);
		else
			ret.n_bad++;
	}
	return ret;
}

unsigned wait_count_hosts(const struct fleet *fleet, const char *label)
{
	return look(fleet, label).n_hosts;
}

/* Whether there is something to say about the host: that it waits is said with the others. */
static bool has_reason(const struct judgement *judgement)
{
	return judgement->verdict != HOST_OK && judgement->verdict != HOST_AWAY &&
	       (judgement->verdict != HOST_WAITING || judgement->why);
}

static void tell_reasons(const struct fleet *fleet, const char *label)
{
	char name[256], why[512];
	unsigned n = 0;

	for (size_t i = 0; i < fleet->n_hosts; i++) {
		const struct host *host = &fleet->hosts[i];
		struct judgement judgement = host_judge(fleet, host);

		if (!follows(host, &judgement, label) || !has_reason(&judgement) ||
		    n++ >= LINES_MAX)
			continue;
		printable(name, sizeof(name), host->name);
		printable(why, sizeof(why), judgement.why ?: "");
		complain("%s: %s%s%s", name, verdict_names[judgement.verdict], *why ? ": " : "",
			 why);
	}
	if (n > LINES_MAX)
		complain("and %u more, see \"rdmabrokerctl fleet list --label %s\"", n - LINES_MAX,
			 label);
}

static void tell(const struct fleetctl *ctl, const struct fleet *fleet, struct progress *progress,
		 const char *label, const char *version)
{
	if (progress->pending.n > 0)
		complain("after %u s, %u of %u host%s not have version %s: %s", ctl->wait_s,
			 progress->pending.n, progress->n_hosts,
			 progress->pending.n == 1 ? "s does" : "s do", version,
			 names_text(&progress->pending));
	tell_reasons(fleet, label);
	printf("version %s is in force on %u of %u host%s", version, progress->n_ok,
	       progress->n_hosts, progress->n_hosts == 1 ? "" : "s");
	if (progress->away.n > 0)
		printf("; away: %u (%s)", progress->away.n, names_text(&progress->away));
	putchar('\n');
}

/* An array NAME of the hosts for which the verdict is one of those that WHICH accepts. */
static void json_hosts(const struct fleet *fleet, const char *label, const char *name,
		       bool (*which)(enum verdict verdict), struct jsonout *json)
{
	jsonout_open(json, name, '[');
	for (size_t i = 0; i < fleet->n_hosts; i++) {
		const struct host *host = &fleet->hosts[i];
		struct judgement judgement = host_judge(fleet, host);

		if (!follows(host, &judgement, label) || !which(judgement.verdict))
			continue;
		jsonout_open(json, NULL, '{');
		jsonout_string(json, "host", host->name);
		jsonout_string(json, "state", verdict_names[judgement.verdict]);
		jsonout_string(json, "why", judgement.why);
		jsonout_close(json, '}');
	}
	jsonout_close(json, ']');
}

static bool is_away(enum verdict verdict)
{
	return verdict == HOST_AWAY;
}

static bool is_bad(enum verdict verdict)
{
	return verdict != HOST_OK && !is_away(verdict) && !is_pending(verdict);
}

static void tell_json(const struct fleet *fleet, const struct progress *progress, const char *label,
		      struct jsonout *json)
{
	jsonout_number(json, "in_force", progress->n_ok);
	json_hosts(fleet, label, "waiting", is_pending, json);
	json_hosts(fleet, label, "problems", is_bad, json);
	json_hosts(fleet, label, "away", is_away, json);
}

static int status_of(const struct fleetctl *ctl, const struct progress *progress)
{
	if (progress->n_bad > 0)
		return EXIT_HOST_REFUSES;
	if (progress->pending.n > 0)
		return EXIT_TIMED_OUT;
	return progress->n_ok == 0 || (ctl->strict && progress->away.n > 0) ? EXIT_HOSTS_AWAY :
									      EXIT_SUCCESS;
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

int wait_for_hosts(struct fleetctl *ctl, const char *label, const char *version,
		   struct jsonout *json)
{
	int64_t deadline = now_ms() + (int64_t)ctl->wait_s * 1000;
	struct etcd_watch *watch = NULL;
	struct progress progress = { 0 };
	int status = EXIT_UNKNOWN;
	struct fleet fleet;
	bool good = fleet_read(&fleet, ctl->etcd, ctl->settings.prefix) == 0 &&
		    fleet_watch(&fleet, ctl->etcd, &watch) == 0;

	if (!good)
		fleetctl_complain(ctl);
	while (good && is_rolled_out(&fleet, label, version)) {
		progress = look(&fleet, label);
		if (progress.pending.n == 0 || now_ms() >= deadline)
			break;
		good = follow(ctl, &fleet, &watch, deadline);
	}
	if (good && !is_rolled_out(&fleet, label, version)) {
		complain("somebody else has rolled out another version to label %s meanwhile",
			 label);
		status = EXIT_OVERTAKEN;
	} else if (good) {
		if (ctl->json)
			tell_json(&fleet, &progress, label, json);
		else
			tell(ctl, &fleet, &progress, label, version);
		status = status_of(ctl, &progress);
	}
	etcd_watch_free(watch);
	fleet_done(&fleet);
	return status;
}

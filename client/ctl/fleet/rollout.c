/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/output.h"
#include "fleetctl.h"
#include "history.h"
#include "proto/word.h"
#include "wait.h"

/* The roll-out: which version hosts with a label take. */

/* A change of the roll-out to LABEL. */
struct change {
	const char *label, *version, *what; /* see history.h */
	const struct rollout *rollout; /* before it; NULL: none */
	json_t *history; /* NULL: it stays as it is */
};

/* The texts of what is written; free them with free(). */
struct texts {
	char *history; /* NULL: it is not written */
	char *log;
};

static bool make_texts(struct texts *ret, const struct change *change)
{
	json_t *log = history_log(change->rollout, change->what, change->version);

	*ret = (struct texts){ .log = json_dumps(log, JSON_COMPACT) };
	json_decref(log);
	if (change->history)
		ret->history = json_dumps(change->history, JSON_COMPACT);
	if (ret->log && !ret->history == !change->history)
		return true;
	free(ret->history);
	free(ret->log);
	complain("out of memory");
	return false;
}

/* Tells why etcd has not written CHANGE. Returns the exit status. */
static int tell_failure(struct fleetctl *ctl, const struct change *change, int r)
{
	if (r == ETCD_CHANGED) {
		complain("somebody else has just changed the roll-out to label %s%s%s; look at "
			 "\"rdmabrokerctl fleet status\", and try again",
			 change->label, change->version ? ", or removed version " : "",
			 change->version ?: "");
		return EXIT_FAILURE;
	}
	if (r != -ETIMEDOUT && r != -ECONNREFUSED)
		return fleetctl_complain(ctl);
	complain("cannot use etcd: %s; look at \"rdmabrokerctl fleet status\" whether the roll-out "
		 "was written",
		 etcd_error(ctl->etcd));
	return EXIT_UNKNOWN;
}

/* The key of the label, its history and log, and that the version exists: all in one, or nothing. */
static int write_change(struct fleetctl *ctl, const struct fleet *fleet,
			const struct change *change)
{
	const struct rollout *rollout = change->rollout;
	char key[FLEETCTL_KEY_MAX], history[FLEETCTL_KEY_MAX], log[FLEETCTL_KEY_MAX + 4],
		version[FLEETCTL_KEY_MAX];
	struct etcd_change changes[4];
	struct texts texts;
	int r;

	if (!make_texts(&texts, change))
		return EXIT_FAILURE;
	fleetctl_key(ctl, key, "rollout", change->label);
	fleetctl_key(ctl, history, "history", change->label);
	fleetctl_key(ctl, version, "versions", change->version ?: "");
	snprintf(log, sizeof(log), "%s/log", history);
	/* The log has who wrote it, and when, so it cannot be somebody else's. */
	changes[0] = (struct etcd_change){ .kind = ETCD_PUT,
					   .key = log,
					   .revision = rollout ? rollout->log_revision : 0,
					   .value = texts.log,
					   .len = strlen(texts.log) };
	if (change->version) {
		changes[1] = (struct etcd_change){ .kind = ETCD_PUT,
						   .key = key,
						   .revision = rollout ? rollout->revision : 0,
						   .value = change->version,
						   .len = strlen(change->version) };
		changes[2] =
			(struct etcd_change){ .kind = ETCD_PUT,
					      .key = history,
					      .revision = rollout ? rollout->history_revision : 0,
					      .value = texts.history,
					      .len = strlen(texts.history) };
		changes[3] = (struct etcd_change){ .kind = ETCD_EXISTS, .key = version };
	} else {
		changes[1] = (struct etcd_change){ .kind = ETCD_DELETE, .key = key };
		changes[2] = (struct etcd_change){ .kind = ETCD_UNCHANGED,
						   .key = key,
						   .revision = fleet->revision };
	}
	r = fleetctl_change(ctl, changes, change->version ? 4 : 3);
	free(texts.history);
	free(texts.log);
	return r == 0 ? EXIT_SUCCESS : tell_failure(ctl, change, r);
}

/* A label that no host has is perhaps another one that was mistyped. */
static void warn_about_label(const struct fleet *fleet, const char *label)
{
	struct word_guess guess = { .word = label, .len = strlen(label) };

	if (strcmp(label, "all") == 0)
		return;
	for (size_t i = 0; i < fleet->n_hosts; i++) {
		const json_t *labels = host_labels(&fleet->hosts[i]);

		for (size_t j = 0; j < json_array_size(labels); j++) {
			const char *text = json_string_value(json_array_get(labels, j));

			if (text && strcmp(text, label) == 0)
				return;
			if (text && site_is_name(text))
				word_guess(&guess, text);
		}
	}
	complain("warning: no host has label %s%s%s%s", label, guess.best ? "; did you mean " : "",
		 guess.best ?: "", guess.best ? "?" : "");
}

/* The first member of an object that is open in JSON, or a sentence. */
static void tell_rollout(const struct fleetctl *ctl, const struct change *change, unsigned n_hosts,
			 struct jsonout *json)
{
	const struct rollout *rollout = change->rollout;
	const char *was = rollout && rollout->revision > 0 && *rollout->version ? rollout->version :
										  NULL;
	bool is_same = was && strcmp(was, change->version) == 0;

	if (ctl->json) {
		jsonout_string(json, "version", change->version);
		jsonout_string(json, "label", change->label);
		jsonout_string(json, "before", was);
		jsonout_number(json, "hosts", n_hosts);
		return;
	}
	printf("version %s is %srolled out to label %s", change->version, is_same ? "already " : "",
	       change->label);
	if (was && !is_same)
		printf(", before it was %s", was);
	if (n_hosts > 0)
		printf("; %u host%s%s", n_hosts, n_hosts == 1 ? "" : "s",
		       !is_same     ? "" :
		       n_hosts == 1 ? " is asked to try again if it does not have it" :
				      " are asked to try again if they do not have it");
	putchar('\n');
	fflush(stdout);
}

/* Takes the reference to HISTORY. */
static int roll_out(struct fleetctl *ctl, const struct fleet *fleet, const char *version,
		    const char *what, json_t *history)
{
	const char *label = ctl->label ?: "all";
	const struct change change = { .label = label,
				       .version = version,
				       .what = what,
				       .rollout = fleet_find_rollout(fleet, label),
				       .history = history };
	struct jsonout json = { .file = stdout };
	int status;

	warn_about_label(fleet, label);
	status = write_change(ctl, fleet, &change);
	if (status != EXIT_SUCCESS) {
		json_decref(history);
		return status;
	}
	if (ctl->json)
		jsonout_open(&json, NULL, '{');
	tell_rollout(ctl, &change, wait_count_hosts(fleet, label), &json);
	if (ctl->wait_s > 0)
		status = wait_for_hosts(ctl, label, version, &json);
	if (ctl->json) {
		jsonout_close(&json, '}');
		putchar('\n');
	}
	json_decref(history);
	return status;
}

int rollout_use(struct fleetctl *ctl, const char *version)
{
	int status = EXIT_FAILURE;
	struct fleet fleet;
	json_t *history;

	if (!fleetctl_read_fleet(ctl, &fleet))
		return EXIT_FAILURE;
	if (fleet_has_version(&fleet, version)) {
		history = history_known(fleet_find_rollout(&fleet, ctl->label ?: "all"));
		history_add(history, version);
		status = roll_out(ctl, &fleet, version, "use", history);
	} else {
		complain("etcd has no version %s", version);
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
	const char *label = ctl->label ?: "all", *version, *now;
	const struct rollout *rollout = fleet_find_rollout(fleet, label);
	json_t *history;

	if (!rollout || rollout->revision == 0) {
		complain("no version is rolled out to label %s", label);
		return EXIT_FAILURE;
	}
	now = *rollout->version ? rollout->version : "the invalid one";
	history = history_known(rollout);
	version = history_go_back(history, rollout);
	if (version && fleet_has_version(fleet, version))
		return roll_out(ctl, fleet, version, "rollback", history);
	if (version)
		complain(
			"before %s it was %s, but etcd has that version no longer; \"rdmabrokerctl "
			"fleet use\" takes any other",
			now, version);
	else
		complain("no version before %s is known for label %s; \"rdmabrokerctl fleet use\" "
			 "takes any",
			 now, label);
	json_decref(history);
	return EXIT_FAILURE;
}

int action_rollback(struct fleetctl *ctl, char **arguments)
{
	int status = EXIT_FAILURE;
	struct fleet fleet;

	if (!fleetctl_read_fleet(ctl, &fleet))
		return EXIT_FAILURE;
	status = roll_back(ctl, &fleet);
	fleet_done(&fleet);
	return status;
}

static int clear(struct fleetctl *ctl, const struct fleet *fleet)
{
	const struct change change = { .label = ctl->label,
				       .what = "clear",
				       .rollout = fleet_find_rollout(fleet, ctl->label) };
	struct jsonout json = { .file = stdout };
	int status;

	if (!change.rollout || change.rollout->revision == 0) {
		complain("no version is rolled out to label %s", ctl->label);
		return EXIT_FAILURE;
	}
	status = write_change(ctl, fleet, &change);
	if (status != EXIT_SUCCESS)
		return status;
	if (ctl->json) {
		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, "label", ctl->label);
		jsonout_string(&json, "before",
			       *change.rollout->version ? change.rollout->version : NULL);
		jsonout_close(&json, '}');
		putchar('\n');
	} else {
		printf("label %s has no version of its own; its hosts take that of their next "
		       "label\n",
		       ctl->label);
	}
	return EXIT_SUCCESS;
}

int action_clear(struct fleetctl *ctl, char **arguments)
{
	struct fleet fleet;
	int status;

	if (!ctl->label) {
		complain("clear needs --label");
		return EXIT_USAGE;
	}
	if (!fleetctl_read_fleet(ctl, &fleet))
		return EXIT_FAILURE;
	status = clear(ctl, &fleet);
	fleet_done(&fleet);
	return status;
}

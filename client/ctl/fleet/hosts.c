/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/author.h"
#include "ctl/output.h"
#include "fleet/agent.h"
#include "fleetctl.h"
#include "proto/jsonout.h"

/* What is done about single hosts: they are asked for a new attempt at once (agents watch a key), or forgotten. */

#define KEY_SECONDS 3600 /* then the key has no use any more, and goes */

static bool is_host(const char *name)
{
	if (strlen(name) < SETTINGS_PATH_MAX)
		return true;
	complain("the name of a host has at most %d bytes", SETTINGS_PATH_MAX - 1);
	return false;
}

static int ask(struct fleetctl *ctl, const char *key)
{
	char author[AUTHOR_MAX], *text = NULL;
	json_t *value;
	int64_t lease;
	int r;

	author_text(author);
	value = json_pack("{s:s, s:I}", "by", author, "time", (json_int_t)time(NULL));
	text = value ? json_dumps(value, JSON_COMPACT) : NULL;
	json_decref(value);
	if (!text) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	r = etcd_grant(ctl->etcd, KEY_SECONDS, &lease);
	if (r == 0)
		r = etcd_put(ctl->etcd, key, text, strlen(text), lease, NULL);
	free(text);
	return r == 0 ? EXIT_SUCCESS : fleetctl_complain(ctl);
}

/* The hosts that have something to try again. */
static unsigned count(const struct fleet *fleet)
{
	unsigned n = 0;

	for (size_t i = 0; i < fleet->n_hosts; i++) {
		struct judgement judgement = host_judge(fleet, &fleet->hosts[i]);

		n += judgement.verdict == HOST_REFUSED || judgement.verdict == HOST_FAILED ||
		     judgement.verdict == HOST_TRYING || judgement.verdict == HOST_WAITING;
	}
	return n;
}

/* HOST NULL: all. */
static void json_asked(const char *host, size_t n)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_string(&json, "host", host);
	jsonout_number(&json, "hosts", n);
	jsonout_close(&json, '}');
	putchar('\n');
}

static int retry_one(struct fleetctl *ctl, const struct fleet *fleet, const char *name)
{
	const struct host *host = fleet_find_host(fleet, name);
	char key[FLEETCTL_KEY_MAX];

	if (!host || !host_exists(host)) {
		complain("no host %s is known", name);
		return EXIT_FAILURE;
	}
	fleetctl_key(ctl, key, AGENT_RETRY, name);
	if (ask(ctl, key) != EXIT_SUCCESS)
		return EXIT_FAILURE;
	if (ctl->json)
		json_asked(name, 1);
	else
		printf("host %s is asked to try again%s\n", name,
		       !host->state ? ", but it is away" :
		       json_object_get(host->state, "converge") ?
				      "" :
				      ", but its agent is too old for that");
	return EXIT_SUCCESS;
}

static int retry_all(struct fleetctl *ctl, const struct fleet *fleet)
{
	char key[FLEETCTL_KEY_MAX];
	unsigned n = count(fleet);

	snprintf(key, sizeof(key), "%s" AGENT_RETRY, ctl->settings.prefix);
	if (ask(ctl, key) != EXIT_SUCCESS)
		return EXIT_FAILURE;
	if (ctl->json)
		json_asked(NULL, fleet->n_hosts);
	else
		printf("all hosts are asked to try again; %u of %zu %s not have %s version\n", n,
		       fleet->n_hosts, n == 1 ? "does" : "do", n == 1 ? "its" : "their");
	return EXIT_SUCCESS;
}

int action_retry(struct fleetctl *ctl, char **arguments)
{
	struct fleet fleet;
	int status;

	if (arguments[0] && !is_host(arguments[0]))
		return EXIT_USAGE;
	if (!fleetctl_read_fleet(ctl, &fleet))
		return EXIT_FAILURE;
	if (arguments[0])
		status = retry_one(ctl, &fleet, arguments[0]);
	else
		status = retry_all(ctl, &fleet);
	fleet_done(&fleet);
	return status;
}

/* An agent that runs would write it again. What is no agent's state is nobody's. */
static bool can_be_forgotten(const struct fleet *fleet, const struct host *host)
{
	enum verdict verdict = host_judge(fleet, host).verdict;

	return verdict == HOST_AWAY || verdict == HOST_INVALID;
}

static int forget(struct fleetctl *ctl, const struct fleet *fleet, const char *name)
{
	const struct host *host = fleet_find_host(fleet, name);
	char state[FLEETCTL_KEY_MAX], known[FLEETCTL_KEY_MAX];
	const struct etcd_change changes[] = { { .kind = ETCD_DELETE, .key = known },
					       { .kind = ETCD_DELETE, .key = state } };

	if (!host || !host_exists(host)) {
		complain("no host %s is known", name);
		return EXIT_FAILURE;
	}
	if (!can_be_forgotten(fleet, host)) {
		complain("host %s is there; stop rdmabroker-fleet on it first", name);
		return EXIT_FAILURE;
	}
	fleetctl_key(ctl, known, "known", name);
	fleetctl_key(ctl, state, "hosts", name);
	/* The state only if there is one: hosts that are away may be forgotten by somebody who may not write states. */
	if (etcd_change(ctl->etcd, changes, host->state || host->is_invalid ? 2 : 1, NULL) != 0)
		return fleetctl_complain(ctl);
	return EXIT_SUCCESS;
}

int action_forget(struct fleetctl *ctl, char **arguments)
{
	struct jsonout json = { .file = stdout };
	struct fleet fleet;
	int status;

	if (!is_host(arguments[0]))
		return EXIT_USAGE;
	if (!fleetctl_read_fleet(ctl, &fleet))
		return EXIT_FAILURE;
	status = forget(ctl, &fleet, arguments[0]);
	fleet_done(&fleet);
	if (status != EXIT_SUCCESS)
		return status;
	if (ctl->json) {
		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, "host", arguments[0]);
		jsonout_close(&json, '}');
		putchar('\n');
	} else {
		printf("host %s is forgotten\n", arguments[0]);
	}
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "proto/json.h"

static const struct count {
	const char *name;
	size_t offset;
} counts[] = {
	{ "sessions", offsetof(struct rdmabroker_status, n_sessions) },
	{ "listeners", offsetof(struct rdmabroker_status, n_listeners) },
	{ "connections", offsetof(struct rdmabroker_status, n_connections) },
	{ "handshakes", offsetof(struct rdmabroker_status, n_handshakes) },
	{ "ids", offsetof(struct rdmabroker_status, n_ids) },
	{ "leases", offsetof(struct rdmabroker_status, n_leases) },
	{ "fds", offsetof(struct rdmabroker_status, n_fds) },
};
#define N_COUNTS (sizeof(counts) / sizeof(counts[0]))

static unsigned get_count(const struct rdmabroker_status *status, const struct count *count)
{
	unsigned n;

	memcpy(&n, (const char *)status + count->offset, sizeof(n));
	return n;
}

static void print_json(const struct rdmabroker_status *status)
{
	struct json json = { .file = stdout };

	json_open(&json, NULL, '{');
	json_string(&json, "version", status->version);
	json_open(&json, "policy", '{');
	json_number(&json, "rules", status->n_rules);
	json_string(&json, "error", status->policy_error);
	json_close(&json, '}');
	json_open(&json, "devices", '[');
	for (unsigned i = 0; i < status->n_devices; i++) {
		const struct rdmabroker_device_status *device = &status->devices[i];

		json_open(&json, NULL, '{');
		json_string(&json, "name", device->name);
		json_string(&json, "node", device->node);
		json_number(&json, "leases", device->n_leases);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_bool(&json, "draining", status->draining);
	for (size_t i = 0; i < N_COUNTS; i++)
		json_number(&json, counts[i].name, get_count(status, &counts[i]));
	json_close(&json, '}');
	putchar('\n');
}

static void print_text(const struct rdmabroker_status *status)
{
	printf("%11s: rdmabrokerd %s\n", "version", status->version);
	if (status->policy_error)
		printf("%11s: RELOAD FAILED, the %u rules from before are in force: %s\n", "policy",
		       status->n_rules, status->policy_error);
	else
		printf("%11s: %u rule%s\n", "policy", status->n_rules,
		       status->n_rules == 1 ? "" : "s");
	if (status->draining)
		printf("%11s: NOTHING NEW IS TAKEN; rdmabrokerctl drain --cancel takes it back\n",
		       "draining");
	if (status->n_devices == 0)
		printf("%11s: none\n", "devices");
	for (unsigned i = 0; i < status->n_devices; i++) {
		const struct rdmabroker_device_status *device = &status->devices[i];

		printf("%11s%c %s  %s  %u lease%s\n", i == 0 ? "devices" : "", i == 0 ? ':' : ' ',
		       device->name, device->node, device->n_leases,
		       device->n_leases == 1 ? "" : "s");
	}
	for (size_t i = 0; i < N_COUNTS; i++)
		printf("%11s: %u\n", counts[i].name, get_count(status, &counts[i]));
}

int verb_status(const struct ctl *ctl, char **arguments)
{
	struct rdmabroker_status *status;
	struct rdmabroker *session;
	int r, exit_status;

	(void)arguments;
	exit_status = open_session(ctl, &session);
	if (exit_status != 0)
		return exit_status;
	r = rdmabroker_get_status(session, &status);
	if (r < 0) {
		exit_status = complain_failure(session, r);
	} else {
		(ctl->json ? print_json : print_text)(status);
		rdmabroker_free_status(status);
	}
	rdmabroker_close(session);
	return exit_status;
}

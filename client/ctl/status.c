/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "proto/addr.h"
#include "proto/jsonout.h"

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

static const struct rdmabroker_foreign_ids *find_foreign(const struct rdmabroker_status *status,
							 const char *device)
{
	for (size_t i = 0; i < status->n_foreign_ids; i++)
		if (strcmp(status->foreign_ids[i]->device, device) == 0)
			return status->foreign_ids[i];
	return NULL;
}

static void address_json(struct jsonout *json, const char *key, const struct sockaddr_storage *addr)
{
	char text[ADDR_STRLEN];

	jsonout_string(json, key,
		       addr->ss_family ? addr_to_string((const struct sockaddr *)addr, text) :
					 NULL);
}

static void foreign_json(struct jsonout *json, const struct rdmabroker_foreign_ids *foreign)
{
	if (!foreign) {
		jsonout_null(json, "foreign_ids");
		return;
	}
	jsonout_open(json, "foreign_ids", '{');
	jsonout_number(json, "age_ms", foreign->age_ms);
	jsonout_open(json, "holders", '[');
	for (size_t i = 0; i < foreign->n_holders; i++) {
		const struct rdmabroker_holder *holder = foreign->holders[i];

		jsonout_open(json, NULL, '{');
		jsonout_signed(json, "pid", holder->pid);
		if (holder->uid == UINT32_MAX)
			jsonout_null(json, "uid");
		else
			jsonout_number(json, "uid", holder->uid);
		jsonout_string(json, "name", holder->name);
		jsonout_number(json, "ids", holder->n_ids);
		jsonout_string(json, "state", holder->state);
		address_json(json, "local", &holder->local);
		address_json(json, "peer", &holder->peer);
		jsonout_close(json, '}');
	}
	jsonout_close(json, ']');
	jsonout_number(json, "more", foreign->n_more);
	jsonout_number(json, "nameless", foreign->n_nameless);
	jsonout_close(json, '}');
}

static void take_over_json(struct jsonout *json, const struct rdmabroker_status *status)
{
	if (status->generation == 0) {
		jsonout_null(json, "restart");
		return;
	}
	jsonout_open(json, "restart", '{');
	jsonout_number(json, "generation", status->generation);
	jsonout_number(json, "sessions", status->n_taken_sessions);
	jsonout_number(json, "ended_sessions", status->n_ended_sessions);
	jsonout_number(json, "took_ms", status->take_over_ms);
	jsonout_number(json, "age_ms", status->take_over_age_ms);
	jsonout_close(json, '}');
}

static void print_json(const struct rdmabroker_status *status)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_string(&json, "version", status->version);
	jsonout_open(&json, "policy", '{');
	jsonout_number(&json, "rules", status->n_rules);
	jsonout_string(&json, "error", status->policy_error);
	jsonout_bool(&json, "loaded", !status->no_policy);
	jsonout_number(&json, "missing_names", status->n_missing_names);
	jsonout_close(&json, '}');
	jsonout_open(&json, "warnings", '[');
	for (size_t i = 0; i < status->n_warnings; i++)
		jsonout_string(&json, NULL, status->warnings[i]);
	jsonout_close(&json, ']');
	jsonout_open(&json, "devices", '[');
	for (size_t i = 0; i < status->n_devices; i++) {
		const struct rdmabroker_device_status *device = status->devices[i];

		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, "name", device->name);
		jsonout_string(&json, "node", device->node);
		jsonout_number(&json, "leases", device->n_leases);
		foreign_json(&json, find_foreign(status, device->name));
		jsonout_close(&json, '}');
	}
	jsonout_close(&json, ']');
	jsonout_bool(&json, "draining", status->draining);
	take_over_json(&json, status);
	for (size_t i = 0; i < N_COUNTS; i++)
		jsonout_number(&json, counts[i].name, get_count(status, &counts[i]));
	jsonout_close(&json, '}');
	putchar('\n');
}

/* Prints the label before the first line of a list, and blanks before the others. */
static void print_label(const char **label)
{
	printf("%11s%c ", *label, **label ? ':' : ' ');
	*label = "";
}

static void print_seen(const struct rdmabroker_foreign_ids *foreign)
{
	/* Omit the age in the usual case: the device was examined just now. */
	if (foreign->age_ms >= 1000)
		printf(", %llu s ago", (unsigned long long)foreign->age_ms / 1000);
	putchar('\n');
}

static void print_holder(const struct rdmabroker_holder *holder)
{
	char uid[16], local[ADDR_STRLEN], peer[ADDR_STRLEN];

	snprintf(uid, sizeof(uid), "%u", holder->uid);
	printf("process %d (%s, uid %s) holds %u: %s %s", holder->pid, holder->name ?: "?",
	       holder->uid == UINT32_MAX ? "?" : uid, holder->n_ids, holder->state,
	       addr_to_string((const struct sockaddr *)&holder->local, local));
	if (holder->peer.ss_family)
		printf(" to %s", addr_to_string((const struct sockaddr *)&holder->peer, peer));
	if (holder->n_ids > 1)
		printf(" ...");
}

static void print_foreign(const struct rdmabroker_status *status)
{
	const char *label = "foreign ids";

	for (size_t i = 0; i < status->n_devices; i++) {
		const char *device = status->devices[i]->name;
		const struct rdmabroker_foreign_ids *foreign = find_foreign(status, device);

		if (!foreign) {
			print_label(&label);
			printf("%s  not examined yet\n", device);
			continue;
		}
		for (size_t k = 0; k < foreign->n_holders; k++) {
			print_label(&label);
			printf("%s  ", device);
			print_holder(foreign->holders[k]);
			print_seen(foreign);
		}
		if (foreign->n_more > 0) {
			print_label(&label);
			printf("%s  other processes hold %u", device, foreign->n_more);
			print_seen(foreign);
		}
		if (foreign->n_nameless > 0) {
			print_label(&label);
			printf("%s  unknown processes hold %u (the threads that made them have ended)",
			       device, foreign->n_nameless);
			print_seen(foreign);
		}
	}
	if (*label)
		printf("%11s: none\n", label);
}

static void print_take_over(const struct rdmabroker_status *status)
{
	if (status->generation == 0)
		printf("%11s: would end all sessions, see RESTARTS in rdmabrokerd(8)\n", "restart");
	else if (status->generation == 1)
		printf("%11s: keeps sessions and connections\n", "restart");
	else
		printf("%11s: keeps sessions and connections; process %" PRIu64
		       ", which has taken over %u of %u sessions, %" PRIu64 " s ago in %" PRIu64
		       " ms\n",
		       "restart", status->generation, status->n_taken_sessions,
		       status->n_taken_sessions + status->n_ended_sessions,
		       status->take_over_age_ms / 1000, status->take_over_ms);
}

static void print_text(const struct rdmabroker_status *status)
{
	printf("%11s: rdmabrokerd %s\n", "version", status->version);
	if (status->no_policy)
		printf("%11s: NOT LOADED: %s\n"
		       "%11s  everything is rejected, except rdmabrokerctl run by root; fix the "
		       "error, then run rdmabrokerctl reload\n",
		       "policy", status->policy_error ?: "", "");
	else if (status->policy_error)
		printf("%11s: RELOAD FAILED, the previous %u rules are in force: %s\n", "policy",
		       status->n_rules, status->policy_error);
	else
		printf("%11s: %u rule%s\n", "policy", status->n_rules,
		       status->n_rules == 1 ? "" : "s");
	for (size_t i = 0; i < status->n_warnings; i++)
		printf("%11s: %s\n", "warning", status->warnings[i]);
	if (status->draining)
		printf("%11s: NEW WORK IS REFUSED; run rdmabrokerctl drain --cancel to accept it again\n",
		       "draining");
	if (status->n_devices == 0)
		printf("%11s: none\n", "devices");
	for (size_t i = 0; i < status->n_devices; i++) {
		const struct rdmabroker_device_status *device = status->devices[i];

		printf("%11s%c %s  %s  %u lease%s\n", i == 0 ? "devices" : "", i == 0 ? ':' : ' ',
		       device->name, device->node, device->n_leases,
		       device->n_leases == 1 ? "" : "s");
	}
	print_foreign(status);
	print_take_over(status);
	for (size_t i = 0; i < N_COUNTS; i++)
		printf("%11s: %u\n", counts[i].name, get_count(status, &counts[i]));
}

int verb_status(const struct ctl *ctl, char **arguments)
{
	struct rdmabroker_status *status;
	struct rdmabroker *session;
	int r, exit_status;

	(void)arguments;
	exit_status = ctl_open_session(ctl, /* as_admin= */ true, &session);
	if (exit_status != 0)
		return exit_status;
	r = rdmabroker_get_status(session, &status);
	if (r < 0) {
		exit_status = ctl_complain_failure(ctl, r);
	} else {
		(ctl->json ? print_json : print_text)(status);
		rdmabroker_free_status(status);
	}
	rdmabroker_close(session);
	return exit_status;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "learned.h"
#include "proto/addr.h"
#include "table.h"

/* The verb status: what an admin wants to know first, with the problems before the numbers. */

#define STATUS(member) COLUMN_OF(struct rdmabroker_status, member)
#define DEVICE(member) COLUMN_OF(struct rdmabroker_device_status, member)
#define FOREIGN(member) COLUMN_OF(struct rdmabroker_foreign_ids, member)
#define HOLDER(member) COLUMN_OF(struct rdmabroker_holder, member)

static const struct column policy_columns[] = {
	{ NULL, "rules", STATUS(n_rules) },
	{ NULL, "error", STATUS(policy_error) },
	{ NULL, "loaded", STATUS(no_policy), COLUMN_NOT },
	{ NULL, "missing_names", STATUS(n_missing_names) },
	{ NULL, "warn_rules", STATUS(n_warn_rules) },
	{ NULL, "warned", STATUS(n_warned) },
	{ NULL },
};

static const struct column holder_columns[] = {
	{ NULL, "pid", HOLDER(pid) },     { NULL, "uid", HOLDER(uid), COLUMN_NO_MAX },
	{ NULL, "name", HOLDER(name) },   { NULL, "ids", HOLDER(n_ids) },
	{ NULL, "state", HOLDER(state) }, { NULL, "local", HOLDER(local) },
	{ NULL, "peer", HOLDER(peer) },   { NULL },
};

static const struct column foreign_columns[] = {
	{ NULL, "age_ms", FOREIGN(age_ms) },
	{ NULL, "holders", COLUMN_ROWS(struct rdmabroker_foreign_ids, holders),
	  .columns = holder_columns },
	{ NULL, "more", FOREIGN(n_more) },
	{ NULL, "nameless", FOREIGN(n_nameless) },
	{ NULL },
};

static void json_foreign(const void *at, struct jsonout *json, const char *key)
{
	const struct rdmabroker_device_status *device = at;

	json_row(json, key, foreign_columns, device->is_examined ? &device->foreign : NULL);
}

static const struct column device_columns[] = {
	{ NULL, "name", DEVICE(name) },
	{ NULL, "node", DEVICE(node) },
	{ NULL, "leases", DEVICE(n_leases) },
	{ NULL, "foreign_ids", .type = COLUMN_OBJECT, .json = json_foreign },
	{ NULL },
};

static const struct column restart_columns[] = {
	{ NULL, "generation", STATUS(generation) },
	{ NULL, "sessions", STATUS(n_taken_sessions) },
	{ NULL, "ended_sessions", STATUS(n_ended_sessions) },
	{ NULL, "took_ms", STATUS(take_over_ms) },
	{ NULL, "age_ms", STATUS(take_over_age_ms) },
	{ NULL },
};

static void json_restart(const void *at, struct jsonout *json, const char *key)
{
	const struct rdmabroker_status *status = at;

	json_row(json, key, restart_columns, status->generation > 0 ? status : NULL);
}

/* Those with a heading are counts, which the text has, too. */
static const struct column columns[] = {
	{ NULL, "version", STATUS(version) },
	{ NULL, "policy", .type = COLUMN_OBJECT, .columns = policy_columns },
	{ NULL, "warnings", STATUS(warnings) },
	{ NULL, "devices", COLUMN_ROWS(struct rdmabroker_status, devices),
	  .columns = device_columns },
	{ NULL, "draining", STATUS(draining) },
	{ NULL, "restart", .type = COLUMN_OBJECT, .json = json_restart },
	{ NULL, "learned", .type = COLUMN_OBJECT,
	  .offset = offsetof(struct rdmabroker_status, learned), .columns = learned_columns },
	{ "sessions", "sessions", STATUS(n_sessions) },
	{ "listeners", "listeners", STATUS(n_listeners) },
	{ "connections", "connections", STATUS(n_connections) },
	{ "handshakes", "handshakes", STATUS(n_handshakes) },
	{ "ids", "ids", STATUS(n_ids) },
	{ "leases", "leases", STATUS(n_leases) },
	{ "fds", "fds", STATUS(n_fds) },
	{ NULL },
};

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
	if (holder->pid == 0)
		printf("the kernel's module %s", escaped(holder->name ?: "?"));
	else
		printf("process %d (%s, uid %s)", holder->pid, escaped(holder->name ?: "?"),
		       holder->uid == UINT32_MAX ? "?" : uid);
	printf(" holds %u: %s %s", holder->n_ids, escaped(holder->state),
	       escaped(addr_to_string((const struct sockaddr *)&holder->local, local)));
	if (holder->peer.ss_family)
		printf(" to %s",
		       escaped(addr_to_string((const struct sockaddr *)&holder->peer, peer)));
	if (holder->n_ids > 1)
		printf(" ...");
}

static void print_foreign(const struct rdmabroker_status *status)
{
	const char *label = "foreign ids";

	for (size_t i = 0; i < status->n_devices; i++) {
		const char *name = status->devices[i].name;
		const struct rdmabroker_foreign_ids *foreign = &status->devices[i].foreign;

		if (!status->devices[i].is_examined) {
			print_label(&label);
			printf("%s  not examined yet\n", escaped(name));
			continue;
		}
		for (size_t k = 0; k < foreign->n_holders; k++) {
			print_label(&label);
			printf("%s  ", escaped(name));
			print_holder(&foreign->holders[k]);
			print_seen(foreign);
		}
		if (foreign->n_more > 0) {
			print_label(&label);
			printf("%s  other processes hold %u", escaped(name), foreign->n_more);
			print_seen(foreign);
		}
		if (foreign->n_nameless > 0) {
			print_label(&label);
			printf("%s  unknown processes hold %u (the threads that made them have ended)",
			       escaped(name), foreign->n_nameless);
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
	const char *error = escaped(status->policy_error ?: "");

	printf("%11s: rdmabrokerd %s\n", "version", escaped(status->version));
	if (status->no_policy)
		printf("%11s: NOT LOADED: %s\n"
		       "%11s  everything is rejected, except rdmabrokerctl run by root; fix the "
		       "error, then run rdmabrokerctl reload\n",
		       "policy", error, "");
	else if (status->policy_error)
		printf("%11s: RELOAD FAILED, the previous %u rules are in force: %s\n", "policy",
		       status->n_rules, error);
	else
		printf("%11s: %u rule%s\n", "policy", status->n_rules,
		       status->n_rules == 1 ? "" : "s");
	for (size_t i = 0; i < status->n_warnings; i++)
		printf("%11s: %s\n", "warning", escaped(status->warnings[i]));
	if (status->draining)
		printf("%11s: NEW WORK IS REFUSED; run rdmabrokerctl drain --cancel to accept it again\n",
		       "draining");
	if (status->n_devices == 0)
		printf("%11s: none\n", "devices");
	for (size_t i = 0; i < status->n_devices; i++) {
		const struct rdmabroker_device_status *device = &status->devices[i];

		printf("%11s%c %s  %s  %u lease%s\n", i == 0 ? "devices" : "", i == 0 ? ':' : ' ',
		       escaped(device->name), escaped(device->node), device->n_leases,
		       device->n_leases == 1 ? "" : "s");
	}
	print_foreign(status);
	print_take_over(status);
	printf("%11s: %u row%s (rdmabrokerctl refusals), ", "learned", status->learned.n_rows,
	       status->learned.n_rows == 1 ? "" : "s");
	learned_print(stdout, &status->learned);
	putchar('\n');
	for (const struct column *count = columns; count->key; count++)
		if (count->head)
			printf("%11s: %u\n", count->head,
			       *(const unsigned *)((const char *)status + count->offset));
}

int verb_status(struct ctl *ctl)
{
	struct rdmabroker_status *status;

	ctl_open_session(ctl, /* as_admin= */ true);
	ctl_check(ctl, rdmabroker_get_status(ctl->session, &status));
	if (ctl->json)
		print_json(columns, status);
	else
		print_text(status);
	rdmabroker_free(status);
	return EXIT_SUCCESS;
}

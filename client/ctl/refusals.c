/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "proto/addr.h"
#include "read.h"
#include "table.h"
#include "who.h"

/* The verb refusals: what was refused, or allowed with a warning, most often first. */

enum {
	OPTION_WARNED,
	OPTION_USER,
};

const struct verb_option refusals_options[] = {
	[OPTION_WARNED] = { "warned", NULL, "only what warn rules have allowed" },
	[OPTION_USER] = { "user", "NAME|UID", "only this user" },
	{ NULL },
};

static void print_time(const void *at, FILE *file)
{
	time_t t = (time_t)(*(const uint64_t *)at / 1000);
	char text[32];
	struct tm tm;

	if (localtime_r(&t, &tm) && strftime(text, sizeof(text), "%F %T", &tm))
		fputs(text, file);
}

static void json_time(const void *at, struct jsonout *json, const char *key)
{
	jsonout_number(json, key, *(const uint64_t *)at);
}

static void print_port(const void *at, FILE *file)
{
	const struct rdmabroker_refusal *of = at;

	if (of->any_port)
		fputs("ephemeral", file);
	else if (of->port > 0)
		fprintf(file, "%u", of->port);
}

static void json_port(const void *at, struct jsonout *json, const char *key)
{
	const struct rdmabroker_refusal *of = at;

	if (of->any_port)
		jsonout_string(json, key, "ephemeral");
	else if (of->port > 0)
		jsonout_number(json, key, of->port);
	else
		jsonout_null(json, key);
}

static bool get_address(const struct sockaddr_storage *addr, char text[ADDR_HOST_STRLEN])
{
	if (addr->ss_family != AF_UNSPEC)
		addr_host_to_string((const struct sockaddr *)addr, text);
	return addr->ss_family != AF_UNSPEC;
}

static void print_local(const void *at, FILE *file)
{
	char text[ADDR_HOST_STRLEN];

	if (get_address(at, text))
		fputs(text, file);
}

/* A prefix, unless there was only one peer. */
static bool get_peer(const struct rdmabroker_refusal *of, char *ret, size_t size)
{
	bool is_one = of->peer_prefix == addr_bits((const struct sockaddr *)&of->peer);
	char text[ADDR_HOST_STRLEN];

	if (!get_address(&of->peer, text))
		return false;
	if (is_one)
		snprintf(ret, size, "%s", text);
	else
		snprintf(ret, size, "%s/%u", text, of->peer_prefix);
	return true;
}

static void print_peer(const void *at, FILE *file)
{
	char text[ADDR_HOST_STRLEN + 8];

	if (get_peer(at, text, sizeof(text)))
		fputs(text, file);
}

static void json_local(const void *at, struct jsonout *json, const char *key)
{
	char text[ADDR_HOST_STRLEN];

	jsonout_string(json, key, get_address(at, text) ? text : NULL);
}

static void json_peer(const void *at, struct jsonout *json, const char *key)
{
	char text[ADDR_HOST_STRLEN + 8];

	jsonout_string(json, key, get_peer(at, text, sizeof(text)) ? text : NULL);
}

static void json_gids(const void *at, struct jsonout *json, const char *key)
{
	const struct rdmabroker_who *who = at;

	jsonout_open(json, key, '[');
	for (size_t i = 0; i < who->n_gids; i++)
		jsonout_number(json, NULL, who->gids[i]);
	jsonout_close(json, ']');
}

static enum colour colour_of_outcome(const void *row)
{
	const char *outcome = ((const struct rdmabroker_refusal *)row)->outcome;

	return strcmp(outcome, "warned") == 0 || strcmp(outcome, "busy") == 0 ? COLOUR_YELLOW :
										COLOUR_RED;
}

#define OF(member) COLUMN_OF(struct rdmabroker_refusal, member)
#define AT(member) .type = COLUMN_TEXT, .offset = offsetof(struct rdmabroker_refusal, member)

static const struct column columns[] = {
	{ "COUNT", "count", OF(count) },
	{ NULL, "first_ms", OF(first_ms) },
	{ "LAST", "last_ms", AT(last_ms), .text = print_time, .json = json_time },
	{ "OUTCOME", "outcome", OF(outcome), .colour = colour_of_outcome },
	{ "OPERATION", "operation", OF(operation) },
	{ NULL, "uid", OF(who.uid) },
	{ "USER", "user", AT(who.uid), .text = who_print_user, .json = who_json_user },
	{ "WORKLOAD", NULL, AT(who.uid), .text = who_print_workload },
	{ NULL, "gids", AT(who), .json = json_gids },
	{ NULL, "unit", OF(who.unit) },
	{ NULL, "container", OF(who.container) },
	{ NULL, "pod", OF(who.pod) },
	{ NULL, "job", OF(who.job) },
	{ "PROGRAM", "program", OF(name) },
	{ "PORT", "port", .type = COLUMN_TEXT, .text = print_port, .json = json_port },
	{ "LOCAL", "local", AT(local), .text = print_local, .json = json_local },
	{ "PEER", "peer", .type = COLUMN_TEXT, .text = print_peer, .json = json_peer },
	{ "DEVICE", "device", OF(device) },
	{ NULL, "ps", .type = COLUMN_PORT_SPACE,
	  .offset = offsetof(struct rdmabroker_refusal, ps) },
	{ "RULE", "rule", OF(rule) },
	{ NULL },
};

static int compare(const void *a, const void *b)
{
	const struct rdmabroker_refusal *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return x->last_ms > y->last_ms ? -1 : x->last_ms < y->last_ms;
}

/* Removes what the options do not want. */
static void select_wanted(const struct ctl *ctl, uint32_t uid, struct rdmabroker_refusals *refusals)
{
	size_t n = 0;

	for (size_t i = 0; i < refusals->n; i++) {
		const struct rdmabroker_refusal *one = &refusals->list[i];

		if ((!ctl->given[OPTION_WARNED] || strcmp(one->outcome, "warned") == 0) &&
		    (!ctl->given[OPTION_USER] || one->who.uid == uid))
			refusals->list[n++] = *one;
	}
	refusals->n = n;
}

int verb_refusals(struct ctl *ctl)
{
	struct rdmabroker_refusals *refusals;
	uint32_t uid = 0;
	int r, status = EXIT_SUCCESS;

	if (ctl->given[OPTION_USER])
		status = read_user(ctl->given[OPTION_USER], &uid);
	if (status == 0)
		status = ctl_open_session(ctl, /* as_admin= */ true);
	if (status != 0)
		return status;
	r = rdmabroker_get_refusals(ctl->session, &refusals);
	if (r < 0)
		return ctl_complain_failure(ctl, r);
	select_wanted(ctl, uid, refusals);
	qsort(refusals->list, refusals->n, sizeof(*refusals->list), compare);
	if (!print_rows(ctl->json ? "refusals" : NULL, columns, refusals->list, refusals->n,
			sizeof(*refusals->list), 0))
		status = EXIT_FAILURE;
	rdmabroker_free(refusals);
	return status;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "learned.h"
#include "read.h"
#include "table.h"
#include "who.h"

/* The verb refusals: what was refused, or allowed with a warning, the last one first. */

static const char *clear, *refused, *since, *warned, *user;

const struct verb_option refusals_options[] = {
	{ "clear", NULL, "forget all that was refused, or allowed with a warning",
	  .given = &clear },
	{ "refused", NULL, "only what was refused", .given = &refused },
	{ "since", "TIME|AGO", "only what was refused since then: 2026-01-31, 12h, 7d",
	  .given = &since },
	{ "warned", NULL, "only what warn rules have allowed", .given = &warned },
	{ "user", "NAME|UID", "only this user", .given = &user },
	{ NULL },
};

static void print_time(const void *at, FILE *file)
{
	char text[TIME_TEXT_MAX];

	fputs(time_to_text(text, (int64_t)(*(const uint64_t *)at / 1000)), file);
}

static void json_time(const void *at, struct jsonout *json, const char *key)
{
	jsonout_number(json, key, *(const uint64_t *)at);
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

static void print_port(const void *at, FILE *file)
{
	const struct rdmabroker_refusal *of = at;

	if (of->any_port)
		fputs("ephemeral", file);
	else if (of->port > 0)
		fprintf(file, "%u", of->port);
}

static void print_pkey(const void *at, FILE *file)
{
	const uint16_t *pkey = at;

	if (*pkey)
		fprintf(file, "0x%04x", *pkey);
}

static const char *get_local(const void *at, char text[ADDR_STRLEN])
{
	const struct sockaddr *addr = at;

	return addr->sa_family != AF_UNSPEC ? addr_host_to_string(addr, text) : NULL;
}

/* A prefix, unless there was only one peer. */
static const char *get_peer(const void *at, char text[ADDR_STRLEN])
{
	const struct rdmabroker_refusal *of = at;
	const char *host = get_local(&of->peer, text);

	if (host && of->peer_prefix != addr_bits((const struct sockaddr *)&of->peer))
		sprintf(text + strlen(text), "/%u", of->peer_prefix);
	return host;
}

static enum colour colour_of_outcome(const void *row)
{
	const char *outcome = ((const struct rdmabroker_refusal *)row)->outcome;

	return strcmp(outcome, "warned") == 0 || strcmp(outcome, "quota-warned") == 0 ||
			       strcmp(outcome, "busy") == 0 ?
		       COLOUR_YELLOW :
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
	{ NULL, "gids", AT(who), .json = who_json_gids },
	{ NULL, "unit", OF(who.unit) },
	{ NULL, "container", OF(who.container) },
	{ NULL, "pod", OF(who.pod) },
	{ NULL, "job", OF(who.job) },
	{ "PROGRAM", "program", OF(name) },
	{ "PORT", "port", .type = COLUMN_TEXT, .text = print_port, .json = json_port },
	{ "LOCAL", "local", AT(local), .get = get_local },
	{ "PEER", "peer", .type = COLUMN_TEXT, .get = get_peer },
	{ "DEVICE", "device", OF(device) },
	{ NULL, "ps", .type = COLUMN_PORT_SPACE,
	  .offset = offsetof(struct rdmabroker_refusal, ps) },
	{ "RULE", "rule", OF(rule) },
	{ "PKEY", "pkey", AT(pkey), COLUMN_IF_ANY, .text = print_pkey, .json = table_json_pkey },
	{ NULL },
};

static int compare(const void *a, const void *b)
{
	const struct rdmabroker_refusal *x = a, *y = b;

	if (x->last_ms != y->last_ms)
		return x->last_ms > y->last_ms ? -1 : 1;
	return x->count > y->count ? -1 : x->count < y->count;
}

/* Removes what the options do not want. */
static void select_wanted(uint32_t uid, uint64_t since_ms, struct rdmabroker_refusals *refusals)
{
	size_t n = 0;

	for (size_t i = 0; i < refusals->n; i++) {
		const struct rdmabroker_refusal *one = &refusals->list[i];
		bool is_warned = strcmp(one->outcome, "warned") == 0 ||
				 strcmp(one->outcome, "quota-warned") == 0;

		if ((is_warned ? !refused : !warned) && (!user || one->who.uid == uid) &&
		    one->last_ms >= since_ms)
			refusals->list[n++] = *one;
	}
	refusals->n = n;
}

static void print(const struct ctl *ctl, const struct rdmabroker_refusals *refusals)
{
	struct jsonout json;
	struct table table;

	if (ctl->json) {
		json_begin(&json);
		json_row(&json, "learned", learned_columns, &refusals->learned);
	}
	table_begin(&table, columns, ctl->json ? &json : NULL, ctl->json ? "refusals" : NULL);
	for (size_t i = 0; i < refusals->n; i++)
		table_add(&table, &refusals->list[i]);
	table_end(&table, stdout);
	if (ctl->json) {
		json_end(&json);
		return;
	}
	putchar('\n');
	learned_print(stdout, &refusals->learned);
	putchar('\n');
}

static void forget_all(const struct ctl *ctl)
{
	struct jsonout json;

	ctl_check(ctl, rdmabroker_clear_refusals(ctl->session));
	if (!ctl->json) {
		puts("all rows are forgotten");
		return;
	}
	json_begin(&json);
	jsonout_bool(&json, "cleared", true);
	json_end(&json);
}

int verb_refusals(struct ctl *ctl)
{
	struct rdmabroker_refusals *refusals;
	uint64_t since_ms = 0;
	uint32_t uid = 0;

	if (clear && (refused || since || warned || user))
		die(EXIT_USAGE, "--clear forgets all rows, and has no other option");
	if (refused && warned)
		die(EXIT_USAGE, "--refused and --warned exclude each other");
	read_user(user, &uid);
	read_since(since, &since_ms);
	ctl_open_session(ctl, /* as_admin= */ true);
	if (clear) {
		forget_all(ctl);
		return EXIT_SUCCESS;
	}
	ctl_check(ctl, rdmabroker_get_refusals(ctl->session, &refusals));
	select_wanted(uid, since_ms, refusals);
	if (refusals->n > 0)
		qsort(refusals->list, refusals->n, sizeof(*refusals->list), compare);
	print(ctl, refusals);
	rdmabroker_free(refusals);
	return EXIT_SUCCESS;
}

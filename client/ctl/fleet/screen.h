/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The fleet as a screen, drawn once or again and again, and its parts that other files print, too. */

#include <stdio.h>

#include "ctl/table.h"
#include "fleetctl.h"

#define MEMBER_MS 2000 /* the deadline of a question to one endpoint */

struct member {
	bool answers;
	struct etcd_member is; /* if it answers */
	char error[512]; /* if it does not */
};

/* What is printed. */
struct view {
	struct fleetctl *ctl;
	const struct printer *printer;
	struct fleet fleet;
	bool has_fleet; /* false: it could not be read, so there is nothing to print but the members */
	json_t *manifests; /* of versions, which never change, by their names; those that were needed */
	const char *what; /* for `list` */
	struct etcd *member_client;
	struct member members[ETCD_ENDPOINTS_MAX]; /* of each endpoint of the settings */
	size_t n_members;
	int64_t members_ms; /* when they were asked */
	int64_t fresh_ms; /* when FLEET was known to be right */
	int64_t stale_s; /* how long ago that was, in seconds */
	char error[512]; /* why FLEET may be old; empty: it is not */
};

/* Both print VIEW to FILE, and return an exit status. */
struct printer {
	int (*text)(const struct view *view, FILE *file);
	int (*json)(const struct view *view, FILE *file);
	bool asks_members; /* and prints what they say, also if the fleet cannot be read: has_fleet is false then */
};

/* What there is to print about a host. */
struct host_row {
	const char *host, *label, *state, *version, *wanted, *why; /* NULL: none */
	int64_t age_s; /* of the state; -1: not known */
	int64_t sessions, listeners, connections, rejected;
	const json_t *labels; /* the host's own, whichever decides; NULL: not known */
	const json_t *report; /* NULL: none */
};
struct host_row host_row(const struct view *view, const struct host *host);

/* The text of a column: an age in seconds; negative: not known. */
/* The sum of WHAT ("rejected", "busy", "warned") over the rules of HOST. */
int64_t screen_sum_refusals(const struct host *host, const char *what);
void screen_print_age(const void *at, FILE *file);
/* A json_t * of seconds since 1970, as local time; NULL: none. */
void screen_print_time(const void *at, FILE *file);
/* A json_t * of an array of texts; NULL: none. */
void screen_print_list(const void *at, FILE *file);
/* Whether a member says that the database is full, so that nothing can be written. */
bool screen_is_full(const struct view *view);
/* Says why FLEET is old, after INDENT, if it is. */
void screen_print_error(const struct view *view, const char *indent, FILE *file);
/* The JSON of a column: a json_t *, whose text others have written; NULL: null. */
void screen_json(const void *at, struct jsonout *json, const char *key);
/* Reads the fleet and prints it, again and again with --watch. Returns an exit status. */
int screen_run(struct fleetctl *ctl, const struct printer *printer, const char *what);

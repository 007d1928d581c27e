/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stdio.h>

#include "ctl/output.h"
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
	struct fleet fleet;
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
	bool asks_members;
};

/* The age of a host's state; empty: it is not known. Returns RET. */
const char *host_age(const struct judgement *judgement, char ret[AGE_TEXT_MAX]);
/* Reads the fleet and prints it, again and again with --watch. Returns an exit status. */
int screen_run(struct fleetctl *ctl, const struct printer *printer, const char *what);

/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "table.h"

/* What the user who runs this can hold, and what he holds. It needs no right but to open a session. */

static void print_key(const void *at, FILE *file)
{
	const char *key = *(const char *const *)at;

	fprintf(file, "%s%s", key, *key ? "=" : "fixed");
}

static void print_limit(const void *at, FILE *file)
{
	uint64_t limit = *(const uint64_t *)at;

	if (limit == UINT64_MAX)
		fputs("none", file);
	else
		fprintf(file, "%" PRIu64, limit);
}

static enum colour colour_reached(const void *row)
{
	const struct rdmabroker_limit *limit = row;

	return limit->used >= limit->limit ? COLOUR_RED : COLOUR_NONE;
}

#define OF(member) COLUMN_OF(struct rdmabroker_limit, member)

static const struct column columns[] = {
	{ "RESOURCE", "resource", OF(what) },
	{ "USED", "used", OF(used), .colour = colour_reached },
	{ "LIMIT", "limit", OF(limit), .text = print_limit },
	{ "SET BY", "key", OF(key), .text = print_key },
	{ NULL },
};

int verb_limits(struct ctl *ctl)
{
	struct rdmabroker_limits *limits;

	ctl_open_session(ctl, /* as_admin= */ false);
	ctl_check(ctl, rdmabroker_get_limits(ctl->session, &limits));
	print_rows(ctl->json ? "limits" : NULL, columns, limits->list, limits->n,
		   sizeof(*limits->list), 0);
	rdmabroker_free(limits);
	return EXIT_SUCCESS;
}

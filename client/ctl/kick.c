/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "read.h"
#include "table.h"

/* The verb kick: ends a session, or one of its ids. */

struct target {
	uint64_t session;
	uint32_t id; /* 0: the whole session */
};

static const struct column columns[] = {
	{ NULL, "session", COLUMN_OF(struct target, session) },
	{ NULL, "id", COLUMN_OF(struct target, id), COLUMN_NO_ZERO },
	{ NULL },
};

/* Parses "7" (session 7) or "7:2" (its id 2). Neither number can be 0. */
static void read_target(const char *text, struct target *ret)
{
	size_t len = strcspn(text, ":");
	const char *behind = text[len] ? text + len + 1 : NULL;
	unsigned long session = 0, id = 0;
	char number[24] = "";

	if (len < sizeof(number))
		memcpy(number, text, len);
	if (!read_number(number, ULONG_MAX, &session) || session == 0 ||
	    (behind && (!read_number(behind, UINT32_MAX, &id) || id == 0)))
		die(EXIT_USAGE,
		    "invalid session or id \"%s\": it must be SESSION or SESSION:ID, as \"list\" prints them",
		    text);
	*ret = (struct target){ session, (uint32_t)id };
}

int verb_kick(struct ctl *ctl)
{
	struct target target;
	int r;

	read_target(ctl->arguments[0], &target);
	ctl_open_session(ctl, /* as_admin= */ true);
	r = rdmabroker_kick(ctl->session, target.session, target.id);
	if (r == -EBADF) {
		ctl_complain_failure(ctl, r);
		die(EXIT_FAILURE, "run \"rdmabrokerctl list\" for the sessions and ids");
	}
	ctl_check(ctl, r);
	if (ctl->json)
		print_json(columns, &target);
	else if (target.id > 0)
		printf("id %" PRIu32 " of session %" PRIu64 " ended\n", target.id, target.session);
	else
		printf("session %" PRIu64 " ended\n", target.session);
	return EXIT_SUCCESS;
}

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
static int read_target(const char *text, struct target *ret)
{
	size_t len = strcspn(text, ":");
	const char *behind = text[len] ? text + len + 1 : NULL;
	unsigned long session = 0, id = 0;
	char number[24] = "";

	if (len < sizeof(number))
		memcpy(number, text, len);
	if (!read_number(number, ULONG_MAX, &session) || session == 0 ||
	    (behind && (!read_number(behind, UINT32_MAX, &id) || id == 0))) {
		complain(
			"invalid session or id \"%s\": it must be SESSION or SESSION:ID, as \"list\" prints them",
			text);
		return EXIT_USAGE;
	}
	*ret = (struct target){ session, (uint32_t)id };
	return 0;
}

int verb_kick(struct ctl *ctl)
{
	struct target target;
	int r, status = read_target(ctl->arguments[0], &target) ?:
				ctl_open_session(ctl, /* as_admin= */ true);

	if (status != 0)
		return status;
	r = rdmabroker_kick(ctl->session, target.session, target.id);
	if (r < 0) {
		status = ctl_complain_failure(ctl, r);
		if (r == -EBADF)
			complain("run \"rdmabrokerctl list\" for the sessions and ids");
	} else if (ctl->json) {
		print_json(columns, &target);
	} else if (target.id > 0) {
		printf("id %" PRIu32 " of session %" PRIu64 " ended\n", target.id, target.session);
	} else {
		printf("session %" PRIu64 " ended\n", target.session);
	}
	return status;
}

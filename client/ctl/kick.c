/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "proto/jsonout.h"
#include "read.h"

/* Parses "7" (session 7) or "7:2" (its id 2). Neither number can be 0. */
static int read_target(const char *text, uint64_t *ret_session, uint32_t *ret_id)
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
	*ret_session = session;
	*ret_id = (uint32_t)id;
	return 0;
}

static void print_json(uint64_t number, uint32_t id)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_number(&json, "session", number);
	if (id > 0)
		jsonout_number(&json, "id", id);
	else
		jsonout_null(&json, "id");
	jsonout_close(&json, '}');
	putchar('\n');
}

int verb_kick(const struct ctl *ctl, char **arguments)
{
	struct rdmabroker *session;
	uint64_t number;
	uint32_t id;
	int r, status;

	status = read_target(arguments[0], &number, &id);
	if (status == 0)
		status = ctl_open_session(ctl, /* as_admin= */ true, &session);
	if (status != 0)
		return status;
	r = rdmabroker_kick(session, number, id);
	if (r < 0) {
		status = ctl_complain_failure(ctl, r);
		if (r == -EBADF)
			complain("run \"rdmabrokerctl list\" for the sessions and ids");
	} else if (ctl->json) {
		print_json(number, id);
	} else if (id > 0) {
		printf("id %" PRIu32 " of session %" PRIu64 " ended\n", id, number);
	} else {
		printf("session %" PRIu64 " ended\n", number);
	}
	rdmabroker_close(session);
	return status;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "proto/clock.h"
#include "read.h"
#include "table.h"

/* The verb drain: no new work, and then a wait until no connection is left. */

#define POLL_MS 500

enum {
	OPTION_TIMEOUT,
	OPTION_CANCEL,
};

const struct verb_option drain_options[] = {
	[OPTION_TIMEOUT] = { "timeout", "SECONDS", "wait at most this long (default: no limit)" },
	[OPTION_CANCEL] = { "cancel", NULL, "stop draining: accept new work again" },
	{ NULL },
};

struct left {
	bool draining;
	unsigned connections, handshakes;
};

static const struct column columns[] = {
	{ NULL, "draining", COLUMN_OF(struct left, draining) },
	{ NULL, "connections", COLUMN_OF(struct left, connections) },
	{ NULL, "handshakes", COLUMN_OF(struct left, handshakes) },
	{ NULL },
};

static int get_left(struct rdmabroker *session, struct left *ret)
{
	struct rdmabroker_status *status;
	int r = rdmabroker_get_status(session, &status);

	if (r < 0)
		return r;
	*ret = (struct left){ status->draining, status->n_connections, status->n_handshakes };
	rdmabroker_free(status);
	return 0;
}

static const char *plural(unsigned n)
{
	return n == 1 ? " is" : "s are";
}

/*
 * Waits until no connections are left, until the timeout, or until another admin cancels draining. Handshakes count
 * too, because they can become connections.
 */
static int wait_for_end(struct rdmabroker *session, bool tell, int64_t timeout_ms, struct left *ret)
{
	int64_t begin = now_ms();
	unsigned told = UINT_MAX;
	int r;

	for (;;) {
		int64_t pause = POLL_MS, until = timeout_ms - (now_ms() - begin);
		unsigned n;

		r = get_left(session, ret);
		if (r < 0)
			return r;
		n = ret->connections + ret->handshakes;
		/* If the daemon is not draining any more, another admin has cancelled it. */
		if (n == 0 || !ret->draining || (timeout_ms >= 0 && until <= 0))
			return 0;
		if (tell && n != told) {
			printf("%u connection%s left\n", n, plural(n));
			fflush(stdout);
		}
		told = n;
		if (timeout_ms >= 0 && until < pause)
			pause = until;
		poll(NULL, 0, (int)pause);
	}
}

static int print_end(const struct ctl *ctl, const struct left *left)
{
	unsigned n = left->connections + left->handshakes;
	bool cancel = ctl->given[OPTION_CANCEL];

	if (ctl->json)
		print_json(columns, left);
	else if (cancel)
		puts("draining is cancelled");
	else if (!left->draining)
		complain("another admin has cancelled draining: the daemon accepts new work again");
	else if (n > 0)
		complain("%u connection%s left after %s s; draining continues; run "
			 "\"rdmabrokerctl list --connections\" to see them",
			 n, plural(n), ctl->given[OPTION_TIMEOUT]);
	else
		puts("drained: no connection is left");
	return cancel || (left->draining && n == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int verb_drain(struct ctl *ctl)
{
	const char *timeout = ctl->given[OPTION_TIMEOUT];
	bool cancel = ctl->given[OPTION_CANCEL];
	unsigned long seconds = 0;
	struct left left = { 0 };
	int r, status;

	if (timeout && (cancel || !read_number(timeout, INT_MAX, &seconds))) {
		complain(cancel ? "--timeout cannot be given with --cancel, which does not wait" :
				  "invalid timeout \"%s\": it must be a number of seconds",
			 timeout);
		return ctl_see_help(ctl->verb);
	}
	status = ctl_open_session(ctl, /* as_admin= */ true);
	if (status != 0)
		return status;
	r = rdmabroker_drain(ctl->session, cancel);
	if (r == 0 && cancel)
		r = get_left(ctl->session, &left);
	else if (r == 0)
		r = wait_for_end(ctl->session, !ctl->json, timeout ? (int64_t)seconds * 1000 : -1,
				 &left);
	return r < 0 ? ctl_complain_failure(ctl, r) : print_end(ctl, &left);
}

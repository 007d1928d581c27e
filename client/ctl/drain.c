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

static const char *timeout, *cancel;

const struct verb_option drain_options[] = {
	{ "timeout", "SECONDS", "wait at most this long (default: no limit)", .given = &timeout },
	{ "cancel", NULL, "stop draining: accept new work again", .given = &cancel },
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

static void get_left(const struct ctl *ctl, struct left *ret)
{
	struct rdmabroker_status *status;

	ctl_check(ctl, rdmabroker_get_status(ctl->session, &status));
	*ret = (struct left){ status->draining, status->n_connections, status->n_handshakes };
	rdmabroker_free(status);
}

static const char *plural(unsigned n)
{
	return n == 1 ? " is" : "s are";
}

/*
 * Waits until no connections are left, until the timeout, or until another admin cancels draining. Handshakes count
 * too, because they can become connections.
 */
static void wait_for_end(const struct ctl *ctl, int64_t timeout_ms, struct left *ret)
{
	int64_t begin = now_ms();
	unsigned told = UINT_MAX;

	for (;;) {
		int64_t pause = POLL_MS, until = timeout_ms - (now_ms() - begin);
		unsigned n;

		get_left(ctl, ret);
		n = ret->connections + ret->handshakes;
		/* If the daemon is not draining any more, another admin has cancelled it. */
		if (n == 0 || !ret->draining || (timeout_ms >= 0 && until <= 0))
			return;
		if (!ctl->json && n != told) {
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

	if (ctl->json)
		print_json(columns, left);
	else if (cancel)
		puts("draining is cancelled");
	else if (!left->draining)
		complain("another admin has cancelled draining: the daemon accepts new work again");
	else if (n > 0)
		complain("%u connection%s left after %s s; draining continues; run "
			 "\"rdmabrokerctl list --connections\" to see them",
			 n, plural(n), timeout);
	else
		puts("drained: no connection is left");
	return cancel || (left->draining && n == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int verb_drain(struct ctl *ctl)
{
	unsigned long seconds = 0;
	struct left left = { 0 };

	if (timeout && cancel)
		ctl_misused(ctl, "--timeout cannot be given with --cancel, which does not wait");
	if (timeout && !read_number(timeout, INT_MAX, &seconds))
		ctl_misused(ctl, "invalid timeout \"%s\": it must be a number of seconds", timeout);
	ctl_open_session(ctl, /* as_admin= */ true);
	ctl_check(ctl, rdmabroker_drain(ctl->session, cancel));
	if (cancel)
		get_left(ctl, &left);
	else
		wait_for_end(ctl, timeout ? (int64_t)seconds * 1000 : -1, &left);
	return print_end(ctl, &left);
}

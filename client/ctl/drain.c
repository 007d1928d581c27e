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

#define OF(member) COLUMN_OF(struct rdmabroker_status, member)

static const struct column columns[] = {
	{ NULL, "draining", OF(draining) },
	{ NULL, "connections", OF(n_connections) },
	{ NULL, "handshakes", OF(n_handshakes) },
	{ NULL },
};

/* Handshakes count too, because they can become connections. */
static unsigned count_left(const struct rdmabroker_status *status)
{
	return status->n_connections + status->n_handshakes;
}

static const char *plural(unsigned n)
{
	return n == 1 ? " is" : "s are";
}

/* Waits until no connections are left, until the timeout, or until draining is cancelled. The caller frees the status. */
static struct rdmabroker_status *wait_for_end(const struct ctl *ctl, int64_t timeout_ms)
{
	int64_t begin = now_ms();
	unsigned told = UINT_MAX;

	for (;;) {
		int64_t pause = POLL_MS, until = timeout_ms - (now_ms() - begin);
		struct rdmabroker_status *status;
		unsigned n;

		ctl_check(ctl, rdmabroker_get_status(ctl->session, &status));
		n = count_left(status);
		/* If the daemon is not draining any more, this or another admin has cancelled it. */
		if (n == 0 || !status->draining || (timeout_ms >= 0 && until <= 0))
			return status;
		rdmabroker_free(status);
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

static int print_end(const struct ctl *ctl, const struct rdmabroker_status *status)
{
	unsigned n = count_left(status);

	if (ctl->json)
		print_json(columns, status);
	else if (cancel)
		puts("draining is cancelled");
	else if (!status->draining)
		complain("another admin has cancelled draining: the daemon accepts new work again");
	else if (n > 0)
		complain("%u connection%s left after %s s; draining continues; run "
			 "\"rdmabrokerctl list --connections\" to see them",
			 n, plural(n), timeout);
	else
		puts("drained: no connection is left");
	return cancel || (status->draining && n == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int verb_drain(struct ctl *ctl)
{
	struct rdmabroker_status *status;
	unsigned long seconds = 0;
	int exit_status;

	if (timeout && cancel)
		ctl_misused(ctl, "--timeout cannot be given with --cancel, which does not wait");
	if (timeout && !read_number(timeout, INT_MAX, &seconds))
		ctl_misused(ctl, "invalid timeout \"%s\": it must be a number of seconds", timeout);
	ctl_open_session(ctl, /* as_admin= */ true);
	ctl_check(ctl, rdmabroker_drain(ctl->session, cancel));
	status = wait_for_end(ctl, cancel ? 0 : timeout ? (int64_t)seconds * 1000 : -1);
	exit_status = print_end(ctl, status);
	rdmabroker_free(status);
	return exit_status;
}

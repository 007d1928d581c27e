/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "client/lib/connect/retry.h"
#include "client/lib/event/lifetime.h"
#include "client/lib/event/rejected.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/sessionparts.h"

#define STALE_TRIES 5
#define STALE_PAUSE_MS 10
/* 12 days: with the jitter the delay still fits an int. */
#define RETRY_AFTER_MAX_MS (INT_MAX / 2)

unsigned retry_get_allowed(const struct rdmabroker_id *id, unsigned stale_tries)
{
	return (stale_tries < STALE_TRIES ? RETRY_STALE : 0) |
	       (id->session->flags & RDMABROKER_RETRY_BUSY ? RETRY_BUSY : 0);
}

/* The random delay keeps clients that were rejected together from retrying together. */
static int with_jitter(unsigned ms)
{
	if (ms > RETRY_AFTER_MAX_MS)
		ms = RETRY_AFTER_MAX_MS;
	return (int)(ms + 1 + arc4random_uniform(ms / 4 + 2));
}

int retry_get_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries)
{
	if (r == -EBUSY && id->retries & RETRY_BUSY)
		return with_jitter(rdmabroker_last_failure()->retry_after_ms);
	if (r != -ECONNREFUSED || !id->reject || !rejected_is_retried(id, id->reject))
		return -1;
	if (rejected_is_busy(id->reject))
		return with_jitter(id->reject->retry_after_ms);
	++*stale_tries;
	return STALE_PAUSE_MS;
}

static int set_options(struct rdmabroker_id *id)
{
	int r = 0;

	for (int i = 0; i < IDSTATE_OPTIONS && r == 0; i++)
		if (id->options[i] >= 0)
			r = rdmabroker_set_option(id, idstate_option(i), id->options[i]);
	return r;
}

/*
 * After a reject the kernel's id cannot connect again. A retry needs a new one, with the same options and addresses;
 * the program's id and its QP are kept.
 */
int retry_renew_id(struct rdmabroker_id *id, int64_t deadline)
{
	struct sockaddr_storage local = id->local, peer = id->peer, src = id->src;
	int r;

	lifetime_give_up(id, 0);
	r = lifetime_create(id);
	if (r == 0)
		r = set_options(id);
	if (r == 0 && id->bound)
		r = rdmabroker_bind_addr(id, (struct sockaddr *)&local);
	if (r == 0)
		r = rdmabroker_resolve_wait(
			id, src.ss_family && !id->bound ? (struct sockaddr *)&src : NULL,
			(struct sockaddr *)&peer, deadline_timeout_ms(deadline));
	return r;
}

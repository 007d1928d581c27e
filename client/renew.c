/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "client/internal.h"

/*
 * connect_wait retries after two kinds of reject. Stale: the peer still has an earlier connection of this QP
 * number, whose host or process ended without a disconnect; the peer soon drops it. Busy: the reject says when
 * to retry; only with RDMABROKER_RETRY_BUSY.
 */
#define STALE_TRIES 5
#define STALE_PAUSE_MS 10
/* 12 days: with the jitter added it still fits an int. */
#define RETRY_AFTER_MAX_MS (INT_MAX / 2)

unsigned renews_allowed(const struct rdmabroker_id *id, unsigned stale_tries)
{
	return (stale_tries < STALE_TRIES ? RENEW_STALE : 0) |
	       (id->session->flags & RDMABROKER_RETRY_BUSY ? RENEW_BUSY : 0);
}

static bool is_busy(const struct rdmabroker_event *event)
{
	return event->rejected_by == RDMABROKER_REJECTED_BY_POLICY &&
	       event->reject_code == RDMABROKER_REJECT_BUSY;
}

bool renews_after(const struct rdmabroker_id *id, const struct rdmabroker_event *event)
{
	return (id->renews & RENEW_STALE && event->rejected_by == RDMABROKER_REJECTED_STALE) ||
	       (id->renews & RENEW_BUSY && is_busy(event));
}

/* Adds a random delay, so that clients that were rejected at the same time do not retry at the same time. */
static int with_jitter(unsigned ms)
{
	if (ms > RETRY_AFTER_MAX_MS)
		ms = RETRY_AFTER_MAX_MS;
	return (int)(ms + 1 + arc4random_uniform(ms / 4 + 2));
}

int renew_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries)
{
	struct rdmabroker_failure failure;

	if (r == -EBUSY && id->renews & RENEW_BUSY) {
		rdmabroker_get_failure(id->session, &failure);
		return with_jitter(failure.retry_after_ms);
	}
	if (r != -ECONNREFUSED || !id->reject || !renews_after(id, &id->reject->public))
		return -1;
	if (is_busy(&id->reject->public))
		return with_jitter(id->reject->public.retry_after_ms);
	++*stale_tries;
	return STALE_PAUSE_MS;
}

/*
 * The kernel's id cannot be used again after its connection request was rejected. A retry needs a new one, with the
 * same options and addresses; the program's id and its QP are kept.
 */

static int64_t left(int64_t deadline)
{
	int64_t ms = deadline - now_ms();

	return ms > 0 ? ms : 1;
}

static int set_options(struct rdmabroker_id *id)
{
	int r = 0;

	for (int i = 0; i < 4 && r == 0; i++)
		if (id->options[i] >= 0)
			r = rdmabroker_set_option(id, (enum rdmabroker_option)i, id->options[i]);
	return r;
}

int id_start_over(struct rdmabroker_id *id, int r)
{
	int again;

	rdmabroker_destroy_qp(id);
	id_give_up(id, 0);
	if (id->device)
		device_put(id->session, id->device);
	id->device = NULL;
	id->device_name[0] = 0;
	id->local.ss_family = id->peer.ss_family = AF_UNSPEC;
	id->init.mask = id->rtr.mask = id->rts.mask = 0;
	id->bound = false;
	in_caps(&id->caps, NULL);
	id->local_ece = id->remote_ece = (struct ibv_ece){ 0 };
	again = id_create(id);
	if (again == 0)
		again = set_options(id);
	return again < 0 ? again : r;
}

int id_renew(struct rdmabroker_id *id, int64_t deadline)
{
	struct sockaddr_storage local = id->local, peer = id->peer, src = id->src;
	int r;

	id_give_up(id, 0);
	r = id_create(id);
	if (r == 0)
		r = set_options(id);
	if (r == 0 && id->bound)
		r = rdmabroker_bind_addr(id, (struct sockaddr *)&local);
	if (r == 0)
		r = rdmabroker_resolve_wait(
			id, src.ss_family && !id->bound ? (struct sockaddr *)&src : NULL,
			(struct sockaddr *)&peer, (int)left(deadline));
	return r;
}

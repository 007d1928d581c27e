/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * connect_wait retries after two kinds of reject. Stale: the peer still has an earlier connection of this QP number,
 * whose host or process ended without a disconnect; the peer soon drops that connection. Busy: the broker of the peer
 * or of this host rejects, with the time after which to retry; this is retried only with RDMABROKER_RETRY_BUSY.
 */

#include <stdint.h>

struct rdmabroker_id;

/* The rejects after which a retry is allowed now: bits of enum retry. */
unsigned retry_get_allowed(const struct rdmabroker_id *id, unsigned stale_tries);
/*
 * The delay before a retry, after a connect that failed with R; -1: do not retry. After a stale reject, *STALE_TRIES
 * is incremented.
 */
int retry_get_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries);
/* Replace the broker's id by a new one, set its options, and resolve the address and the route again. */
int retry_renew_id(struct rdmabroker_id *id, int64_t deadline);
/* Reset the id to the state after its creation, with its options. Returns R, or the error of the reset. */
int retry_start_over(struct rdmabroker_id *id, int r);

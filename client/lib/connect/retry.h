/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * connect_wait and connect_to_wait retry after two kinds of reject. Stale: the peer still has an earlier connection
 * of this QP number, for example one whose process ended without a disconnect; the peer drops that connection soon.
 * Busy: the broker of the peer or of this host rejects, with the time after which to retry; this is retried only with
 * RDMABROKER_RETRY_BUSY.
 */

#include <stdint.h>

struct rdmabroker_id;

/*
 * The rejects after which a retry is allowed now, as bits of enum retry. STALE_TRIES: the retries after stale
 * rejects.
 */
unsigned retry_get_allowed(const struct rdmabroker_id *id, unsigned stale_tries);
/*
 * The delay in ms before a retry, after a connect that failed with R; -1: do not retry. After a stale reject that is
 * retried, *STALE_TRIES is incremented.
 */
int retry_get_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries);
/*
 * Replace the broker's id by a new one, with the same options and binding, and resolve the address and route again.
 */
int retry_renew_id(struct rdmabroker_id *id, int64_t deadline);
/* Destroy the QP, and reset the id to a new one that has its options. Returns R, or the error of the reset. */
int retry_start_over(struct rdmabroker_id *id, int r);

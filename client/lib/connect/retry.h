/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * connect_wait retries after two kinds of reject. Stale: the peer still has an earlier connection
 * of this QP number, and soon drops it. Busy: the broker of the peer or of this host rejects for a time; retried only
 * with RDMABROKER_RETRY_BUSY.
 */

#include <stdint.h>

struct rdmabroker_id;

/* The rejects (bits of enum retry) after which a retry is allowed, after STALE_TRIES retries of stale rejects. */
unsigned retry_get_allowed(const struct rdmabroker_id *id, unsigned stale_tries);
/*
 * The delay in ms before a retry, after a connect that failed with R; -1: do not retry. Increments *STALE_TRIES if a
 * stale reject is retried.
 */
int retry_get_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries);
/* Replace the broker's id by a new one with the same options and binding, and resolve the address and route again. */
int retry_renew_id(struct rdmabroker_id *id, int64_t deadline);

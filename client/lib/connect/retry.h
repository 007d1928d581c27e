/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * connect_wait retries after two kinds of reject. Stale: the peer still has an earlier connection of this QP
 * number, whose host or process ended without a disconnect; the peer soon drops it. Busy: the reject says when
 * to retry; only with RDMABROKER_RETRY_BUSY.
 */

#include <stdint.h>

struct rdmabroker_id;

/* enum retry as bits */
unsigned retry_get_allowed(const struct rdmabroker_id *id, unsigned stale_tries);
/* After a connect that failed with R: the delay before a retry; -1: do not retry. */
int retry_get_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries);
/* Replace the broker's id by a new one in the state before connect: with options, and resolved. */
int retry_renew_id(struct rdmabroker_id *id, int64_t deadline);
/* Reset the id to the state after its creation, with its options. Returns R, or the error of the reset. */
int retry_start_over(struct rdmabroker_id *id, int r);

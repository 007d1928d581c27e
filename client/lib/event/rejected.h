/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Finds out which side rejected a connection request and why, and whether connect is retried. */

#include <stdbool.h>

#include "client/lib/event/eventbuf.h"

/* Set rejected_by and the reason in EVENT, a REJECTED, from its status and private data. */
void rejected_explain(struct eventbuf *event);
/* Like rejected_explain(), for the UNREACHABLE event of a failed look-up. */
void rejected_explain_lookup(struct eventbuf *event);

enum retry {
	RETRY_STALE = 1 << 0, /* the peer still has an earlier connection of this QP number */
	RETRY_BUSY = 1 << 1, /* the peer's or this host's broker rejects as busy */
};
bool rejected_is_busy(const struct rdmabroker_event *event);
/* Whether connect is retried after EVENT, so that the QP must not be changed: see rdmabroker_id.retries. */
bool rejected_is_retried(const struct rdmabroker_id *id, const struct rdmabroker_event *event);

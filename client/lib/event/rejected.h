/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Who rejected a connection and why, and whether it is tried again. */

#include <stdbool.h>

#include "client/lib/event/eventbuf.h"

/* Complete EVENT, which is REJECTED. */
void rejected_explain(struct eventbuf *event);
/* Complete EVENT, which is UNREACHABLE: the answer to a look-up of an id for datagrams. */
void rejected_explain_lookup(struct eventbuf *event);

enum retry {
	RETRY_STALE = 1 << 0, /* the peer still has an earlier connection of this QP number */
	RETRY_BUSY = 1 << 1, /* the peer's broker says when to retry */
};
bool rejected_is_busy(const struct rdmabroker_event *event);
/* Whether connect is retried after EVENT with the QP as it is, see rdmabroker_id.retries. */
bool rejected_is_retried(const struct rdmabroker_id *id, const struct rdmabroker_event *event);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Multicast groups: the broker joins the group; the library attaches the QP to it. */

#include <stdbool.h>

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"

/*
 * Join a group; the outcome is an event. WAIT: wait for the broker's reply, at most TIMEOUT_MS, even with
 * RDMABROKER_NONBLOCK.
 */
int multicast_join(struct rdmabroker_id *id, const struct sockaddr *addr, unsigned join_flags,
		   void *context, bool wait, int timeout_ms);
/*
 * Set the join_context of EVENT, the outcome of a join. If the join succeeded, attach the id's QP, unless the id
 * joined as send only. Returns 0, or a positive errno: the QP could not be attached.
 */
int multicast_on_event(struct rdmabroker_id *id, const Rdmabroker__Event *in,
		       struct rdmabroker_event *event);
/* Forget that ID joined the group ADDR, and detach the QP from it. */
void multicast_forget(struct rdmabroker_id *id, const struct sockaddr_storage *addr);
void multicast_detach_all(struct rdmabroker_id *id); /* detach the QP from its groups */
void multicast_free_all(struct rdmabroker_id *id);

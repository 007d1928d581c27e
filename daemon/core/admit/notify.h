/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Sends the events of ids to their owners, and reports them to the sessions that watch. */

#include <rdma/rdma_cma.h>

struct failure;
struct id;
struct session_event;

/* Sends EVENT to ID's owner. A quiet event is only reported to the sessions that watch. */
void notify_event(struct id *id, struct session_event *event);
/* As notify_event(), with no more than this. FAILURE can be NULL. */
void notify_result(struct id *id, enum rdma_cm_event_type type, int status,
		   const struct failure *failure);
/*
 * Sends the client an event of TYPE: a step that the broker began has failed. R is a status that FAILURE explains, or
 * a negative errno.
 */
void notify_failure(struct id *id, enum rdma_cm_event_type type, int r,
		    const struct failure *failure);

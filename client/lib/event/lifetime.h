/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Creates and destroys ids. When an id is destroyed, its queued events are dropped, and the ids of the connection
 * requests among them are destroyed.
 */

#include <stdint.h>

struct rdmabroker;
struct rdmabroker_id;

/* Give ID, which is new or was given up, a number. The next request about ID creates it in the broker. */
int lifetime_create(struct rdmabroker_id *id);
/*
 * Drop ID's events and destroy the broker's id, but keep ID, our struct. TIMEOUT_MS 0: wait only for room in the
 * socket; but for a listener without RDMABROKER_NONBLOCK wait for the broker's reply, with the session's timeout.
 * Otherwise wait for the reply at most TIMEOUT_MS.
 */
int lifetime_give_up(struct rdmabroker_id *id, int timeout_ms);
/* Destroy the broker's id HANDLE, for which there is no struct any more. Waits only for room in the socket. */
void lifetime_give_up_handle(struct rdmabroker *session, uint32_t handle);
/* Free ID, with its QP (unless the program created it), its groups and its events. Sends no request about the id. */
void lifetime_free(struct rdmabroker_id *id);
/* lifetime_free() for all ids of a session that is being closed. */
void lifetime_free_all(struct rdmabroker *session);
/* Destroy the ids of orphans (see queue.h), so that the broker rejects their requests. Call it without the lock. */
void lifetime_end_orphans(struct rdmabroker *session);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Creates and destroys ids. When an id is destroyed, its queued events are dropped, and the ids of connection
 * requests among them are destroyed.
 */

#include <stdint.h>

struct rdmabroker;
struct rdmabroker_id;

/* Give a number to ID, which is new or was given up. The next request about ID creates it in the broker. */
int lifetime_create(struct rdmabroker_id *id);
/*
 * Destroy the broker's id and drop ID's events, but keep the struct ID. TIMEOUT_MS not 0: wait for the reply, at most
 * TIMEOUT_MS. 0: wait only for room in the socket; but for a listener without RDMABROKER_NONBLOCK wait for the reply,
 * with the session's timeout.
 */
int lifetime_give_up(struct rdmabroker_id *id, int timeout_ms);
/* Destroy the broker's id HANDLE, which has no struct here. Waits only for room in the socket. */
void lifetime_give_up_handle(struct rdmabroker *session, uint32_t handle);
/* Free ID, its groups, the events that it keeps, and a QP that the library created. Sends no request about the id. */
void lifetime_free(struct rdmabroker_id *id);
/* lifetime_free() for all ids of a session that is being closed. */
void lifetime_free_all(struct rdmabroker *session);
/*
 * Destroy the ids of orphans (see queue.h), so that the broker rejects their requests. The caller holds the lock, which is
 * released meanwhile.
 */
void lifetime_end_orphans(struct rdmabroker *session);

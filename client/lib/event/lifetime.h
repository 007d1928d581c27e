/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Creates and destroys ids. When an id is destroyed, its queued events are dropped, and the connection requests among
 * them are destroyed.
 */

#include <stdint.h>

struct rdmabroker;
struct rdmabroker_id;

/* Choose a number for ID, which has none. The broker creates the id with the next request about it. */
int lifetime_create(struct rdmabroker_id *id);
/*
 * Destroy the broker's id and free its number, but keep ID, our struct. TIMEOUT_MS 0: do not wait for the broker's
 * answer, except for a listener without RDMABROKER_NONBLOCK.
 */
int lifetime_give_up(struct rdmabroker_id *id, int timeout_ms);
/* Destroy the broker's id HANDLE, for which there is no struct any more. Does not wait for the answer. */
void lifetime_give_up_handle(struct rdmabroker *session, uint32_t handle);
/* Destroy ID's QP and free ID. Sends no request about the id to the broker. */
void lifetime_free(struct rdmabroker_id *id);
/* lifetime_free() for all ids of a session that is being closed. */
void lifetime_free_all(struct rdmabroker *session);
/* Destroy connection requests whose listener is gone, so that the broker rejects them. Call it without the lock. */
void lifetime_end_orphans(struct rdmabroker *session);

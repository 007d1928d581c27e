/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The packet of a request that waits.
 *
 *   received ──> carried out ──it has to wait──> WAITING: nothing else is read from the client
 *                     │  ^                          │
 *                     │  └──────it can go on────────┘
 *                     └──only for the look-up of a QP──> SET ASIDE: requests about other ids are read and carried out
 *
 * A request that is set aside is quiet, and its client learns by an event if it is refused: by then it has perhaps got the
 * reply to a later request, and counts this one as done. What it needs is in the ledger, for the next process. An id has
 * at most one, which its charge covers.
 *
 * A request that must not pass one that is set aside stays BEHIND until that has been carried out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"
#include "util/list.h"

#define KEPT_ASIDES_MAX 16 /* of a session */

struct ledger;
struct ledger_aside;

struct kept {
	struct list link; /* peer.asides; empty: it is WAITING or BEHIND */
	uint32_t handle; /* the id that it is about; 0: none */
	/* of the request, see session_go_on_with(); 0: it begins anew, and asks again what it has asked before */
	uint64_t number;
	bool goes_on; /* it can be carried out again */
	bool repeated; /* a previous process had received it */
	bool was_aside; /* it is or was set aside, so its refusal is an event */
	struct ledger *ledger;
	struct ledger_aside *row; /* NULL: none */
	size_t len;
	uint8_t data[];
};

struct kept *kept_new(const uint8_t *data, size_t len, uint32_t handle, uint64_t number);
/* Takes NULL; returns NULL. */
struct kept *kept_free(struct kept *kept);
/* Puts it into ASIDES. SESSION: the number of its session. False: it cannot be set aside, and has to wait. */
bool kept_set_aside(struct kept *kept, struct list *asides, struct ledger *ledger,
		    uint64_t session);
/* The one in ASIDES about the id HANDLE; NULL: none is. */
struct kept *kept_find(const struct list *asides, uint32_t handle);
/* One in ASIDES that can go on; NULL: none can. */
struct kept *kept_next(const struct list *asides);
/* REQUEST must not pass those in ASIDES: it is about the same id, or ends the session. */
bool kept_blocks(const struct list *asides, const Rdmabroker__Request *request);

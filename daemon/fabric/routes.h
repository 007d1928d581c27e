/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Monitors the host's addresses, links, routes and neighbours. Calls CHANGED when one of them has changed, so
 * that routes resolved before may be out of date. In doubt it calls CHANGED: a needless call only costs
 * resolving again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#define ROUTES_NEIGHBOURS_MAX 1024 /* remembered at most; if one more appears, all are forgotten */

struct routes;

/*
 * CHANGED is called from LOOP, never from within a call. Returns 0, or a negative errno if the kernel's
 * notifications cannot be received.
 */
int routes_new(struct routes **ret, sd_event *loop, void (*changed)(void *userdata),
	       void *userdata);
struct routes *routes_free(struct routes *routes);

/* False once notifications have ended; CHANGED is called one last time when they end. */
bool routes_can_tell(const struct routes *routes);

/* True if a datagram of notifications contains a change, or might. Remembers the neighbours in the datagram. */
bool routes_take(struct routes *routes, const void *datagram, size_t len);

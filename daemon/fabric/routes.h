/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Notifies its user when the host's addresses, links, routes or neighbours change, so that routes resolved before
 * may be out of date. In doubt it notifies: a needless notification only costs resolving again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#define ROUTES_NEIGHBOURS_MAX 1024 /* remembered at most; at one more all are forgotten */

struct routes;

/* CHANGED is called from LOOP, never from within a call. -errno: the kernel's notifications cannot be received. */
int routes_new(struct routes **ret, sd_event *loop, void (*changed)(void *userdata),
	       void *userdata);
struct routes *routes_free(struct routes *routes);

/* False once notifications have ended; CHANGED is called one last time when they end. */
bool routes_can_tell(const struct routes *routes);

/* Whether a datagram of notifications contains a change; the neighbours in it are remembered. */
bool routes_take(struct routes *routes, const void *datagram, size_t len);

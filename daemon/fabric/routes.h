/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Tells when the host's addresses, links, routes or neighbours change, so that what was resolved before
 * may lead elsewhere now. Where it cannot know, it tells: once too often costs resolving again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#define ROUTES_NEIGHBOURS_MAX 1024 /* remembered; one more, and all are forgotten */

struct routes;

/* CHANGED is called from LOOP, never from within a call. -errno where the kernel's notices cannot be had. */
int routes_new(struct routes **ret, sd_event *loop, void (*changed)(void *userdata),
	       void *userdata);
struct routes *routes_free(struct routes *routes);

/* False once the notices have ended, of which CHANGED is the last. */
bool routes_can_tell(const struct routes *routes);

/* Whether a datagram of notices says that something has changed; what it says of neighbours is remembered. */
bool routes_take(struct routes *routes, const void *datagram, size_t len);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The metrics over HTTP, at /metrics. libmicrohttpd implements HTTP, in the exporter's loop.
 *
 * A connection can only delay those that come after it, and these for ten seconds: the number of connections
 * at a time is limited, and each one answers one request, has little memory and ends at its deadline.
 *
 * Requests that come while the broker is being asked, or less than a second after it has answered, share one answer.
 */

#include <systemd/sd-event.h>

#include "sockets.h"

struct http;

/* BROKER: its socket; NULL: the library's default. Returns 0 or a negative errno. SOCKETS must outlive it. */
int http_new(struct http **ret, sd_event *loop, const struct sockets *sockets, const char *broker);
/* If the broker is being asked, the process must end without waiting for it: returns false then. */
bool http_free(struct http *http);

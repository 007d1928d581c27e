/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Serves the metrics over HTTP, at /metrics. libmicrohttpd implements HTTP, in the exporter's event loop.
 *
 * The number of connections is limited. A connection gets little memory, serves one request, and ends at its
 * deadline, ten seconds after its start. So a client that keeps connections open can delay later connections, but
 * not block them for ever.
 *
 * Requests that come while a fetch from the broker is in progress, or less than a second after its end, share one
 * answer.
 */

#include <systemd/sd-event.h>

#include "sockets.h"

struct http;

/*
 * BROKER: the broker's socket; NULL: the library's default. SOCKETS must outlive *RET. Returns 0 or a negative errno.
 */
int http_new(struct http **ret, sd_event *loop, const struct sockets *sockets, const char *broker);
/* False: a fetch is in progress, and the process has to end without waiting for it, see fetch_free(). */
bool http_free(struct http *http);

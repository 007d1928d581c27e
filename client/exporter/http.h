/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Serves the metrics over HTTP, at /metrics. libmicrohttpd implements HTTP, in the exporter's event loop.
 *
 * The number of connections is limited, and each one serves one request and ends after ten seconds at the latest. So
 * a client that keeps connections open cannot block later ones for ever.
 *
 * Requests that come during a fetch from the broker, or within a second after its end, share one answer.
 */

#include <systemd/sd-event.h>

#include "common/sockets.h"

struct http;
struct notifier;
struct site_paths;

/*
 * BROKER: the broker's socket; NULL: the library's default. LOOP, SOCKETS and what SITE has must outlive *RET. Returns 0 or a
 * negative errno.
 */
int http_new(struct http **ret, sd_event *loop, struct notifier *notifier,
	     const struct sockets *sockets, const char *broker, const struct site_paths *site);
/* False: a fetch is in progress, so nothing was freed, and the process has to end without waiting for it. */
bool http_free(struct http *http);

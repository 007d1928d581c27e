/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * MetricsListen=: the metrics over HTTP, at /metrics. libmicrohttpd implements HTTP, in the broker's loop.
 *
 * A connection can only delay those that come after it, and these for ten seconds: the number of connections
 * at a time is limited, and each one answers one request, has little memory and ends at its deadline.
 */

#include <systemd/sd-event.h>

#include "config.h"
#include "core/core.h"

struct http;

/* 0 or a negative errno, logged. CORE must outlive it. */
int http_new(struct http **ret, sd_event *loop, const struct core *core,
	     const struct config_listen *listen);
struct http *http_free(struct http *http);

const char *http_get_address(const struct http *http); /* as it was written */

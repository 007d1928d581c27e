/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * MetricsListen=: what is counted, by HTTP, at /metrics. libmicrohttpd speaks it, in the broker's loop.
 *
 * Whoever connects can hurt nobody but those who connect after him, and them for ten seconds: there are so
 * many connections at a time, each answers one request, has little memory and ends at its deadline.
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

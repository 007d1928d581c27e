/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Fetches the broker's metrics in a separate thread, because the library's calls block. The thread keeps one session,
 * and opens a new one after a failure.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct fetch;

struct fetched {
	char *text; /* complete OpenMetrics text; NULL: the broker did not answer */
	char reason[1024]; /* TEXT NULL: why the broker did not answer, for a person */
};

/*
 * SOCKET: the broker's socket; NULL: the library's default. The event loop calls DONE after each fetch; DONE has to
 * free the text. Returns 0 or a negative errno.
 */
int fetch_new(struct fetch **ret, sd_event *loop, const char *socket,
	      void (*done)(void *userdata, struct fetched *fetched), void *userdata);
/*
 * False: a fetch is in progress, so FETCH was not freed, and the process has to end without waiting for the thread.
 */
bool fetch_free(struct fetch *fetch);
/* False: a fetch is in progress already, or DONE was not yet called for the last one. */
bool fetch_start(struct fetch *fetch);

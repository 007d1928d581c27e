/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Fetches the broker's metrics in a separate thread, because the library's calls wait for the broker. The thread
 * keeps one session, and opens a new one after a failure. The library's timeouts limit the duration of each fetch.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct fetch;

struct fetched {
	char *text; /* complete OpenMetrics text; NULL: the broker did not answer */
	char reason[1024]; /* TEXT NULL: why the broker did not answer, for a person */
};

/*
 * SOCKET: the broker's socket; NULL: the library's default. DONE is called from LOOP after each fetch, and has to
 * free the text. Returns 0 or a negative errno.
 */
int fetch_new(struct fetch **ret, sd_event *loop, const char *socket,
	      void (*done)(void *userdata, struct fetched *fetched), void *userdata);
/*
 * False: a fetch is in progress, which cannot be ended. Then FETCH was not freed, because the thread uses it, and the
 * process has to end without waiting for the thread.
 */
bool fetch_free(struct fetch *fetch);
/* Begins a fetch. False: a fetch is in progress already, or DONE was not called for the last one yet. */
bool fetch_start(struct fetch *fetch);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The broker's metrics, fetched by a thread of its own, because the library's calls wait for the broker. The thread
 * holds one session, and opens a new one when the broker was restarted. Each fetch ends, at the latest after the
 * library's deadlines.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct fetch;

struct fetched {
	char *text; /* OpenMetrics, complete; NULL: the broker did not answer */
	char reason[1024]; /* why not, for a person */
};

/*
 * SOCKET: where the broker listens; NULL: the library's default. DONE is called from LOOP, and owns the text.
 * Returns 0 or a negative errno.
 */
int fetch_new(struct fetch **ret, sd_event *loop, const char *socket,
	      void (*done)(void *userdata, struct fetched *fetched), void *userdata);
/* If a fetch is in progress it is not ended, and the process must end without waiting: returns false then. */
bool fetch_free(struct fetch *fetch);
/* Begins a fetch. False: one is in progress already. */
bool fetch_start(struct fetch *fetch);

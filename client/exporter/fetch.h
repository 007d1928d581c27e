/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Fetches the broker's metrics in a separate thread, because the library's calls block. The thread keeps one session,
 * and opens a new one after a failure.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "common/work.h"

struct fetch {
	struct job job;
	struct work *work;
	const char *socket;
	void (*done)(void *userdata, char *text, const char *reason);
	void *userdata;
	/* Name or uid of the exporter's user, for the rule that an error message suggests. */
	char user[64];
	bool is_running; /* a fetch was begun, and DONE was not called yet */

	/* While it runs, these are the thread's: */
	struct rdmabroker *session; /* NULL: none is open */
	char *text; /* complete OpenMetrics text; NULL: the broker did not answer */
	char reason[1024]; /* TEXT NULL: why the broker did not answer, for a person */
};

/*
 * SOCKET: the broker's socket; NULL: the library's default. The event loop calls DONE after each fetch; DONE has to
 * free TEXT. Returns 0 or a negative errno.
 */
int fetch_init(struct fetch *fetch, sd_event *loop, const char *socket,
	       void (*done)(void *userdata, char *text, const char *reason), void *userdata);
/* False: a fetch is in progress, and the process has to end without waiting for the thread, which uses FETCH. */
bool fetch_done(struct fetch *fetch);
/* False: a fetch is in progress already, or DONE was not yet called for the last one. */
bool fetch_start(struct fetch *fetch);

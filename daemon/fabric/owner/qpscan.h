/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the owners of QPs that have no port. The kernel returns such a QP only in a dump of all QPs, which is
 * expensive. So all look-ups that wait for a device share its next dump. After each dump there is a rest of
 * nine times its duration, so dumps take at most a tenth of the time.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "fabric/owner/qpowner.h"
#include "util/list.h"

struct qpscan;

/* A look-up, embedded in the caller's struct. In use until DONE is called. */
struct qpscan_wait {
	struct list link; /* in qpscan.waiting or qpscan.running */
	const char *device;
	struct qpowner_want want;
	/* called from the loop; ANSWER: as from qpowner_find() */
	void (*done)(struct qpscan_wait *wait, int answer);
};

int qpscan_new(struct qpscan **ret, sd_event *loop);
/*
 * Calls DONE of all look-ups that wait, with -ESHUTDOWN, and returns NULL. If the thread is stuck (see
 * offload_free()), returns SCAN without calling DONE.
 */
struct qpscan *qpscan_free(struct qpscan *scan);

/* A dump that runs already does not answer WAIT; a later one does. */
void qpscan_ask(struct qpscan *scan, struct qpscan_wait *wait);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the owners of QPs that have no port. The kernel does not return such a QP when it is queried by its
 * number, but only in a dump of all QPs of the device. A dump is expensive, because the kernel queries each QP
 * for it. So there is only one dump at a time, all look-ups that wait for the same device share the next one, and
 * after a dump there is a rest of nine times its duration. Thus dumps take at most a tenth of the time, whatever
 * clients do.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "fabric/qpowner.h"
#include "util/list.h"

struct qpscan;

/* A look-up, embedded in its caller's struct. It is in use until DONE is called. */
struct qpscan_wait {
	struct list link; /* in qpscan.waiting or qpscan.running */
	const char *device;
	struct qpowner_want want;
	/* called from the loop; ANSWER: the result, as qpowner_find() returns it */
	void (*done)(struct qpscan_wait *wait, int answer);
};

int qpscan_new(struct qpscan **ret, sd_event *loop);
/*
 * Calls DONE of all look-ups that wait, with -ESHUTDOWN, and returns NULL. If the thread is stuck, see
 * offload_free(), it does not call DONE, and returns SCAN, which stays allocated.
 */
struct qpscan *qpscan_free(struct qpscan *scan);

/* Starts the look-up WAIT. A dump that runs already does not answer it, but a later one does. */
void qpscan_ask(struct qpscan *scan, struct qpscan_wait *wait);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the owners of QPs that have no port. The kernel returns such a QP only in a dump of all QPs, and queries the
 * firmware for each of them, which others feel. So all look-ups that wait for a device share its next dump. After each dump
 * the device has a rest of nine times the duration, so dumps take at most a tenth of its time. Owners share what a dump has
 * cost: one of them alone causes dumps in a twenty-fifth of the time, after some at first that need not wait for that. No
 * device waits for another one.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "fabric/owner/qpowner.h"
#include "util/list.h"

struct qpscan;

/* A look-up, embedded in the caller's struct. In use until DONE is called. */
struct qpscan_wait {
	struct list link; /* of the look-ups that wait, or that the scan answers */
	const char *device;
	uint64_t group; /* who pays, see owner_group() */
	struct qpowner_want want;
	/* called from the loop; ANSWER: as from qpowner_find() */
	void (*done)(struct qpscan_wait *wait, int answer);
};

int qpscan_new(struct qpscan **ret, sd_event *loop);
/*
 * Calls DONE of all look-ups that wait, with a negative errno, and returns NULL. If the thread is stuck (see
 * offload_free()), returns SCAN without calling DONE.
 */
struct qpscan *qpscan_free(struct qpscan *scan);

/* A dump that runs already does not answer WAIT; a later one does. Returns 0 or a negative errno: then WAIT is not in use. */
int qpscan_ask(struct qpscan *scan, struct qpscan_wait *wait);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the owners of QPs that have no port. The kernel does not return such a QP when it is asked for by its
 * number, only in a dump of all QPs of the device, for which the kernel queries each of them. So there is one dump
 * at a time, all look-ups that wait share the next one, and after a dump there is a rest of nine times its
 * duration: whatever clients do, dumps take a tenth of the time at most.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "fabric/qpowner.h"
#include "util/list.h"

struct qpscan;

/* A look-up, as a part of its owner's struct. It is in use until DONE is called. */
struct qpscan_wait {
	struct list link; /* in one of the lists of the scan */
	const char *device;
	struct qpowner_want want;
	void (*done)(struct qpscan_wait *wait,
		     int answer); /* from the loop; ANSWER: as of qpowner_find() */
};

int qpscan_new(struct qpscan **ret, sd_event *loop);
/* Calls DONE of all that wait. Returns NULL, or SCAN if its thread is stuck, see offload_free(). */
struct qpscan *qpscan_free(struct qpscan *scan);

/* The dump that answers WAIT begins after this call. */
void qpscan_ask(struct qpscan *scan, struct qpscan_wait *wait);

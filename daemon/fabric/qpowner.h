/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Finds the process that owns a QP, from the kernel's netlink data. Depends on no other part of the fabric. */

#include <stdint.h>
#include <sys/types.h>

#include "fabric/nldev.h"

/*
 * Returns the result of fabric_qp_belongs(), or -EAGAIN: the QP has no port, so that only qpowner_scan()
 * finds it. Can run in any thread, as long as no other thread uses NL or DEVICE meanwhile. DEVICE is filled in if its
 * n_ports is 0, and renewed if it is out of date.
 */
int qpowner_find(struct nldev *nl, const char *name, struct nldev_device *device, uint32_t qpn,
		 pid_t pid);

/* The data that the kernel reports about a QP. */
struct qpowner_facts {
	uint32_t qpn;
	/* the thread that made the QP; 0: the QP is the kernel's, or the thread has ended */
	uint32_t tid;
	/* numbers of protection domain and context, from 0; UINT32_MAX: not reported */
	uint32_t pdn, ctxn;
};

struct qpowner_want {
	uint32_t qpn;
	pid_t pid;
	int answer; /* the result, as qpowner_find() returns it */
	struct qpowner_facts facts; /* used by qpowner_scan() only */
};

/*
 * Sets ANSWER of all N WANTS from a dump of all QPs of the device, also those that have no port. WANTS must be
 * sorted by qpn. Returns 0, or a negative errno: then the ANSWERs are not valid.
 */
int qpowner_scan(struct nldev *nl, const char *name, struct nldev_device *device,
		 struct qpowner_want **wants, size_t n);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Which process owns a QP, as the kernel reports it. Of the fabric only the name of a device is needed. */

#include <stdint.h>
#include <sys/types.h>

#include "fabric/nldev.h"

/*
 * Returns the result of fabric_qp_belongs(), or -EAGAIN: the QP has no port, so that only qpowner_scan() finds it. May
 * run in any thread: no other thread may use NL or DEVICE meanwhile. DEVICE is filled in if its n_ports is 0, and
 * renewed if it is out of date.
 */
int qpowner_find(struct nldev *nl, const char *name, struct nldev_device *device, uint32_t qpn,
		 pid_t pid);

/* What the kernel reports about a QP. */
struct qpowner_facts {
	uint32_t qpn;
	uint32_t
		tid; /* the thread that made it; 0: the kernel's, or made by a thread that has ended */
	/* numbers of protection domain and context, from 0; UINT32_MAX: not reported */
	uint32_t pdn, ctxn;
};

struct qpowner_want {
	uint32_t qpn;
	pid_t pid;
	int answer; /* the result, as of qpowner_find() */
	struct qpowner_facts facts; /* qpowner_scan()'s own */
};

/*
 * Answers all N WANTS, which are sorted by qpn, from a dump of the device's QPs, whether they have a port or not. 0,
 * or a negative errno: then there are no answers.
 */
int qpowner_scan(struct nldev *nl, const char *name, struct nldev_device *device,
		 struct qpowner_want **wants, size_t n);

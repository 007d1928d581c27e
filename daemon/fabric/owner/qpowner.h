/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Finds the process that owns a QP, from the kernel's netlink data. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/nldev.h"

/*
 * Returns the result of fabric_qp_belongs(), or -EAGAIN: the QP has no port, so only qpowner_scan() finds it.
 * Can run in any thread, if no other thread uses NL or DEVICE meanwhile. DEVICE is renewed if its n_ports is
 * 0 or it is out of date.
 */
int qpowner_find(struct nldev *nl, const char *name, struct nldev_device *device, uint32_t qpn,
		 pid_t pid);

struct qpowner_facts {
	uint32_t qpn;
	/* thread that made the QP; 0: the QP is the kernel's, or the thread has ended */
	uint32_t tid;
	bool is_uverbs, is_xrc_target; /* a program has made it by uverbs; its type */
	/* protection domain and context; UINT32_MAX: not reported */
	uint32_t pdn, ctxn;
};

struct qpowner_want {
	uint32_t qpn;
	pid_t pid;
	int answer; /* the result, as from qpowner_find(), but never -EAGAIN */
	struct qpowner_facts facts; /* used by qpowner_scan() only */
};

/*
 * Sets ANSWER of all N WANTS, from a dump of all QPs of the device, which ends with the last one that is wanted. If it fails,
 * what it has told before counts: one QP whose driver cannot be asked lets it fail for all QPs with greater numbers. WANTS
 * must be sorted by qpn.
 */
void qpowner_scan(const char *name, struct nldev_device *device, struct qpowner_want **wants,
		  size_t n);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Which process owns a QP, as the kernel reports it. Of the fabric only the name of a device is needed. */

#include <stdint.h>
#include <sys/types.h>

#include "fabric/nldev.h"

/*
 * Returns the result of fabric_qp_belongs(), but may run in any thread: no other thread may use NL or DEVICE
 * meanwhile. DEVICE is filled in if its n_ports is 0, and renewed if it is out of date.
 */
int qpowner_find(struct nldev *nl, const char *name, struct nldev_device *device, uint32_t qpn,
		 pid_t pid);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Whose a QP is, as the kernel says. Of the fabric only the name of a device is needed. */

#include <stdint.h>
#include <sys/types.h>

#include "fabric/nldev.h"

/*
 * What fabric_qp_belongs() returns, but it may run in any thread: NL is the caller's own, and so is
 * DEVICE, which is filled in where n_ports is 0, and renewed where it has become wrong.
 */
int qpowner_find(struct nldev *nl, const char *name, struct nldev_device *device, uint32_t qpn,
		 pid_t pid);

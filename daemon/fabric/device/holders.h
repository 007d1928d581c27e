/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Counts connection manager ids by process, and those of the kernel's modules, such as NFS over RDMA, by module, from a
 * RDMA_NLDEV_CMD_RES_CM_ID_GET dump of one device. The dump has only ids that are bound to a device.
 */

#include <libmnl/libmnl.h>

#include "fabric/fabric.h"

struct holders;

int holders_new(struct holders **ret);
struct holders *holders_free(struct holders *holders);

/* Handles one message of the dump. DATA: the struct holders. */
int holders_take(const struct nlmsghdr *header, void *data);
/* The caller frees the result with free(). NULL: out of memory. */
struct fabric_holders *holders_finish(const struct holders *holders);

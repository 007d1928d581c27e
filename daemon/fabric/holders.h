/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Finds the other processes that hold ids of the connection manager on a device. It adds up by process the
 * messages of a RDMA_NLDEV_CMD_RES_CM_ID_GET dump. The dump does not contain ids that are not bound to a
 * device, so a program that merely has rdma_cm open is not found.
 *
 * The kernel's own ids, such as those of NFS, are left out: no rule applies to them, and no program can get
 * hold of them.
 */

#include <libmnl/libmnl.h>

#include "fabric/fabric.h"

struct holders;

int holders_new(struct holders **ret);
struct holders *holders_free(struct holders *holders);

/* Handles one message of the dump; DATA is the struct holders. */
int holders_take(const struct nlmsghdr *header, void *data);
/* Returns the result, which the caller frees with free(); NULL: out of memory. */
struct fabric_holders *holders_finish(const struct holders *holders);

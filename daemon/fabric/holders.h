/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Who besides this process holds ids of the connection manager on a device: what the messages of a
 * RDMA_NLDEV_CMD_RES_CM_ID_GET dump say, added up by process. Ids that are not bound to a device are not
 * in it, and so a program that merely has rdma_cm open is not either.
 *
 * The ids of the kernel itself, such as those of NFS, are left out: no rule would apply to them, and no program
 * can have them.
 */

#include <libmnl/libmnl.h>

#include "fabric/fabric.h"

struct holders;

int holders_new(struct holders **ret);
struct holders *holders_free(struct holders *holders);

/* A message of the dump; DATA is the struct holders. */
int holders_take(const struct nlmsghdr *header, void *data);
/* What was found, which is the caller's to free(); NULL: out of memory. */
struct fabric_holders *holders_finish(const struct holders *holders);

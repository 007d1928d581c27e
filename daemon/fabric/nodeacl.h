/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The ACL of a device's node. It has an entry for each user who may read and write the node. Each call reads
 * and writes the node's inode, which may take a while. Calls must not overlap, so one thread makes them all.
 * They return 0 or a negative errno; -ENODEV: there is no such node.
 */

#include <stdbool.h>
#include <sys/types.h>

int nodeacl_set(const char *node, uid_t uid, bool granted);
/* Removes the entries of all users, if this process owns the node. */
int nodeacl_clear(const char *node);

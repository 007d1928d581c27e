/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The ACL of a device's node: entries of users who may read and write it. Each call reads and writes the node's
 * inode; they are made by one thread, for they must not overlap and may take a while. 0 or a negative errno; -ENODEV:
 * there is no such node.
 */

#include <stdbool.h>
#include <sys/types.h>

int nodeacl_set(const char *node, uid_t uid, bool granted);
/* Takes away the entries of all users, where the node is this process's own. */
int nodeacl_clear(const char *node);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The ACL of a device's node. It has an entry for each user to whom the daemon gives access to the node. Each call
 * reads and writes the node's inode, which can take a while. Calls must not overlap, so one thread makes them all.
 * They return 0 or a negative errno; -ENODEV: there is no such node.
 */

#include <stdbool.h>
#include <sys/types.h>

/* Sets the entry of UID if GRANTED, else removes it. */
int nodeacl_set(const char *node, uid_t uid, bool granted);
/* Removes the entries of all users. If this process does not own the node, or it is missing, does nothing. */
int nodeacl_clear(const char *node);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The ACL of a device's node, with an entry for each user to whom the daemon gives access. A call can take a
 * while. Calls must not overlap, so one thread makes them all. They return 0 or a negative errno; -ENODEV:
 * there is no such node.
 */

#include <stdbool.h>
#include <sys/types.h>

/* If GRANTED, sets the entry of UID, else removes it. */
int nodeacl_set(const char *node, uid_t uid, bool granted);
/*
 * Removes the entries of all users. Does nothing if this process does not own the node, or if the node is
 * missing.
 */
int nodeacl_clear(const char *node);

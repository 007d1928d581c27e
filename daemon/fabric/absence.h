/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Explains why RDMA cannot be used on this host and what an admin can do about it: a kernel module is not
 * loaded, a device does not exist, a device node is missing or the daemon cannot open it. The text is for
 * the journal and the status only. Nothing else depends on it, because the fabric uses modules and devices as
 * they appear.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * True: RET gets a sentence without a full stop, cut to SIZE. False: nothing is missing, as far as /sys and /dev
 * show. ROOT is prepended to the paths in /sys and /dev; only tests use one that is not "".
 */
bool absence_explain(const char *root, char *ret, size_t size);

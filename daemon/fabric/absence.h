/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Why RDMA cannot be used on this host, and what an admin can do about it: the kernel module that is not loaded, the
 * device that is not there, the node that is missing or not ours. For the journal and the status; nothing depends on it,
 * for the fabric takes up what appears.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * RET is a sentence without its full stop, cut to SIZE. False: nothing is missing that can be seen in /sys and /dev.
 * ROOT is put before both: "" but in tests.
 */
bool absence_explain(const char *root, char *ret, size_t size);

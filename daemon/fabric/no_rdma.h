/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Explains to an admin why RDMA cannot be used on this host. A kernel module, device or device node can be
 * missing, or the daemon cannot open a node. The text is for the journal and the status.
 */

#include <stdbool.h>
#include <stddef.h>

/*
 * True: RET gets a sentence without a full stop, cut to SIZE. False: /sys and /dev show nothing that is
 * missing. ROOT is prepended to the paths, for tests; the daemon passes "".
 */
bool no_rdma_explain(const char *root, char *ret, size_t size);
/*
 * True: DEVICE, of iWARP, has TCP ports of its own, which only the port mapper (iwpmd) tells the host's TCP, and the mapper's
 * service does not run. Soft devices use the host's TCP itself.
 */
bool no_rdma_lacks_port_mapper(const char *root, const char *device);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The device nodes of RDMA. udev gives them to the daemon's user (90-rdmabroker.rules), unless they are open: then they stay
 * as the distribution has them, and programs can use RDMA without the broker.
 */

/* If this file exists, the nodes are open. It sets the property for which 90-rdmabroker.rules looks. */
#define NODES_OPEN_FOLDER "/etc/udev/rules.d"
#define NODES_OPEN_NAME "89-rdmabroker-open.rules"
#define NODES_OPEN_FILE NODES_OPEN_FOLDER "/" NODES_OPEN_NAME

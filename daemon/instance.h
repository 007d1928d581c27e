/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Instances of the daemon in other network namespaces. The ids of the connection manager belong to the network
 * namespace of the process that makes them, so each namespace needs a daemon of its own.
 *
 *   initial instance             owns the nodes of the devices, and changes their ACLs
 *      ^ rpc/upstream.h
 *   instance NAME                serves /run/rdmabroker@NAME/rdmabroker.sock with rdmabrokerd.conf, and on top of it
 *                                rdmabrokerd@NAME.conf
 */

#include <stdbool.h>

struct config;
struct diag;

#define INSTANCE_NAME_MAX 29 /* bytes; the paths of sockets are short */

/* True: NAME has letters, digits, '_', '-' and '.', and does not begin with '.'. */
bool instance_is_name(const char *name);
/*
 * Adds to CONFIG, which was read from PATH, what is different for the instance NAME. Returns 0 or a negative errno: see
 * DIAG.
 */
int instance_configure(struct config *config, const char *path, const char *name,
		       struct diag *diag);

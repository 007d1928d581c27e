/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Writes specifications of the Container Device Interface, version 0.5.0, which podman, containerd, CRI-O and Docker
 * read: https://github.com/cncf-tags/container-device-interface
 *
 *   rdmabroker/rdma=NAME   an RDMA device: its node and the broker's socket; NAME "all": all devices
 *   rdmabroker/node=NAME   only its node, for a container that gets another socket, see `rdmabrokerctl restrict`
 *   rdmabroker/dropin=all  the drop-in for librdmacm, preloaded into each program of the container
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CDISPEC_RDMA "rdmabroker/rdma"
#define CDISPEC_NODE "rdmabroker/node"
#define CDISPEC_DROPIN "rdmabroker/dropin"

struct cdispec_device {
	char name[64]; /* of the RDMA device: "mlx5_0" */
	char node[64]; /* "/dev/infiniband/uverbs0" */
};

struct cdispec_library {
	const char *name; /* its name in the container, without the folder */
	char path[PATH_MAX]; /* on the host */
};

/* False: the specification cannot have a device of this name, for example because "all" stands for all devices. */
bool cdispec_is_name(const char *name);
/* There must be a device. SOCKET is the path of the broker's socket; NULL: the specification has only the nodes. */
void cdispec_print_rdma(FILE *file, const struct cdispec_device *devices, size_t n,
			const char *socket);
/* LIBRARIES are preloaded in this order. */
void cdispec_print_dropin(FILE *file, const struct cdispec_library *libraries, size_t n);

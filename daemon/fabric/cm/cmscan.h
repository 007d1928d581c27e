/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The connection manager's ids that have got the number of a QP, by a connect or an accept, as netlink reports them at
 * one time. Does not depend on the fabric.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "proto/nldev.h"

struct cmscan;

int cmscan_new(struct cmscan **ret);
struct cmscan *cmscan_free(struct cmscan *scan);
/*
 * Adds the ids of DEVICE. Returns 0 or a negative errno. If ids are destroyed meanwhile, the kernel can leave out
 * others.
 */
int cmscan_add(struct cmscan *scan, struct nldev *nl, const struct nldev_device *device);
/* PS 0: any port space. */
bool cmscan_has(const struct cmscan *scan, enum rdma_port_space ps,
		const struct sockaddr_storage *local, const struct sockaddr_storage *peer);

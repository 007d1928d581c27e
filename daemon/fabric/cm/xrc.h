/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Ids for connections of XRC QPs. The kernel has to know of it when it makes the id, and librdmacm tells it only in
 * rdma_create_ep(), which also binds the id. So the id that librdmacm makes first is replaced by another one when it is
 * bound.
 */

#include <sys/socket.h>

struct fabric_id;

/*
 * Binds ID, whose qp_type is one of XRC, to ADDR; its options are not set any more then. Returns 0 or a negative errno. -EOPNOTSUPP: REUSEADDR or AFONLY is set,
 * which cannot be set before the bind.
 */
int xrc_bind(struct fabric_id *id, const struct sockaddr *addr);

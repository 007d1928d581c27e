/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Ids for QPs of another type than the port space's: XRC, UC, UD. The kernel has to know the type when it makes the id, and
 * librdmacm tells it only in rdma_create_ep(), which also binds the id. So the id that librdmacm makes first is replaced by another one when it is
 * bound.
 */

#include <sys/socket.h>

struct fabric_id;

/*
 * Binds ID, which has a qp_type, to ADDR; its options are not set any more then. Returns 0 or a negative errno. -EOPNOTSUPP:
 * REUSEADDR or AFONLY is set, which cannot be set before the bind.
 */
int typed_bind(struct fabric_id *id, const struct sockaddr *addr);

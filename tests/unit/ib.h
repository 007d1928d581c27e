/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The two programs of ends.h on InfiniBand, which the fake fabric plays. */

#include <rdma/rdma_cma.h>
#include <stdint.h>

#define IB_PORT 7480

/* The daemon has these rules from now on. */
void put_policy(const char *rules);
void set_up_ib(void);

/* The GID of this host, as an address of AF_IB. SID: of any port space. */
struct sockaddr *ib_addr(uint64_t sid, uint64_t mask);
struct sockaddr *tcp_on(uint16_t port);

void expect_own_gid(const union ibv_gid *gid);
void expect_own_gids(const struct rdma_cm_id *id);

/* The client has a new id; its address is resolved, by IP or in the partition PKEY. */
void create(void);
void resolve_ip(void);
void resolve_in(uint16_t pkey);

struct rdma_cm_id *listen_on(struct sockaddr *address);
/* The next event of the client. */
void expect_event(enum rdma_cm_event_type type, int status);
struct sockaddr *in_partition(struct sockaddr *address, uint16_t pkey);

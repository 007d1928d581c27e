/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The pool of spares: ids whose address and route were resolved in advance, for the destinations of recent
 * planned connects. A planned connect is one that the client requests together with the resolution (struct plan in
 * resolve.h). If a later planned connect to such a destination finds a spare that suits it, it takes the spare, and
 * nothing has to be resolved.
 *
 *   pool ── dest, dest, ...    a destination: port space, source and destination address as requested
 *             └── spare, ...   an id of the connection manager that has a route, and no owner yet
 *
 * A spare holds only the kernel's resolution, and no decision of policy: each connect is decided when it is
 * requested. All spares are dropped when an address, a route or a neighbour changes, or a device is removed. Besides,
 * each spare is dropped when it gets old, so that no client gets a route that was resolved long ago. Spares are made
 * when the loop is idle and no connection is being made. If some connection is always being made, spares are made
 * nevertheless after the next tick of the pool's clock. A destination gets one spare for each planned connect that
 * recently found no spare, up to POOL_DEPTH. The settings limit the number of spares, so the worst that a client can
 * do is to displace the spares of other clients.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/fabric.h"

struct core;
struct pool;
struct spare;

#define POOL_DESTS 64
#define POOL_DEPTH 16 /* at most this many spares for one destination */
#define POOL_KEEP_MS 10000 /* the daemon drops spares of this age */

/* The destination of a spare: port space, source and destination address. */
struct pool_key {
	enum rdma_port_space ps;
	struct sockaddr_storage src; /* ss_family 0: any; its port is 0 */
	struct sockaddr_storage dst;
};

struct pool_counts {
	unsigned n_ready;
	uint64_t n_taken;
	uint64_t n_missed; /* planned connects that were sent without a spare */
	uint64_t n_dropped; /* spares that were dropped before a client took them */
};

int pool_new(struct pool **ret, struct core *core); /* makes no spares until pool_set_limits() */
struct pool *pool_free(struct pool *pool);
/*
 * The pool has at most MAX spares at a time; 0: it makes none and gives out none. If the fabric does not monitor
 * routes, MAX counts as 0. Spares older than KEEP_MS are dropped; their age is checked every KEEP_MS / 10.
 */
void pool_set_limits(struct pool *pool, unsigned max, unsigned keep_ms);

/* A spare that is ready; NULL: there is none. It stays in the pool. */
struct spare *pool_find(struct pool *pool, const struct pool_key *key);
struct fabric_id *spare_get_fabric(const struct spare *spare);
/* The TOS that the route of SPARE was resolved with; -1: the kernel's default. */
int spare_get_tos(const struct spare *spare);
const struct ibv_qp_attr *spare_get_init(const struct spare *spare); /* QP attributes for INIT */

/*
 * Removes SPARE from the pool: the caller owns the returned id. The pool makes another spare, unless the destination
 * wants no more.
 */
struct fabric_id *pool_take(struct pool *pool, struct spare *spare);
/*
 * To be called when a planned connect to KEY was sent without a spare. TOS is the TOS that the route of this connect
 * was resolved with. The pool makes a spare for the next connect, unless another destination occupies KEY's slot.
 */
void pool_miss(struct pool *pool, const struct pool_key *key, int tos);

/* To be called when the last handshake, or the opening of devices, has ended: a pool that waited makes spares now. */
void pool_on_quiet(struct pool *pool);

/* To be called when an address, a route or a neighbour has changed, or a device was removed: drops all spares. */
void pool_on_change(struct pool *pool);
void pool_flush(struct pool *pool);

void pool_get_counts(const struct pool *pool, struct pool_counts *ret);

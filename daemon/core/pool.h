/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Spare ids: addresses and routes resolved ahead, for the destinations that were connected to lately. A
 * client that connects there again gets one, and goes without resolving.
 *
 *   pool ── dest, dest, ...    where to: port space, source, destination, as asked for
 *             └── spare, ...   an id of the connection manager, with a route; nobody's yet
 *
 * A spare holds what the kernel said of the way there, and nothing of policy: over each connect is decided
 * when it is asked for, as ever. All are dropped when an address, a route, a neighbour or a device changes,
 * and each when it gets old, so that what it says is never much older than what a client would be told.
 * They are made when the daemon has nothing else to do and no connection is being made, or a while after
 * that, as many for a destination as were missed there lately. What clients do is bounded by the settings,
 * and costs others nothing but their spares.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/fabric.h"

struct core;
struct pool;
struct spare;

#define POOL_DESTS 64
#define POOL_DEPTH 16 /* spares for one destination */
#define POOL_KEEP_MS 10000 /* after that they are old */

/* What a spare is for. */
struct pool_key {
	enum rdma_port_space ps;
	struct sockaddr_storage src; /* ss_family 0: any; its port is 0 */
	struct sockaddr_storage dst;
};

struct pool_counts {
	unsigned n_ready;
	uint64_t n_taken;
	uint64_t n_missed; /* there was none */
	uint64_t n_dropped; /* without having been taken: too old, or no longer true */
};

int pool_new(struct pool **ret, struct core *core); /* of none, until it is said how many */
struct pool *pool_free(struct pool *pool);
/*
 * At most MAX spares at a time; 0: none are made, none are given out. They are old after KEEP_MS, which is
 * looked at each tenth of it.
 */
void pool_set_limits(struct pool *pool, unsigned max, unsigned keep_ms);

/* One that is ready, with what it was resolved to; NULL: there is none. It stays the pool's. */
struct spare *pool_find(struct pool *pool, const struct pool_key *key);
struct fabric_id *spare_get_fabric(const struct spare *spare);
int spare_get_tos(
	const struct spare *spare); /* that its route was resolved with; -1: the kernel's */
const struct ibv_qp_attr *spare_get_init(const struct spare *spare); /* of its QP, for INIT */

/* SPARE's id is the caller's from now on, and one more will be made. */
struct fabric_id *pool_take(struct pool *pool, struct spare *spare);
/* A connection is made over KEY's way, resolved with TOS, for want of a spare: the next one is to have it. */
void pool_miss(struct pool *pool, const struct pool_key *key, int tos);

/* No connection is being made now: there is time to make spares. */
void pool_on_quiet(struct pool *pool);

/* What was resolved may not be true any more. */
void pool_on_change(struct pool *pool);
void pool_flush(struct pool *pool);

void pool_get_counts(const struct pool *pool, struct pool_counts *ret);

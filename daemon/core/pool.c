/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/pool.h"
#include "proto/addr.h"
#include "util/clock.h"
#include "util/util.h"

#define RESOLVE_MS 1000

struct dest {
	struct pool_key key;
	int tos;
	struct list spares; /* spare.link, the oldest first */
	unsigned n_spares;
	unsigned n_wanted;
	uint64_t used_ms; /* time of its last pool_take() or pool_miss(); 0: the slot is free */
};

struct spare {
	struct list link;
	struct pool *pool;
	struct dest *dest;
	struct fabric_id *fabric;
	int tos;
	struct ibv_qp_attr init;
	uint64_t since_ms;
	bool ready;
};

struct pool {
	struct core *core;
	sd_event_source *filler; /* makes spares when the loop is idle */
	/*
	 * the filler has stopped, because a connection was being made or devices were being opened; pool_on_quiet()
	 * or the next tick of the clock starts it again
	 */
	bool waits;
	/* the clock has ticked while the filler was stopped: it makes spares even while connections are being made */
	bool late;
	sd_event_source *clock; /* a timer, runs while a destination is in use */
	unsigned max;
	unsigned keep_ms, tick_ms;
	unsigned n_spares; /* all spares, ready or not */
	struct pool_counts counts;
	struct dest dests[POOL_DESTS];
};

static bool is_same(const struct pool_key *a, const struct pool_key *b)
{
	return a->ps == b->ps && memcmp(&a->dst, &b->dst, sizeof(a->dst)) == 0 &&
	       memcmp(&a->src, &b->src, sizeof(a->src)) == 0;
}

/*
 * Each destination has only one possible slot, which a hash of its port space and address gives. If another
 * destination has the slot, the new one gets it once the other has not been used for a tick.
 */
static struct dest *place_of(struct pool *pool, const struct pool_key *key)
{
	const uint8_t *p = (const uint8_t *)&key->dst;
	uint32_t hash = 2166136261u ^ (uint32_t)key->ps;

	for (socklen_t i = 0; i < addr_len((const struct sockaddr *)&key->dst); i++)
		hash = (hash ^ p[i]) * 16777619u;
	return &pool->dests[(hash ^ hash >> 16) % POOL_DESTS];
}

static struct dest *find_dest(struct pool *pool, const struct pool_key *key)
{
	struct dest *dest = place_of(pool, key);

	return dest->used_ms && is_same(&dest->key, key) ? dest : NULL;
}

static void spare_free(struct spare *spare)
{
	struct pool *pool = spare->pool;

	fabric_id_free(spare->fabric);
	list_remove(&spare->link);
	spare->dest->n_spares--;
	pool->n_spares--;
	pool->counts.n_ready -= spare->ready;
	free(spare);
}

static void spare_drop(struct spare *spare)
{
	spare->pool->counts.n_dropped++;
	spare_free(spare);
}

static void dest_clear(struct dest *dest)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &dest->spares)
		spare_drop(container_of(l, struct spare, link));
	dest->n_wanted = 0;
	dest->used_ms = 0;
}

/*
 * Drops SPARE, which could not be resolved or has become invalid. No more spares are made for its destination until a
 * client's connect had to resolve the destination itself. So the client gets the error.
 */
static void give_up(struct spare *spare)
{
	struct dest *dest = spare->dest;

	spare_drop(spare);
	dest->n_wanted = 0;
}

static void on_event(void *userdata, struct fabric_event *event)
{
	struct spare *spare = userdata;
	int mask, r;

	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (fabric_id_resolve_route(spare->fabric, RESOLVE_MS) < 0)
			give_up(spare);
		return;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		spare->init.qp_state = IBV_QPS_INIT;
		r = fabric_id_qp_attr(spare->fabric, IBV_QPS_INIT, &spare->init, &mask);
		if (r < 0) {
			give_up(spare);
			return;
		}
		spare->ready = true;
		spare->pool->counts.n_ready++;
		return;
	default:
		/* The spare could not be resolved, or its device or its address is gone. */
		give_up(spare);
	}
}

static void run(sd_event_source *source, bool run)
{
	sd_event_source_set_enabled(source, run ? SD_EVENT_ON : SD_EVENT_OFF);
}

static int make_spare(struct pool *pool, struct dest *dest)
{
	const struct sockaddr *src = (struct sockaddr *)&dest->key.src;
	struct core *core = pool->core;
	struct spare *spare;
	int r;

	spare = calloc(1, sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	spare->pool = pool;
	spare->dest = dest;
	spare->tos = dest->tos;
	spare->since_ms = clock_ms();
	list_insert(&dest->spares, &spare->link);
	dest->n_spares++;
	pool->n_spares++;
	r = fabric_id_new(&spare->fabric, core->fabric, core->account.own, dest->key.ps, on_event,
			  spare);
	if (r == 0 && spare->tos >= 0)
		r = fabric_id_set_option(spare->fabric, RDMA_OPTION_ID_TOS, spare->tos);
	if (r == 0)
		r = fabric_id_resolve_addr(spare->fabric, src->sa_family ? src : NULL,
					   (struct sockaddr *)&dest->key.dst, RESOLVE_MS);
	if (r < 0)
		spare_free(spare);
	return r;
}

/*
 * Makes at most one spare in each call, so that a client whose request arrives meanwhile waits for one spare at most.
 * While devices are being opened no spare is made, because that would return -EINPROGRESS. During a handshake no
 * spare is made unless LATE is set, because making the spare would delay the handshake.
 */
static int on_idle(sd_event_source *source, void *userdata)
{
	struct pool *pool = userdata;

	if ((pool->core->n_handshakes > 0 && !pool->late) ||
	    fabric_is_opening(pool->core->fabric)) {
		pool->waits = true;
		run(source, false);
		return 0;
	}
	for (struct dest *dest = pool->dests; dest < pool->dests + POOL_DESTS; dest++) {
		if (dest->n_spares >= dest->n_wanted || pool->n_spares >= pool->max)
			continue;
		if (make_spare(pool, dest) < 0)
			dest->n_wanted = 0;
		return 0;
	}
	pool->late = false;
	run(source, false);
	return 0;
}

static void tick_later(struct pool *pool)
{
	sd_event_source_set_time_relative(pool->clock, pool->tick_ms * 1000ULL);
	sd_event_source_set_enabled(pool->clock, SD_EVENT_ONESHOT);
}

/* A running clock is not restarted: if it were, frequent calls would keep it from ever ticking. */
static void start_clock(struct pool *pool)
{
	if (sd_event_source_get_enabled(pool->clock, NULL) == 0)
		tick_later(pool);
}

/*
 * Drops the spares that have got too old, and reduces the destination's number of wanted spares by one for each of
 * them. Drops the destinations that are no longer used. If the filler waits, starts it.
 */
static int on_clock(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pool *pool = userdata;
	uint64_t now = clock_ms();
	bool is_used = false;
	struct list *l, *n;

	(void)source;
	(void)usec;
	for (struct dest *dest = pool->dests; dest < pool->dests + POOL_DESTS; dest++) {
		if (!dest->used_ms)
			continue;
		list_for_each_safe(l, n, &dest->spares) {
			struct spare *spare = container_of(l, struct spare, link);

			if (now - spare->since_ms < pool->keep_ms)
				break;
			spare_drop(spare);
			dest->n_wanted -= dest->n_wanted > 0;
		}
		if (now - dest->used_ms >= pool->keep_ms)
			dest_clear(dest);
		else
			is_used = true;
	}
	/* A handshake whose peer does not answer must not keep the filler from making spares. */
	pool->late = pool->waits;
	pool_on_quiet(pool);
	if (is_used)
		start_clock(pool);
	return 0;
}

DEFINE_CLEANUP(struct pool *, pool_free)

int pool_new(struct pool **ret, struct core *core)
{
	_cleanup_(pool_freep) struct pool *pool = calloc(1, sizeof(*pool));
	int r;

	if (!pool)
		return -ENOMEM;
	pool->core = core;
	for (int i = 0; i < POOL_DESTS; i++)
		list_init(&pool->dests[i].spares);
	r = sd_event_add_defer(core->loop, &pool->filler, on_idle, pool);
	if (r >= 0)
		r = sd_event_source_set_priority(pool->filler, SD_EVENT_PRIORITY_IDLE);
	if (r >= 0)
		r = sd_event_source_set_enabled(pool->filler, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time_relative(core->loop, &pool->clock, CLOCK_MONOTONIC, 0, 0,
					       on_clock, pool);
	if (r >= 0)
		r = sd_event_source_set_enabled(pool->clock, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(pool);
	return 0;
}

struct pool *pool_free(struct pool *pool)
{
	if (!pool)
		return NULL;
	pool_flush(pool);
	sd_event_source_disable_unref(pool->filler);
	sd_event_source_disable_unref(pool->clock);
	free(pool);
	return NULL;
}

void pool_set_limits(struct pool *pool, unsigned max, unsigned keep_ms)
{
	pool->keep_ms = keep_ms;
	pool->tick_ms = keep_ms / 10;
	if (sd_event_source_get_enabled(pool->clock, NULL) > 0)
		tick_later(pool);
	pool->max = fabric_knows_routes(pool->core->fabric) ? max : 0;
	if (pool->n_spares > pool->max)
		pool_flush(pool);
}

struct spare *pool_find(struct pool *pool, const struct pool_key *key)
{
	struct dest *dest = find_dest(pool, key);
	struct list *l;

	if (!dest)
		return NULL;
	list_for_each(l, &dest->spares) {
		struct spare *spare = container_of(l, struct spare, link);

		if (spare->ready)
			return spare;
	}
	return NULL;
}

struct fabric_id *spare_get_fabric(const struct spare *spare)
{
	return spare->fabric;
}

int spare_get_tos(const struct spare *spare)
{
	return spare->tos;
}

const struct ibv_qp_attr *spare_get_init(const struct spare *spare)
{
	return &spare->init;
}

struct fabric_id *pool_take(struct pool *pool, struct spare *spare)
{
	struct fabric_id *fabric = TAKE_PTR(spare->fabric);

	spare->dest->used_ms = clock_ms();
	pool->counts.n_taken++;
	spare_free(spare);
	run(pool->filler, true);
	return fabric;
}

void pool_miss(struct pool *pool, const struct pool_key *key, int tos)
{
	struct dest *dest = place_of(pool, key);
	uint64_t now = clock_ms();

	pool->counts.n_missed++;
	if (pool->max == 0)
		return;
	if (dest->used_ms && (!is_same(&dest->key, key) || dest->tos != tos)) {
		if (now - dest->used_ms < pool->tick_ms)
			return;
		dest_clear(dest);
	}
	dest->key = *key;
	dest->tos = tos;
	dest->used_ms = now;
	if (dest->n_wanted < POOL_DEPTH)
		dest->n_wanted++;
	run(pool->filler, true);
	start_clock(pool);
}

void pool_on_quiet(struct pool *pool)
{
	if (!pool->waits)
		return;
	pool->waits = false;
	run(pool->filler, true);
}

void pool_on_change(struct pool *pool)
{
	/*
	 * The cause of this call can be that the fabric no longer monitors routes. Then spares would get out of
	 * date unnoticed, so keep none.
	 */
	if (!fabric_knows_routes(pool->core->fabric))
		pool->max = 0;
	pool_flush(pool);
}

void pool_flush(struct pool *pool)
{
	for (struct dest *dest = pool->dests; dest < pool->dests + POOL_DESTS; dest++)
		dest_clear(dest);
	pool->waits = pool->late = false;
	run(pool->filler, false);
}

void pool_get_counts(const struct pool *pool, struct pool_counts *ret)
{
	*ret = pool->counts;
}

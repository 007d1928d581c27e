/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/bind.h"
#include "core/conn.h"
#include "core/decide.h"
#include "core/id.h"
#include "core/notify.h"
#include "core/pool.h"
#include "core/qpcheck.h"
#include "core/renew.h"
#include "core/resolve.h"
#include "core/settings.h"
#include "core/wait.h"
#include "core/wish.h"
#include "proto/addr.h"
#include "util/clock.h"
#include "util/util.h"

/*
 * Resolves the peer's address and the route, and starts the connect that the client requested together with
 * the resolve (the plan). Instead of resolving, such a connect can use a spare: a resolved id from the pool.
 */

/*
 * The kernel can miss a neighbour's reply that comes after it has checked the neighbour entry and before it
 * sleeps. Then it sleeps until its timeout. Therefore the broker makes several attempts, each of this length at most.
 */
#define RESOLVE_SLICE_MS 1000

static unsigned cap_timeout(struct id *id, unsigned timeout_ms)
{
	unsigned cap = id->session->core->settings.resolve_timeout_ms;

	return timeout_ms == 0 || timeout_ms > cap ? cap : timeout_ms;
}

static int resolve_slice(struct id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	uint64_t left = id->resolve_until_ms - clock_ms();

	return fabric_id_resolve_addr(id->fabric, src, dst,
				      left < RESOLVE_SLICE_MS ? (int)left : RESOLVE_SLICE_MS);
}

int resolve_start(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		  unsigned timeout_ms)
{
	int r;

	id->resolve_until_ms = clock_ms() + cap_timeout(id, timeout_ms);
	r = resolve_slice(id, src, dst);
	if (r == 0)
		id_set_state(id, ID_ADDR_QUERY);
	return r;
}

unsigned resolve_get_left_ms(const struct id *id)
{
	uint64_t now = clock_ms();

	return id->resolve_until_ms > now ? (unsigned)(id->resolve_until_ms - now) : 1;
}

bool resolve_again(struct id *id, int status)
{
	struct fabric_id_info info;

	if (id->state != ID_ADDR_QUERY || status != -ETIMEDOUT ||
	    clock_ms() >= id->resolve_until_ms)
		return false;
	fabric_id_get_info(id->fabric, &info);
	return resolve_slice(id, NULL, (struct sockaddr *)&info.peer) == 0;
}

static struct plan *free_plan(struct plan *plan)
{
	free(plan);
	return NULL;
}

static bool leads_to(const struct plan *plan, const struct fabric_id_info *info,
		     const struct ibv_qp_attr *init)
{
	return info->device && strcmp(plan->device, info->device) == 0 &&
	       plan->port_num == info->port_num && plan->pkey_index == init->pkey_index;
}

bool resolve_keeps_plan(struct id *id, const struct ibv_qp_attr *init)
{
	struct fabric_id_info info;

	if (!id->plan)
		return false;
	fabric_id_get_info(id->fabric, &info);
	if (leads_to(id->plan, &info, init))
		return true;
	id->plan = free_plan(id->plan);
	return false;
}

static int make_plan(struct id *id, const struct plan *plan, const struct pool_key *key)
{
	id->plan = malloc(sizeof(*id->plan));
	if (!id->plan)
		return -ENOMEM;
	*id->plan = *plan;
	if (plan->param.private_data) {
		memcpy(id->plan->private_data, plan->param.private_data,
		       plan->param.private_data_len);
		id->plan->param.private_data = id->plan->private_data;
	}
	id->plan->go_on = resolve_go_on;
	id->plan->has_key = key != NULL;
	if (key)
		id->plan->key = *key;
	return 0;
}

/*
 * True: if RULE decides about the id, the id can use the route of a spare that was resolved with TOS. The id's TOS
 * and the rule's ACK timeout become part of a route, and spares are resolved without an ACK timeout.
 */
static bool suits_rule(const struct id *id, const struct policy_rule *rule, int tos)
{
	return settings_choose_tos(id, rule) == tos && rule->settings.ack_timeout < 0;
}

/*
 * Connects as planned, and frees the plan. If the owner of the QP has to be looked up first, the plan is kept, and
 * follow_plan() is called again when the owner is known.
 */
static void follow_plan(struct id *id)
{
	struct failure failure;
	struct plan *plan = id->plan;
	int r = conn_connect_planned(id, &plan->param, &plan->local_ece, &failure);

	if (r == -EINPROGRESS)
		return;
	if (r == 0 && plan->has_key && suits_rule(id, id->rule, id->tos))
		pool_miss(id->session->core->pool, &plan->key, id->tos);
	id->plan = free_plan(plan);
	if (r != 0)
		notify_failure(id, RDMA_CM_EVENT_CONNECT_ERROR, r, &failure);
}

/*
 * Decides as if the id had taken SPARE already. SPARE stays in the pool. *RET_SUITS false: SPARE cannot be used, and
 * the function returns 0.
 */
static int decide_over_spare(struct id *id, const struct spare *spare, const struct plan *plan,
			     struct policy_verdict *ret_verdict, bool *ret_suits,
			     struct failure *failure)
{
	struct fabric_id_info info;
	struct id_wish wish;
	int r = 0;

	id->fabric = spare_get_fabric(spare);
	fabric_id_get_info(id->fabric, &info);
	wish_to_connect(&wish, id);
	decide_ask(id->session, &wish.wish, ret_verdict);
	*ret_suits = leads_to(plan, &info, spare_get_init(spare)) &&
		     (ret_verdict->answer != POLICY_ALLOW ||
		      suits_rule(id, ret_verdict->rule, spare_get_tos(spare)));
	/*
	 * Check the QP before decide_connect() counts the decision, because this function is called again if the
	 * result of the check comes later.
	 */
	if (*ret_suits)
		r = qpcheck_run(id, plan->device, plan->param.qp_num, failure);
	if (*ret_suits && r == 0 && ret_verdict->answer == POLICY_ALLOW)
		r = qpcheck_by_rule(id, ret_verdict->rule, failure);
	if (*ret_suits && r == 0)
		r = decide_connect(id, /* early= */ false, NULL, NULL, ret_verdict, failure);
	id->fabric = NULL;
	return r;
}

/*
 * Connects with a spare from the pool. *RET true: a spare suits, and the returned value is the result of the client's
 * request. *RET false: no spare suits, and the function returns 0.
 */
static int connect_spare(struct id *id, const struct pool_key *key, const struct plan *plan,
			 bool *ret, struct failure *failure)
{
	struct pool *pool = id->session->core->pool;
	struct spare *spare = pool_find(pool, key);
	struct policy_verdict verdict;
	int r;

	*ret = false;
	if (!spare)
		return 0;
	r = decide_over_spare(id, spare, plan, &verdict, ret, failure);
	if (r != 0 || !*ret)
		return r;
	id->tos = id->route_tos = spare_get_tos(spare);
	id_own_fabric(id, pool_take(pool, spare));
	id_set_state(id, ID_ROUTE_RESOLVED);
	id->info_pending = true;
	r = settings_admit(id, &verdict, failure);
	return r != 0 ? r : conn_connect_planned(id, &plan->param, &plan->local_ece, failure);
}

static bool make_key(struct pool_key *ret, const struct id *id, const struct sockaddr *src,
		     const struct sockaddr *dst)
{
	*ret = (struct pool_key){ .ps = id->ps };
	memcpy(&ret->dst, dst, addr_len(dst));
	if (src)
		memcpy(&ret->src, src, addr_len(src));
	return !src || addr_port(src) == 0;
}

int resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		 unsigned timeout_ms, bool route, const struct plan *plan, struct failure *failure)
{
	struct policy_verdict verdict;
	struct pool_key key;
	bool has_key = false, done = false;
	char text[ADDR_STRLEN];
	int r;

	if (id->state != ID_IDLE && id->state != ID_BOUND)
		return id_refuse_state(id, "resolve_addr", failure);
	r = decide_may_begin(id->session, "resolve_addr", failure);
	if (r == 0)
		r = wait_for_devices(id->session, "resolve_addr", failure);
	if (r == 0 && !id->fabric) {
		has_key = plan && make_key(&key, id, src, dst);
		if (has_key)
			r = connect_spare(id, &key, plan, &done, failure);
		if (r == 0 && !done)
			r = id_make(id, failure);
	}
	if (r != 0 || done)
		return r;
	/* A bound id keeps its address, as in the kernel. */
	if (id->state == ID_BOUND)
		src = NULL;
	r = decide_connect(id, true, src, dst, &verdict, failure);
	if (r != 0)
		return r;
	if (src && addr_port(src) > 0) {
		r = bind_addr(id, src, failure);
		if (r != 0)
			return r;
		src = NULL;
	}
	if (plan) {
		r = failure_errno(failure, make_plan(id, plan, has_key ? &key : NULL));
		if (r < 0)
			return r;
	}
	r = resolve_start(id, src, dst, timeout_ms);
	if (r < 0) {
		id->plan = free_plan(id->plan);
		return failure_set_fabric(failure, r, "resolve %s", addr_to_string(dst, text));
	}
	id->route_timeout_ms = route ? cap_timeout(id, timeout_ms) : 0;
	return 0;
}

void resolve_on_route_begun(struct id *id)
{
	id->route_tos = id->tos;
	id->route_ack_timeout = id->ack_timeout;
	id_set_state(id, ID_ROUTE_QUERY);
}

int resolve_route(struct id *id, unsigned timeout_ms, struct failure *failure)
{
	int r;

	if (id->state != ID_ADDR_RESOLVED)
		return id_refuse_state(id, "resolve_route", failure);
	r = renew_rule(id, failure);
	if (r != 0)
		return r;
	r = fabric_id_resolve_route(id->fabric, (int)cap_timeout(id, timeout_ms));
	if (r < 0)
		return failure_set_fabric(failure, r, "resolve the route");
	resolve_on_route_begun(id);
	return 0;
}

void resolve_go_on(struct id *id)
{
	unsigned timeout_ms = id->route_timeout_ms;
	struct failure failure;
	int r;

	if (id->state == ID_ADDR_QUERY || id->state == ID_ROUTE_QUERY)
		return;
	id->route_timeout_ms = 0;
	if (id->state == ID_ADDR_RESOLVED && timeout_ms > 0) {
		r = resolve_route(id, timeout_ms, &failure);
		if (r == 0)
			return;
		notify_failure(id, RDMA_CM_EVENT_ROUTE_ERROR, r, &failure);
	}
	if (id->state == ID_ROUTE_RESOLVED && id->plan)
		follow_plan(id);
	else
		id->plan = free_plan(id->plan);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/notify.h"
#include "core/admit/rule_settings.h"
#include "core/object/wait.h"
#include "core/verbs/id_life.h"
#include "core/verbs/own_path.h"
#include "core/verbs/renew.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "proto/addr.h"
#include "proto/timer.h"
#include "util/clock.h"
#include "util/util.h"

/*
 * ADDR_RESOLVED is held back for this time at most. On Ethernet the kernel resolves a route without the network. On
 * InfiniBand this usually takes less than a millisecond.
 */
#define HOLD_MS 20

static struct id *id_of(struct list *l)
{
	return container_of(l, struct id, route.link);
}

static struct route_holds *holds_of(const struct id *id)
{
	return id->session->core->route_holds;
}

static void arm(struct route_holds *holds, uint64_t until_ms)
{
	uint64_t now = clock_ms();

	holds->armed_ms = until_ms;
	timer_start(holds->timer, until_ms > now ? (until_ms - now) * 1000 : 0);
}

/*
 * Enters STATE, which is HELD or DUE, and puts the id on the list of ids, which is sorted by deadline. The deadline
 * of an id in DUE is now, so the id goes to the front.
 */
static void enlist(struct id *id, enum route_plan state)
{
	struct route_holds *holds = holds_of(id);

	id->route.plan = state;
	id->route.held_until_ms = clock_ms() + (state == ROUTE_HELD ? HOLD_MS : 0);
	list_insert(state == ROUTE_DUE ? holds->ids.next : &holds->ids, &id->route.link);
	if (id->route.held_until_ms < holds->armed_ms)
		arm(holds, id->route.held_until_ms);
	id_save_state(id);
}

static void leave(struct id *id, enum route_plan state)
{
	route_leave(&id->route);
	id->route.plan = state;
	id_save_state(id);
}

/*
 * Sends ADDR_RESOLVED, which was held back. ROUTED: it also reports that the route is resolved. If the QP attributes
 * cannot be read, the event has none, and the client requests them later.
 */
static void send_address(struct id *id, bool routed)
{
	struct session_event out = { .type = RDMA_CM_EVENT_ADDR_RESOLVED, .routed = routed };
	struct failure ignored;

	if (rule_settings_get_qp_attr(id, IBV_QPS_INIT, &out.init, &ignored) != 0)
		out.init.mask = 0;
	if (routed)
		id->session->core->metrics.events[RDMA_CM_EVENT_ROUTE_RESOLVED]++;
	notify_event(id, &out);
}

/*
 * Returns the state that follows HELD. It is NONE if the client has requested the route with the address
 * (ROUTE_TOO), so that there is no route that it still has to request.
 */
static enum route_plan after_address(struct id *id)
{
	bool is_requested = id->route.requested_ms > 0;

	id->route.requested_ms = 0;
	return is_requested ? ROUTE_UNPLANNED : ROUTE_UNREQUESTED;
}

static void on_deadline(struct id *id)
{
	bool is_due = id->route.plan == ROUTE_DUE;

	leave(id, ROUTE_UNPLANNED);
	if (is_due && id->state == ID_ROUTE_RESOLVED) {
		notify_result(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, /* failure= */ NULL);
	} else if (!is_due && id->state == ID_ROUTE_QUERY) {
		id->route.plan = after_address(id);
		id->route.unreported = true;
		send_address(id, /* routed= */ false);
	}
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct route_holds *holds = userdata;
	uint64_t now = clock_ms();
	struct list *l;

	holds->armed_ms = UINT64_MAX;
	while ((l = list_first(&holds->ids)) && id_of(l)->route.held_until_ms <= now)
		on_deadline(id_of(l));
	if (l)
		arm(holds, id_of(l)->route.held_until_ms);
	return 0;
}

int route_holds_init(struct route_holds *holds, sd_event *loop)
{
	int r;

	list_init(&holds->ids);
	holds->armed_ms = UINT64_MAX;
	r = timer_new(&holds->timer, loop, 1, on_timer, holds);
	return r < 0 ? r : 0;
}

void route_holds_done(struct route_holds *holds)
{
	holds->timer = sd_event_source_disable_unref(holds->timer);
}

void resolve_route_plan(struct id *id, enum route_when when, unsigned timeout_ms)
{
	id->route.requested_ms = when & ROUTE_TOO ? resolve_cap_timeout(id, timeout_ms) : 0;
	/* Datagram ids cannot join groups any more when their route is resolved. */
	if ((when & ROUTE_AHEAD) && !id_is_datagram(id))
		id->route.plan = ROUTE_EARLY;
	id_save_state(id);
}

/* True: the address leads to another device than before, where the client's QP, if it has one, cannot be used. */
static bool is_elsewhere(const struct id *id)
{
	struct fabric_id_info info, old = { 0 };

	fabric_id_get_info(id->fabric, &info);
	route_get_old_info(&id->route, &old);
	return !info.device || strcmp(info.device, old.device) != 0;
}

/* Begins to resolve the route, and records the options that become part of it. Returns 0 or a negative errno. */
static int begin(struct id *id, unsigned timeout_ms)
{
	const struct ibv_path_record *path = id->route.own_path;
	int r = path ? fabric_id_set_path(id->fabric, path) :
		       fabric_id_resolve_route(id->fabric, (int)timeout_ms);

	if (r < 0)
		return r;
	id->route.tos = id->options.now[OPTION_TOS];
	id->route.ack_timeout = id->options.now[OPTION_ACK_TIMEOUT];
	id_set_state(id, ID_ROUTE_QUERY);
	return 0;
}

/* If a request of the client waits for the route, it goes on, or is refused because of the state of ID. */
static void end_wait(struct id *id)
{
	bool is_awaited = route_is_awaited(&id->route);

	id->route.path_waits = false;
	if (is_awaited)
		id->session->ops->resume(id->session->userdata, /* handle= */ 0);
}

static void route_again(struct id *id)
{
	struct failure failure;
	int r;

	if (is_elsewhere(id))
		r = -ENODEV;
	else if (own_path_check(id, &failure) != 0)
		r = -failure.error;
	else
		r = begin(id, resolve_get_left_ms(id));
	if (r == 0 && id->route.plan == ROUTE_AGAIN_FOR_CONNECT)
		return;
	end_wait(id);
	leave(id, ROUTE_UNPLANNED);
	if (r < 0)
		notify_result(id, RDMA_CM_EVENT_ROUTE_ERROR, r, /* failure= */ NULL);
}

bool resolve_route_on_address(struct id *id)
{
	if (id->route.plan == ROUTE_AGAIN || id->route.plan == ROUTE_AGAIN_FOR_CONNECT) {
		route_again(id);
		return true;
	}
	if (id->route.plan != ROUTE_EARLY)
		return false;
	id->route.plan = ROUTE_UNPLANNED;
	id->route.unreported = false;
	if (begin(id, resolve_get_left_ms(id)) < 0)
		return false;
	/* If another event comes before ADDR_RESOLVED, such as DEVICE_REMOVAL, that event has to carry the info. */
	id->route.info_pending = true;
	enlist(id, ROUTE_HELD);
	return true;
}

bool resolve_route_on_result(struct id *id)
{
	bool routed = id->state == ID_ROUTE_RESOLVED;

	switch (id->route.plan) {
	case ROUTE_HELD:
		/* If the route has failed, but the client has requested it, resolve_route_go_on() resolves it again. */
		leave(id, routed ? after_address(id) : ROUTE_UNPLANNED);
		send_address(id, routed);
		return true;
	case ROUTE_UNREQUESTED:
		end_wait(id);
		if (!routed)
			id->route.plan = ROUTE_UNPLANNED;
		return true;
	case ROUTE_AGAIN_FOR_CONNECT:
		end_wait(id);
		leave(id, ROUTE_UNPLANNED);
		return routed;
	default:
		return false;
	}
}

bool resolve_route_fails(struct id *id)
{
	bool ret = id->route.plan == ROUTE_AGAIN || id->route.plan == ROUTE_AGAIN_FOR_CONNECT;

	end_wait(id);
	if (ret || id->route.plan == ROUTE_EARLY)
		leave(id, ROUTE_UNPLANNED);
	return ret;
}

/* Resolving again */

DEFINE_CLEANUP(struct fabric_id *, fabric_id_free)

/* Replaces the fabric id by a new one. The TOS is set when the address is resolved, see rule_settings_admit(). */
static int replace_fabric(struct id *id, struct failure *failure)
{
	_cleanup_(fabric_id_freep) struct fabric_id *fabric = NULL;
	struct core *core = id->session->core;
	struct fabric_id_info info;
	int r = fabric_id_new(&fabric, core->fabric, id->session->identity.owner, id->ps,
			      core->on_event, id);

	if (r == 0)
		r = options_put(&id->options, fabric);
	if (r < 0)
		return failure_set_fabric(failure, r, "resolve the route again");
	fabric_id_get_info(id->fabric, &info);
	r = route_resolve_again(&id->route, &info);
	if (r < 0)
		return failure_errno(failure, r);
	fabric_id_free(id->fabric);
	id->fabric = TAKE_PTR(fabric);
	id->options.now[OPTION_TOS] = id->route.tos = -1;
	id_set_state(id, ID_BOUND);
	id_save(id);
	return 0;
}

/*
 * Binds the new fabric id to the old address, and resolves the old peer's address again. A thread destroys the old
 * fabric id; until that is done, the bind can fail, and then the client's request waits.
 */
static int rebind(struct id *id, unsigned timeout_ms, struct failure *failure)
{
	struct fabric_id_info old = { 0 };
	const struct sockaddr *local = (struct sockaddr *)&old.local;
	int r;

	route_get_old_info(&id->route, &old);
	r = fabric_id_bind(id->fabric, local);

	if (r == -EINPROGRESS) {
		r = wait_for_fabric(id->session, htons((uint16_t)addr_port(local)));
		if (r < 0)
			return r;
		r = -EADDRINUSE;
	}
	if (r == 0)
		r = resolve_start(id, /* src= */ NULL, (struct sockaddr *)&old.peer, timeout_ms);
	if (r < 0) {
		leave(id, ROUTE_UNPLANNED);
		/* The id has lost its address, so nothing can be done with it any more. */
		id_set_state(id, ID_FAILED);
		return failure_set_fabric(failure, r, "resolve the route again");
	}
	id->route.plan = ROUTE_AGAIN;
	return 0;
}

int resolve_route_restore(struct id *id, const struct fabric_id_info *info)
{
	int r = route_resolve_again(&id->route, info);

	if (r == 0)
		id_set_state(id, ID_BOUND);
	return r;
}

int resolve_route_before_connect(struct id *id, struct failure *failure)
{
	int r;

	if (id->route.plan == ROUTE_AGAIN_FOR_CONNECT &&
	    (id->state == ID_ADDR_QUERY || id->state == ID_ROUTE_QUERY))
		return -EINPROGRESS;
	if (id->route.plan == ROUTE_UNREQUESTED && id->route.unreported)
		return failure_set(failure, STATUS_BAD_STATE,
				   "connect: the route of id %u was not requested", id->handle);
	if (id->route.plan != ROUTE_REBIND)
		return 0;
	r = rebind(id, id->session->core->settings.resolve_timeout_ms, failure);
	if (r != 0)
		return r;
	id->route.plan = ROUTE_AGAIN_FOR_CONNECT;
	return -EINPROGRESS;
}

static bool has_changed(const struct id *id)
{
	return id->options.now[OPTION_TOS] != id->route.tos ||
	       id->options.now[OPTION_ACK_TIMEOUT] != id->route.ack_timeout;
}

/* Of an id whose address the client knows. */
static int resolve_requested(struct id *id, unsigned timeout_ms, struct failure *failure)
{
	int r;

	if (id->state != ID_ADDR_RESOLVED)
		return id_refuse_state(id, "resolve_route", failure);
	r = renew_rule(id, failure);
	if (r == 0)
		r = own_path_check(id, failure);
	if (r != 0)
		return r;
	r = begin(id, resolve_cap_timeout(id, timeout_ms));
	if (resolve_explain(id, r, failure))
		return STATUS_FABRIC;
	return r < 0 ? failure_set_fabric(failure, r, "resolve the route") : 0;
}

/* The route was resolved ahead. */
static int take_early(struct id *id, unsigned timeout_ms, struct failure *failure)
{
	int r = renew_rule(id, failure);

	if (r == 0)
		r = own_path_check(id, failure);
	if (r != 0)
		return r;
	if (has_changed(id) || id->route.own_path) {
		r = replace_fabric(id, failure);
		return r != 0 ? r : rebind(id, timeout_ms, failure);
	}
	if (id->state == ID_ROUTE_RESOLVED)
		enlist(id, ROUTE_DUE);
	else
		id->route.plan = ROUTE_UNPLANNED;
	return 0;
}

static int request(struct id *id, unsigned timeout_ms, struct failure *failure)
{
	if (id->route.plan == ROUTE_REBIND)
		return rebind(id, timeout_ms, failure);
	if (id->route.plan == ROUTE_UNREQUESTED &&
	    (id->state == ID_ROUTE_QUERY || id->state == ID_ROUTE_RESOLVED))
		return take_early(id, timeout_ms, failure);
	return resolve_requested(id, timeout_ms, failure);
}

/* Whether a route can be requested. A route that the id has already goes on with the path by which it was decided. */
static bool takes_route(const struct id *id)
{
	return id->state == ID_ADDR_RESOLVED || id->route.plan == ROUTE_REBIND ||
	       (id->route.plan == ROUTE_UNREQUESTED &&
		(id->state == ID_ROUTE_QUERY || id->state == ID_ROUTE_RESOLVED));
}

int resolve_route(struct id *id, unsigned timeout_ms, struct failure *failure)
{
	if (!takes_route(id))
		return id_refuse_state(id, "resolve_route", failure);
	own_path_forget(id);
	return request(id, timeout_ms, failure);
}

int resolve_route_set_path(struct id *id, unsigned timeout_ms, const uint8_t *path, size_t len,
			   struct failure *failure)
{
	int r;

	if (!takes_route(id))
		return id_refuse_state(id, "resolve_route", failure);
	r = own_path_keep(id, path, len, failure);
	if (r == 0)
		r = own_path_compare(id, failure);
	if (r == 0)
		r = request(id, timeout_ms, failure);
	if (r != 0 && r != -EINPROGRESS)
		own_path_forget(id);
	return r;
}

void resolve_route_go_on(struct id *id)
{
	unsigned timeout_ms = id->route.requested_ms;
	struct failure failure;
	int r;

	if (id->state == ID_ADDR_QUERY || id->state == ID_ROUTE_QUERY)
		return;
	id->route.requested_ms = 0;
	if (id->state != ID_ADDR_RESOLVED || timeout_ms == 0)
		return;
	r = resolve_requested(id, timeout_ms, &failure);
	if (r != 0)
		notify_failure(id, RDMA_CM_EVENT_ROUTE_ERROR, r, &failure);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/ahead.h"
#include "core/id.h"
#include "core/notify.h"
#include "core/renew.h"
#include "core/record.h"
#include "core/resolve.h"
#include "core/settings.h"
#include "core/wait.h"
#include "proto/addr.h"
#include "util/clock.h"
#include "util/util.h"

/*
 * ADDR_RESOLVED is held back for this time at most. On Ethernet the kernel resolves a route without the network. On
 * InfiniBand this usually takes less than a millisecond.
 */
#define HOLD_MS 20

/* The old fabric id's addresses, which the new one gets, and its device, to which these addresses must lead again. */
struct again {
	struct sockaddr_storage local, peer;
	char device[64];
};

static struct id *id_of(struct list *l)
{
	return container_of(l, struct id, ahead.link);
}

static struct aheads *aheads_of(const struct id *id)
{
	return &id->session->core->aheads;
}

static void arm(struct aheads *aheads, uint64_t until_ms)
{
	uint64_t now = clock_ms();

	aheads->armed_ms = until_ms;
	sd_event_source_set_time_relative(aheads->timer,
					  until_ms > now ? (until_ms - now) * 1000 : 0);
	sd_event_source_set_enabled(aheads->timer, SD_EVENT_ONESHOT);
}

/*
 * Enters STATE, which is HELD or DUE, and puts the id on the list of ids, which is sorted by deadline. The deadline
 * of an id in DUE is now, so the id goes to the front.
 */
static void enlist(struct id *id, enum ahead_state state)
{
	struct aheads *aheads = aheads_of(id);

	id->ahead.state = state;
	id->ahead.until_ms = clock_ms() + (state == AHEAD_HELD ? HOLD_MS : 0);
	list_insert(state == AHEAD_DUE ? aheads->ids.next : &aheads->ids, &id->ahead.link);
	if (id->ahead.until_ms < aheads->armed_ms)
		arm(aheads, id->ahead.until_ms);
	record_state(id);
}

static void leave(struct id *id, enum ahead_state state)
{
	ahead_forget(&id->ahead);
	id->ahead.again = NULL;
	id->ahead.state = state;
	record_state(id);
}

/*
 * Sends ADDR_RESOLVED, which was held back. ROUTED: it also reports that the route is resolved. If the QP attributes
 * cannot be read, the event has none, and the client requests them later.
 */
static void send_address(struct id *id, bool routed)
{
	struct session_event out = { .type = RDMA_CM_EVENT_ADDR_RESOLVED, .routed = routed };
	struct failure ignored;

	if (id_qp_attr(id, IBV_QPS_INIT, &out.init, &ignored) != 0)
		out.init.mask = 0;
	if (routed)
		id->session->core->metrics.events[RDMA_CM_EVENT_ROUTE_RESOLVED]++;
	notify_event(id, &out);
}

static void send_route(struct id *id)
{
	struct session_event out = { .type = RDMA_CM_EVENT_ROUTE_RESOLVED };

	notify_event(id, &out);
}

/*
 * Returns the state that follows HELD. It is NONE if the client has requested the route with the address
 * (ResolveAddr.route), so that there is no route that it still has to request.
 */
static enum ahead_state after_address(struct id *id)
{
	bool is_requested = id->route_timeout_ms > 0;

	id->route_timeout_ms = 0;
	return is_requested ? AHEAD_NONE : AHEAD_UNASKED;
}

static void on_deadline(struct id *id)
{
	bool is_due = id->ahead.state == AHEAD_DUE;

	leave(id, AHEAD_NONE);
	if (is_due && id->state == ID_ROUTE_RESOLVED) {
		send_route(id);
	} else if (!is_due && id->state == ID_ROUTE_QUERY) {
		id->ahead.state = after_address(id);
		id->ahead.unreported = true;
		send_address(id, /* routed= */ false);
	}
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct aheads *aheads = userdata;
	uint64_t now = clock_ms();
	struct list *l;

	(void)source;
	(void)usec;
	aheads->armed_ms = UINT64_MAX;
	while ((l = list_first(&aheads->ids)) && id_of(l)->ahead.until_ms <= now)
		on_deadline(id_of(l));
	if (l)
		arm(aheads, id_of(l)->ahead.until_ms);
	return 0;
}

int aheads_init(struct aheads *aheads, sd_event *loop)
{
	int r;

	list_init(&aheads->ids);
	aheads->armed_ms = UINT64_MAX;
	r = sd_event_add_time_relative(loop, &aheads->timer, CLOCK_MONOTONIC, 0, 1, on_timer,
				       aheads);
	if (r >= 0)
		r = sd_event_source_set_enabled(aheads->timer, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

void aheads_done(struct aheads *aheads)
{
	aheads->timer = sd_event_source_disable_unref(aheads->timer);
}

/* Datagram ids are exempt, because they cannot join groups any more when their route is resolved. */
void ahead_want(struct id *id)
{
	if (!id_is_datagram(id) && id->state == ID_ADDR_QUERY) {
		id->ahead.state = AHEAD_WANTED;
		record_state(id);
	}
}

void ahead_move(struct id *from, struct id *to)
{
	enum ahead_state state = from->ahead.state;

	to->ahead.again = TAKE_PTR(from->ahead.again);
	to->ahead.unreported = from->ahead.unreported;
	if (state == AHEAD_HELD || state == AHEAD_DUE)
		enlist(to, state);
	else
		to->ahead.state = state;
	leave(from, AHEAD_NONE);
}

/* True: the address leads to another device than before, where the client's QP, if it has one, cannot be used. */
static bool is_elsewhere(const struct id *id)
{
	struct fabric_id_info info;

	fabric_id_get_info(id->fabric, &info);
	return !info.device || strcmp(info.device, id->ahead.again->device) != 0;
}

static int start_route(struct id *id)
{
	int r = fabric_id_resolve_route(id->fabric, (int)resolve_get_left_ms(id));

	if (r < 0)
		return r;
	resolve_on_route_begun(id);
	return 0;
}

/* If the client's connect waits for the route, it goes on, or is refused because of the state of ID. */
static void end_wait(struct id *id)
{
	if (id->ahead.state == AHEAD_AGAIN_FOR_CONNECT)
		id->session->ops->resume(id->session->userdata);
}

static void route_again(struct id *id)
{
	struct session_event out = { .type = RDMA_CM_EVENT_ROUTE_ERROR };

	out.status = is_elsewhere(id) ? -ENODEV : start_route(id);
	if (out.status == 0 && id->ahead.state == AHEAD_AGAIN_FOR_CONNECT)
		return;
	end_wait(id);
	leave(id, AHEAD_NONE);
	if (out.status < 0)
		notify_event(id, &out);
}

bool ahead_on_address(struct id *id)
{
	if (id->ahead.state == AHEAD_AGAIN || id->ahead.state == AHEAD_AGAIN_FOR_CONNECT) {
		route_again(id);
		return true;
	}
	if (id->ahead.state != AHEAD_WANTED)
		return false;
	id->ahead.state = AHEAD_NONE;
	id->ahead.unreported = false;
	if (start_route(id) < 0)
		return false;
	/* If another event comes before ADDR_RESOLVED, such as DEVICE_REMOVAL, that event has to carry the info. */
	id->info_pending = true;
	enlist(id, AHEAD_HELD);
	return true;
}

bool ahead_on_route(struct id *id)
{
	bool routed = id->state == ID_ROUTE_RESOLVED;

	switch (id->ahead.state) {
	case AHEAD_HELD:
		/* If the route has failed, but the client has requested it, resolve_go_on() resolves it again. */
		leave(id, routed ? after_address(id) : AHEAD_NONE);
		send_address(id, routed);
		return true;
	case AHEAD_UNASKED:
		if (!routed)
			id->ahead.state = AHEAD_NONE;
		return true;
	case AHEAD_AGAIN_FOR_CONNECT:
		end_wait(id);
		leave(id, AHEAD_NONE);
		return routed;
	default:
		return false;
	}
}

bool ahead_fails_route(struct id *id)
{
	bool ret = id->ahead.state == AHEAD_AGAIN || id->ahead.state == AHEAD_AGAIN_FOR_CONNECT;

	end_wait(id);
	if (ret || id->ahead.state == AHEAD_WANTED)
		leave(id, AHEAD_NONE);
	return ret;
}

/* Resolving again */

static int copy_options(const struct id *id, struct fabric_id *to)
{
	const struct {
		int option, value;
	} options[] = {
		{ RDMA_OPTION_ID_REUSEADDR, id->reuseaddr ? 1 : -1 },
		{ RDMA_OPTION_ID_AFONLY, id->afonly },
		{ RDMA_OPTION_ID_ACK_TIMEOUT, id->ack_timeout },
	};
	int r = 0;

	for (size_t i = 0; i < ELEMENTS_OF(options) && r == 0; i++)
		if (options[i].value >= 0)
			r = fabric_id_set_option(to, options[i].option, options[i].value);
	return r;
}

/* Replaces the fabric id by a new one. The TOS is set when the address is resolved, see settings_admit(). */
static int replace_fabric(struct id *id, struct failure *failure)
{
	struct core *core = id->session->core;
	struct fabric_id_info info;
	struct fabric_id *fabric;
	struct again *again;
	int r;

	again = calloc(1, sizeof(*again));
	if (!again)
		return failure_errno(failure, -ENOMEM);
	r = fabric_id_new(&fabric, core->fabric, id->session->identity.uid, id->ps, core->on_event,
			  id);
	if (r == 0) {
		r = copy_options(id, fabric);
		if (r < 0)
			fabric_id_free(fabric);
	}
	if (r < 0) {
		free(again);
		return failure_set_fabric(failure, r, "resolve the route again");
	}
	fabric_id_get_info(id->fabric, &info);
	again->local = info.local;
	again->peer = info.peer;
	if (info.device)
		strcpy(again->device, info.device);
	fabric_id_free(id->fabric);
	id->fabric = fabric;
	id->tos = id->route_tos = -1;
	leave(id, AHEAD_REBIND);
	id->ahead.again = again;
	id_set_state(id, ID_BOUND);
	return 0;
}

/*
 * Binds the new fabric id to the old address, and resolves the old peer's address again. A thread destroys the old
 * fabric id; until that is done, the bind can fail, and then the client's request waits.
 */
static int rebind(struct id *id, unsigned timeout_ms, struct failure *failure)
{
	const struct sockaddr *local = (struct sockaddr *)&id->ahead.again->local;
	const struct sockaddr *peer = (struct sockaddr *)&id->ahead.again->peer;
	int r = fabric_id_bind(id->fabric, local);

	if (r == -EINPROGRESS) {
		r = wait_for_fabric(id->session, htons((uint16_t)addr_port(local)));
		if (r < 0)
			return r;
		r = -EADDRINUSE;
	}
	if (r == 0)
		r = resolve_start(id, /* src= */ NULL, peer, timeout_ms);
	if (r < 0) {
		leave(id, AHEAD_NONE);
		/* The id has lost its address, so nothing can be done with it any more. */
		id_set_state(id, ID_FAILED);
		return failure_set_fabric(failure, r, "resolve the route again");
	}
	id->ahead.state = AHEAD_AGAIN;
	return 0;
}

int ahead_restore(struct id *id, const struct fabric_id_info *info)
{
	struct again *again = calloc(1, sizeof(*again));

	if (!again)
		return -ENOMEM;
	again->local = info->local;
	again->peer = info->peer;
	if (info->device)
		snprintf(again->device, sizeof(again->device), "%s", info->device);
	leave(id, AHEAD_REBIND);
	id->ahead.again = again;
	id_set_state(id, ID_BOUND);
	return 0;
}

void ahead_get_old_info(const struct id *id, struct fabric_id_info *ret)
{
	const struct again *again = id->ahead.again;

	if (!again)
		return;
	ret->local = again->local;
	ret->peer = again->peer;
	ret->device = again->device;
}

int ahead_before_connect(struct id *id, struct failure *failure)
{
	int r;

	if (id->ahead.state == AHEAD_AGAIN_FOR_CONNECT)
		return -EINPROGRESS;
	if (id->ahead.state == AHEAD_UNASKED && id->ahead.unreported)
		return failure_set(failure, STATUS_BAD_STATE,
				   "connect: the route of id %u was not requested", id->handle);
	if (id->ahead.state != AHEAD_REBIND)
		return 0;
	r = rebind(id, id->session->core->settings.resolve_timeout_ms, failure);
	if (r != 0)
		return r;
	id->ahead.state = AHEAD_AGAIN_FOR_CONNECT;
	return -EINPROGRESS;
}

static bool has_changed(const struct id *id)
{
	return id->tos != id->route_tos || id->ack_timeout != id->route_ack_timeout;
}

int ahead_resolve_route(struct id *id, unsigned timeout_ms, struct failure *failure)
{
	int r;

	if (id->ahead.state == AHEAD_REBIND)
		return rebind(id, timeout_ms, failure);
	if (id->ahead.state != AHEAD_UNASKED ||
	    (id->state != ID_ROUTE_QUERY && id->state != ID_ROUTE_RESOLVED))
		return resolve_route(id, timeout_ms, failure);
	r = renew_rule(id, failure);
	if (r != 0)
		return r;
	if (has_changed(id)) {
		r = replace_fabric(id, failure);
		return r != 0 ? r : rebind(id, timeout_ms, failure);
	}
	if (id->state == ID_ROUTE_RESOLVED)
		enlist(id, AHEAD_DUE);
	else
		id->ahead.state = AHEAD_NONE;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "client/lib/connect/await.h"
#include "client/lib/connect/connparam.h"
#include "client/lib/connect/retry.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/opendevice.h"
#include "client/lib/connect/prepare.h"
#include "client/lib/id/qpstate.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"

/*
 * The connect calls. Either the route was resolved before, or one request resolves it and connects (connect_over()).
 * In the second case the QP is created first, on the device that the program expects the route to use. If the route
 * uses another device, port or P_Key than the QP, the broker sends ADDR_RESOLVED and ROUTE_RESOLVED instead of
 * connecting.
 */

struct way {
	const struct sockaddr *src, *dst;
};

static const char elsewhere[] = "connect_to: the route uses device %s, but the CQs are on %s";

/* True: the broker has resolved the route in advance, but the program has not requested that yet. */
static bool is_unrouted(struct rdmabroker_id *id)
{
	bool ret;

	wire_lock(&id->session->wire);
	ret = id->routed;
	wire_unlock(&id->session->wire);
	return ret;
}

static int connect_id(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		      struct call *call, int timeout_ms)
{
	struct connect_message m;
	REQUEST(request, CONNECT, connect, &m.connect);
	static const struct step step = {
		.name = "connect",
		.outcomes = BIT(CONNECT_RESPONSE) | BIT(ESTABLISHED),
		.from = 1 << STAGE_ROUTE_RESOLVED,
		.to = STAGE_CONNECTING,
	};
	int r = connparam_connect_message(id, param, &m);

	if (r < 0)
		return r;
	if (is_unrouted(id))
		return fail(EINVAL, "connect: the route is not resolved");
	return idcall_step(id, &step, call, &request, timeout_ms);
}

int rdmabroker_connect(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param)
{
	return connect_id(id, param, NULL, 0);
}

/* Replace the event in PLACE, and free the old one. */
static void keep(struct rdmabroker_event **place, struct rdmabroker_event *event)
{
	rdmabroker_free_event(*place);
	*place = event;
}

static int await_connected(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
			   int64_t deadline, enum rdmabroker_event_type *ret)
{
	struct rdmabroker_event *event;
	int r = await_event(id, call, good | BIT(ESTABLISHED) | BIT(CONNECT_RESPONSE),
			    bad | BIT(REJECTED) | BIT(UNREACHABLE) | BIT(CONNECT_ERROR), deadline,
			    &event);

	if (!event)
		return r;
	*ret = event->type;
	if (r == 0 && !(good & (1ULL << *ret)))
		keep(&id->response, event);
	else if (r < 0 && event->rejected_by != RDMABROKER_REJECTED_BY_NOBODY)
		keep(&id->reject, event);
	else
		rdmabroker_free_event(event);
	return r;
}

static int connect_once(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			int64_t deadline)
{
	enum rdmabroker_event_type type;
	struct call call;
	int r = connect_id(id, param, &call, deadline_timeout_ms(deadline));

	return r < 0 ? r : await_connected(id, &call, 0, 0, deadline, &type);
}

/*
 * Called if the route uses another device, port or P_Key than the QP. Waits until the route is resolved, gives the QP
 * the port and the P_Key of the route, and connects. Another device is an error, because a QP cannot change its
 * device.
 */
static int connect_elsewhere(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			     int64_t deadline)
{
	struct call call = { .name = "resolve_route" };
	int r = await_outcome(id, &call, BIT(ROUTE_RESOLVED), BIT(ROUTE_ERROR), deadline);

	if (r == 0 && strcmp(id->device_name, id->device->name) != 0)
		r = fail(EXDEV, elsewhere, id->device_name, id->device->name);
	if (r == 0)
		r = qpstate_to_init(id);
	return r < 0 ? r : connect_once(id, param, deadline);
}

static int connect_over(struct rdmabroker_id *id, const struct way *way,
			const struct rdmabroker_conn_param *param, int64_t deadline)
{
	Rdmabroker__ResolveAddr m = RDMABROKER__RESOLVE_ADDR__INIT;
	REQUEST(request, RESOLVE_ADDR, resolve_addr, &m);
	enum rdmabroker_event_type type = RDMABROKER_EVENT_CONNECT_ERROR;
	struct resolve_message to;
	struct connect_message connect;
	struct call call;
	int max_resources, max_depth, r;

	r = connparam_connect_message(id, param, &connect);
	/*
	 * The broker applies the rule's caps, which are not known here yet. Replace 0xff by the device's maximum, so
	 * that the broker can compare it with the caps.
	 */
	if (r == 0)
		r = qpstate_get_limits(id, &max_resources, &max_depth);
	if (r == 0 && connect.param.responder_resources == 0xff)
		connect.param.responder_resources =
			(uint32_t)(max_resources < 0xff ? max_resources : 0xff);
	if (r == 0 && connect.param.initiator_depth == 0xff)
		connect.param.initiator_depth = (uint32_t)(max_depth < 0xff ? max_depth : 0xff);
	if (r == 0)
		r = prepare_resolve_message(id, "connect_to", way->src, way->dst,
					    deadline_timeout_ms(deadline), &m, &to);
	if (r < 0)
		return r;
	m.route = true;
	m.connect = &connect.connect;
	m.device = id->device->name;
	m.port_num = id->init.attr.port_num;
	m.pkey_index = id->init.attr.pkey_index;
	r = idcall_begin(id, &call, "connect_to", &request, deadline_timeout_ms(deadline));
	if (r == 0)
		r = await_connected(id, &call, BIT(ADDR_RESOLVED),
				    BIT(ADDR_ERROR) | BIT(ROUTE_ERROR), deadline, &type);
	return r == 0 && type == RDMABROKER_EVENT_ADDR_RESOLVED ?
		       connect_elsewhere(id, param, deadline) :
		       r;
}

/*
 * Connects, and retries after the stale and busy rejects that retry.h describes. Such a reject leaves the QP as it
 * is, see id->retries. WAY: the addresses to resolve; NULL: the id's route is resolved already. Before a retry the
 * route is resolved too, so the retry only connects. But if the broker has not created the id (is_new), nothing is
 * resolved, and the retry is another connect_over().
 */
static int connect_repeatedly(struct rdmabroker_id *id, const struct way *way,
			      const struct rdmabroker_conn_param *param, int64_t deadline)
{
	unsigned stale_tries = 0;
	int r, delay_ms;

	for (;;) {
		id->retries = retry_get_allowed(id, stale_tries);
		r = way ? connect_over(id, way, param, deadline) :
			  connect_once(id, param, deadline);
		delay_ms = r < 0 ? retry_get_delay_ms(id, r, &stale_tries) : -1;
		id->retries = 0;
		if (delay_ms < 0)
			return r;
		if (deadline_left(deadline) <= delay_ms)
			break;
		poll(NULL, 0, delay_ms);
		if (!id->is_new)
			way = NULL;
		/* -EBUSY is from this host's broker; the id can then be used again without changes. */
		if (r == -EBUSY)
			continue;
		r = retry_renew_id(id, deadline);
		if (r < 0)
			break;
	}
	if (r != -EBUSY)
		qpstate_to_error(id);
	return r;
}

int rdmabroker_connect_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			    int timeout_ms)
{
	return connect_repeatedly(id, NULL, param, deadline_after(timeout_ms));
}

/*
 * Used if id->device is NULL: no QP of this session has taught the library the device's INIT attributes yet, or the id
 * was bound before. create_qp() then has to wait for ADDR_RESOLVED, which brings the attributes.
 */
static int connect_step_by_step(struct rdmabroker_id *id, const struct way *way, struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr,
				const struct rdmabroker_conn_param *param, int64_t deadline)
{
	const char *device = ibv_get_device_name(attr->send_cq->context->device);
	int r = rdmabroker_resolve_wait(id, way->src, way->dst, deadline_timeout_ms(deadline));

	if (r == 0 && strcmp(id->device_name, device) != 0)
		r = fail(EXDEV, elsewhere, id->device_name, device);
	if (r == 0)
		r = rdmabroker_create_qp(id, pd, attr);
	return r < 0 ? r : connect_repeatedly(id, NULL, param, deadline);
}

int rdmabroker_connect_to_wait(struct rdmabroker_id *id, const struct sockaddr *src,
			       const struct sockaddr *dst, struct ibv_pd *pd,
			       struct ibv_qp_init_attr *attr,
			       const struct rdmabroker_conn_param *param, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct way way = { .src = src, .dst = dst };
	const char *device;
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (idstate_is_datagram(id))
		return fail(EINVAL, "connect_to: a datagram id cannot connect");
	if (timeout_ms <= 0)
		return fail(EINVAL, "connect_to: the timeout is not positive");
	if (id->qp)
		return fail(EINVAL, "connect_to: the id has a QP already");
	if (!attr->send_cq)
		return fail(EINVAL, "connect_to: attr->send_cq is NULL, but it selects the device");
	device = ibv_get_device_name(attr->send_cq->context->device);
	if (!id->device_name[0])
		id->device = opendevice_get_learned(id->session, attr->send_cq->context, &id->init);
	if (id->device_name[0] && strcmp(id->device_name, device) != 0) {
		r = fail(EXDEV, elsewhere, id->device_name, device);
	} else if (id->device) {
		strcpy(id->device_name, id->device->name);
		r = rdmabroker_create_qp(id, pd, attr);
		if (r == 0)
			r = connect_repeatedly(id, &way, param, deadline);
	} else {
		r = connect_step_by_step(id, &way, pd, attr, param, deadline);
	}
	return r < 0 ? retry_start_over(id, r) : 0;
}

const struct rdmabroker_event *rdmabroker_get_response_event(const struct rdmabroker_id *id)
{
	return id->response;
}

const struct rdmabroker_event *rdmabroker_get_reject_event(const struct rdmabroker_id *id)
{
	return id->reject;
}

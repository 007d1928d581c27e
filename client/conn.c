/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "client/internal.h"

static const struct rdmabroker_conn_param default_param = {
	.responder_resources = 0xff,
	.initiator_depth = 0xff,
	.retry_count = 7,
	.rnr_retry_count = 7,
};

/* The connection */

static uint8_t at_most(int wanted, int max)
{
	return (uint8_t)(wanted < max ? wanted : max);
}

/*
 * On accept 0xff stands for the lower of what the request offers and what the device supports. The library looks
 * the device's limits up, not the broker, because the QP is in this process.
 */
static int fit_to_request(struct rdmabroker_id *id, struct rdmabroker_conn_param *param)
{
	int max_resources, max_depth, r;

	if (param->responder_resources != 0xff && param->initiator_depth != 0xff)
		return 0;
	r = qp_get_limits(id, &max_resources, &max_depth);
	if (r < 0)
		return r;
	if (param->responder_resources == 0xff)
		param->responder_resources =
			at_most(id->request_responder_resources, max_resources);
	if (param->initiator_depth == 0xff)
		param->initiator_depth = at_most(id->request_initiator_depth, max_depth);
	return 0;
}

/* Called before the QP is changed, so that a call that fails leaves it as it was. */
static int check_limits(struct rdmabroker_id *id, const char *name,
			const struct rdmabroker_conn_param *param)
{
	int max_resources, max_depth, r;

	/* For a QP that the library does not know the broker checks the device's limits. */
	if (!id->qp || id_is_datagram(id))
		return 0;
	r = qp_get_limits(id, &max_resources, &max_depth);
	if (r < 0)
		return r;
	if (param->responder_resources != 0xff && param->responder_resources > max_resources)
		return fail(EINVAL, "%s: %u responder resources, the device can have %d", name,
			    param->responder_resources, max_resources);
	if (param->initiator_depth != 0xff && param->initiator_depth > max_depth)
		return fail(EINVAL, "%s: an initiator depth of %u, the device can have %d", name,
			    param->initiator_depth, max_depth);
	return 0;
}

static uint8_t capped(uint8_t wanted, int cap)
{
	return cap >= 0 && wanted > cap ? (uint8_t)cap : wanted;
}

/* The broker applies these caps too, but the QP has to be moved with the same values before. */
static int apply_caps(struct rdmabroker_id *id, struct rdmabroker_conn_param *param)
{
	int max_resources = 0xff, max_depth = 0xff, r;
	bool all = param->responder_resources == 0xff || param->initiator_depth == 0xff;

	param->retry_count = capped(param->retry_count, id->caps.retry_count);
	param->rnr_retry_count = capped(param->rnr_retry_count, id->caps.rnr_retry_count);
	if (id->caps.responder_resources < 0 && id->caps.initiator_depth < 0)
		return 0;
	/* 0xff stands for the device's maximum, which may be lower than the cap. */
	if (all && id->qp && !id_is_datagram(id)) {
		r = qp_get_limits(id, &max_resources, &max_depth);
		if (r < 0)
			return r;
	}
	if (id->caps.responder_resources < max_resources)
		param->responder_resources =
			capped(param->responder_resources, id->caps.responder_resources);
	if (id->caps.initiator_depth < max_depth)
		param->initiator_depth = capped(param->initiator_depth, id->caps.initiator_depth);
	return 0;
}

static int prepare(struct rdmabroker_id *id, const char *name,
		   const struct rdmabroker_conn_param *param, size_t max_data,
		   size_t max_lookup_data, struct rdmabroker_conn_param *ret)
{
	int r = wire_check_process(&id->session->wire);

	/* Before the QP is changed: in a child it belongs to the parent. */
	if (r < 0)
		return r;
	if (id_is_datagram(id))
		max_data = max_lookup_data;
	if (!param && !id->qp && !id_is_datagram(id))
		return fail(EINVAL, "%s: no parameters, and no QP that the library knows", name);
	*ret = param ? *param : default_param;
	if (ret->private_data && ret->private_data_len > max_data)
		return fail(E2BIG, "%s: %u bytes of private data are more than %zu", name,
			    ret->private_data_len, max_data);
	if (id->qp) {
		ret->qp_num = id->qp->qp_num;
		ret->srq = id->qp->srq != NULL;
	}
	/* Like the kernel: the CM messages have three bits for each. */
	ret->retry_count = at_most(ret->retry_count, 7);
	ret->rnr_retry_count = at_most(ret->rnr_retry_count, 7);
	r = apply_caps(id, ret);
	return r < 0 ? r : check_limits(id, name, ret);
}

/* The QP is moved to RTS before the accept, because the peer may send as soon as it has the answer. */
static int ready_to_accept(struct rdmabroker_id *id, struct rdmabroker_conn_param *param)
{
	int r = fit_to_request(id, param);

	if (r == 0 && id->remote_ece.vendor_id)
		r = qp_set_ece(id, &id->remote_ece);
	if (r == 0)
		r = qp_to_rts(id, param->responder_resources, param->initiator_depth);
	if (r == 0 && id->remote_ece.vendor_id)
		r = qp_query_ece(id, &id->local_ece);
	return r;
}

static Rdmabroker__Ece *out_ece(Rdmabroker__Ece *ret, const struct ibv_ece *ece)
{
	if (ece->vendor_id == 0)
		return NULL;
	rdmabroker__ece__init(ret);
	ret->vendor_id = ece->vendor_id;
	ret->options = ece->options;
	return ret;
}

int conn_fill_connect(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		      struct connect_message *ret)
{
	struct rdmabroker_conn_param p;
	int r = prepare(id, "connect", param, RDMABROKER_CONNECT_DATA_MAX,
			RDMABROKER_LOOKUP_DATA_MAX, &p);

	if (r == 0 && id->qp && !id_is_datagram(id))
		r = qp_query_ece(id, &id->local_ece);
	if (r < 0)
		return r;
	rdmabroker__connect__init(&ret->connect);
	out_conn_param(&ret->param, &p);
	ret->connect.id = id->handle;
	ret->connect.param = &ret->param;
	ret->connect.local_ece = out_ece(&ret->ece, &id->local_ece);
	return 0;
}

/* CALL not NULL: a caller waits. Accepting a look-up has no outcome event, so there the call waits for the reply. */
static int accept_id(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		     struct call *call, int timeout_ms)
{
	Rdmabroker__Accept m = RDMABROKER__ACCEPT__INIT;
	REQUEST(request, ACCEPT, accept, &m);
	struct rdmabroker_conn_param p;
	Rdmabroker__ConnParam out;
	Rdmabroker__Ece ece;
	int r = prepare(id, "accept", param, RDMABROKER_ACCEPT_DATA_MAX,
			RDMABROKER_LOOKUP_ANSWER_DATA_MAX, &p);

	if (r == 0 && id->qp && !id_is_datagram(id))
		r = ready_to_accept(id, &p);
	if (r < 0)
		return r;
	out_conn_param(&out, &p);
	m.id = id->handle;
	m.param = &out;
	m.local_ece = out_ece(&ece, &id->local_ece);
	if (!call)
		r = idcall_do(id, "accept", &request, true, NULL);
	else if (id_is_datagram(id))
		r = idcall_wait(id, "accept", &request, timeout_ms, NULL);
	else
		r = idcall_begin(id, call, "accept", &request, timeout_ms);
	if (r < 0 && !id_is_datagram(id))
		qp_to_error(id);
	return r;
}

int rdmabroker_accept(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param)
{
	return accept_id(id, param, NULL, 0);
}

int rdmabroker_establish(struct rdmabroker_id *id)
{
	Rdmabroker__Establish m = RDMABROKER__ESTABLISH__INIT;
	REQUEST(request, ESTABLISH, establish, &m);

	if (id->qp)
		return fail(EINVAL, "establish: the library does this for a QP that it knows");
	m.id = id->handle;
	return idcall_do(id, "establish", &request, false, NULL);
}

/* Does not wait; a failure is reported as CONNECT_ERROR. */
int id_establish(struct rdmabroker_id *id)
{
	Rdmabroker__Establish m = RDMABROKER__ESTABLISH__INIT;
	REQUEST(request, ESTABLISH, establish, &m);
	struct call like = {
		.name = "establish",
		.handle = id->handle,
		.quiet = true,
		.failure_type = RDMABROKER_EVENT_CONNECT_ERROR,
	};

	m.id = id->handle;
	return idcall_post(id, &like, &request, id->session->wire.call_timeout_ms);
}

int rdmabroker_notify(struct rdmabroker_id *id, enum ibv_event_type event)
{
	Rdmabroker__Notify m = RDMABROKER__NOTIFY__INIT;
	REQUEST(request, NOTIFY, notify, &m);

	m.id = id->handle;
	m.event = event;
	return idcall_do(id, "notify", &request, false, NULL);
}

static int reject(struct rdmabroker_id *id, const char *name, const void *data, uint8_t len,
		  bool ece)
{
	unsigned max = id_is_datagram(id) ? RDMABROKER_LOOKUP_ANSWER_DATA_MAX :
					    RDMABROKER_REJECT_DATA_MAX;
	Rdmabroker__Reject m = RDMABROKER__REJECT__INIT;
	REQUEST(request, REJECT, reject, &m);

	if (data && len > max)
		return fail(E2BIG, "%s: %u bytes of private data are more than %u", name, len, max);
	m.id = id->handle;
	m.private_data.len = data ? len : 0;
	m.private_data.data = (uint8_t *)data;
	m.ece = ece;
	return idcall_do(id, name, &request, false, NULL);
}

int rdmabroker_reject(struct rdmabroker_id *id, const void *data, uint8_t len)
{
	return reject(id, "reject", data, len, /* ece= */ false);
}

int rdmabroker_reject_ece(struct rdmabroker_id *id, const void *data, uint8_t len)
{
	return reject(id, "reject_ece", data, len, /* ece= */ true);
}

int rdmabroker_get_remote_ece(const struct rdmabroker_id *id, struct ibv_ece *ret)
{
	if (id->qp)
		return fail(EINVAL, "get_remote_ece: for a QP that the library knows it is the "
				    "library's affair");
	*ret = id->remote_ece;
	return 0;
}

int rdmabroker_set_local_ece(struct rdmabroker_id *id, const struct ibv_ece *ece)
{
	if (id->qp)
		return fail(EINVAL,
			    "set_local_ece: of a QP that the library knows it asks the device");
	if (!ece->vendor_id || ece->comp_mask)
		return fail(EINVAL, "set_local_ece: no vendor id, or unknown fields");
	id->local_ece = *ece;
	return 0;
}

static bool is_disconnected(struct rdmabroker_id *id)
{
	bool ret;

	wire_lock(&id->session->wire);
	ret = id->disconnected;
	wire_unlock(&id->session->wire);
	return ret;
}

/* Returns 1 if the connection had ended already: nothing was sent, and there is no event to wait for. */
static int disconnect_id(struct rdmabroker_id *id, struct call *call, int timeout_ms)
{
	Rdmabroker__Disconnect m = RDMABROKER__DISCONNECT__INIT;
	REQUEST(request, DISCONNECT, disconnect, &m);
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (!id_is_datagram(id))
		qp_to_error(id);
	if (is_disconnected(id))
		return 1;
	m.id = id->handle;
	return call ? idcall_begin(id, call, "disconnect", &request, timeout_ms) :
		      idcall_do(id, "disconnect", &request, true, NULL);
}

int rdmabroker_disconnect(struct rdmabroker_id *id)
{
	int r = disconnect_id(id, NULL, 0);

	return r < 0 ? r : 0;
}

/* The forms that wait */

static int explain_bad(const struct rdmabroker_event *event, const char *name)
{
	int error;

	switch (event->type) {
	case RDMABROKER_EVENT_REJECTED:
	case RDMABROKER_EVENT_UNREACHABLE:
		if (event->rejected_by == RDMABROKER_REJECTED_BY_NOBODY)
			return fail(EHOSTUNREACH, "%s: the peer does not answer", name);
		return fail(ECONNREFUSED, "%s: rejected%s%s", name, event->text ? ": " : "",
			    event->text ?: "");
	case RDMABROKER_EVENT_DEVICE_REMOVAL:
		return fail(ENODEV, "%s: the device was removed", name);
	default:
		error = event->status < 0 ? -event->status : ECONNABORTED;
		if (event->retry_after_ms > 0)
			return fail_remote(error, event->text ?: "busy", /* rule= */ "",
					   event->retry_after_ms);
		return fail(error, "%s: %s", name, event->text ?: strerror(error));
	}
}

int id_await_one(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		 int64_t deadline, struct event **ret)
{
	const char *name = call->name;
	int r;

	*ret = NULL;
	r = session_take(id->session, id, good | bad | BIT(DEVICE_REMOVAL), deadline, call, ret);
	if (r == -EAGAIN)
		return fail(ETIMEDOUT, "%s: no outcome in time", name);
	if (r < 0 || good & (1ULL << (*ret)->public.type))
		return r;
	return explain_bad(&(*ret)->public, name);
}

int id_await(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
	     int64_t deadline)
{
	struct event *event;
	int r = id_await_one(id, call, good, bad, deadline, &event);

	rdmabroker_free_event(event ? &event->public : NULL);
	return r;
}

const struct rdmabroker_event *rdmabroker_get_response(const struct rdmabroker_id *id)
{
	return id->response ? &id->response->public : NULL;
}

const struct rdmabroker_event *rdmabroker_get_reject(const struct rdmabroker_id *id)
{
	return id->reject ? &id->reject->public : NULL;
}

int rdmabroker_accept_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			   int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	struct call call;
	int r = accept_id(id, param, &call, timeout_ms);

	if (r < 0 || id_is_datagram(id))
		return r;
	r = id_await(id, &call, BIT(ESTABLISHED),
		     BIT(CONNECT_ERROR) | BIT(REJECTED) | BIT(UNREACHABLE) | BIT(DISCONNECTED),
		     deadline);
	if (call.refused)
		qp_to_error(id);
	return r;
}

int rdmabroker_disconnect_wait(struct rdmabroker_id *id, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	struct call call;
	int r = disconnect_id(id, &call, timeout_ms);

	if (r != 0)
		return r < 0 ? r : 0;
	return id_await(id, &call, BIT(DISCONNECTED), 0, deadline);
}

/* Sends nothing. Every event that means the end of the connection ends the wait. */
int rdmabroker_wait_disconnected(struct rdmabroker_id *id, int timeout_ms)
{
	struct call call = { .name = "wait_disconnected" };
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (id_is_datagram(id))
		return fail(EINVAL, "wait_disconnected: an id for datagrams has no connection");
	if (is_disconnected(id))
		return 0;
	return id_await(id, &call, BIT(DISCONNECTED),
			BIT(CONNECT_ERROR) | BIT(REJECTED) | BIT(UNREACHABLE),
			now_ms() + timeout_ms);
}

int rdmabroker_get_request(struct rdmabroker_id *listen, struct rdmabroker_id **ret, int timeout_ms)
{
	struct event *event;
	int r = session_take(listen->session, listen, BIT(CONNECT_REQUEST) | BIT(DEVICE_REMOVAL),
			     now_ms() + timeout_ms, NULL, &event);

	if (r == -EAGAIN)
		return fail(ETIMEDOUT, "get_request: none in time");
	if (r < 0)
		return r;
	if (event->public.type == RDMABROKER_EVENT_DEVICE_REMOVAL) {
		rdmabroker_free_event(&event->public);
		return fail(ENODEV, "get_request: the device was removed");
	}
	*ret = event->public.id;
	(*ret)->request = event;
	return 0;
}

const struct rdmabroker_event *rdmabroker_get_request_event(const struct rdmabroker_id *id)
{
	return id->request ? &id->request->public : NULL;
}

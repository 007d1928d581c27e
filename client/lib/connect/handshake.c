/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "client/lib/connect/connparam.h"
#include "client/lib/event/take.h"
#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/qpstate.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"

/* The calls get_request, accept, establish, notify, reject and disconnect, and those for ECE options. */

int rdmabroker_get_request(struct rdmabroker_id *listen, int timeout_ms, struct rdmabroker_id **ret)
{
	struct call call = { .name = "get_request" };
	struct rdmabroker_event *event;
	int r = take_outcome_event(listen, &call, BIT(CONNECT_REQUEST), 0,
				   deadline_after(timeout_ms), &event);

	if (!event && r == -ETIMEDOUT)
		r = fail(ETIMEDOUT, "get_request: no connection request came before the timeout");
	if (r < 0) {
		rdmabroker_free_event(event);
		return r;
	}
	*ret = event->id;
	(*ret)->request = event;
	return 0;
}

const struct rdmabroker_event *rdmabroker_get_request_event(const struct rdmabroker_id *id)
{
	return id->request;
}

/* As librdmacm: the QP gets the options that the peer has asked for, or none if the peer's device is of another vendor. */
static int take_requested_ece(struct rdmabroker_id *id)
{
	struct ibv_ece ece;
	int r = qpstate_query_ece(id, &ece);

	if (r < 0)
		return r;
	ece.options = ece.vendor_id == id->remote_ece.vendor_id ? id->remote_ece.options : 0;
	return qpstate_set_ece(id, &ece);
}

/* The QP has to be in RTS before the accept, because the peer can send as soon as it gets the answer. */
static int ready_to_accept(struct rdmabroker_id *id, const Rdmabroker__ConnParam *param)
{
	int r = 0;

	if (id->remote_ece.vendor_id)
		r = take_requested_ece(id);
	if (r == 0)
		r = qpstate_to_rts(id, id->qp, (int)param->responder_resources,
				   (int)param->initiator_depth);
	if (r == 0 && id->remote_ece.vendor_id)
		r = qpstate_query_ece(id, &id->local_ece);
	/* The answer bears the vendor that was asked about. */
	if (id->remote_ece.vendor_id && id->local_ece.vendor_id)
		id->local_ece.vendor_id = id->remote_ece.vendor_id;
	return r;
}

/*
 * CALL is as for idcall_step(). For a datagram id CALL is not begun, because accepting a look-up has no outcome event: if
 * CALL is not NULL, waits for the reply, at most TIMEOUT_MS.
 */
static int accept_id(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		     struct call *call, int timeout_ms)
{
	ID_REQUEST(request, m, Accept, ACCEPT, accept, id);
	static const struct step step = {
		.name = "accept",
		.outcomes = BIT(ESTABLISHED),
		.from = 1 << STAGE_REQUEST,
		.to = STAGE_ACCEPTED,
	};
	static const struct step lookup = { .name = "accept" };
	Rdmabroker__ConnParam out;
	Rdmabroker__Ece ece;
	int r = connparam_prepare(id, "accept", param, RDMABROKER_ACCEPT_DATA_MAX,
				  RDMABROKER_LOOKUP_ANSWER_DATA_MAX, &out);

	if (r == 0 && id->qp && !idstate_is_datagram(id))
		r = ready_to_accept(id, &out);
	if (r < 0)
		return r;
	m.param = &out;
	m.local_ece = message_put_ece(&ece, &id->local_ece);
	if (call && idstate_is_datagram(id))
		r = idcall_wait(id, "accept", &request, timeout_ms, NULL);
	else
		r = idcall_step(id, idstate_is_datagram(id) ? &lookup : &step, call, &request,
				timeout_ms);
	if (r < 0 && !idstate_is_datagram(id))
		qpstate_to_error(id);
	return r;
}

int rdmabroker_accept(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param)
{
	return accept_id(id, param, NULL, 0);
}

int rdmabroker_accept_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			   int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct rdmabroker_event *event;
	struct call call;
	int r = accept_id(id, param, &call, timeout_ms);

	if (r < 0 || idstate_is_datagram(id))
		return r;
	/*
	 * The peer's confirmation can get lost. If the peer disconnects soon after, that is the first that comes. But it
	 * was connected, and what it has sent has arrived.
	 */
	r = take_outcome_event(id, &call, BIT(ESTABLISHED) | BIT(DISCONNECTED),
			       BIT(CONNECT_ERROR) | BIT(REJECTED) | BIT(UNREACHABLE), deadline,
			       &event);
	if (r == 0 && event->status < 0)
		r = fail(-event->status, "%s: %s", call.name,
			 event->text ?: strerror(-event->status));
	rdmabroker_free_event(event);
	if (call.state == CALL_REFUSED)
		qpstate_to_error(id);
	return r;
}

int rdmabroker_establish(struct rdmabroker_id *id)
{
	ID_REQUEST(request, m, Establish, ESTABLISH, establish, id);
	static const struct step step = {
		.name = "establish",
		.from = 1 << STAGE_RESPONDED,
		.to = STAGE_ESTABLISHED,
	};

	if (id->qp)
		return fail(EINVAL, "establish: the id has a QP, so the library does this itself");
	if (id->session->flags & RDMABROKER_FAIL_BY_EVENT)
		return idcall_step(id, &step, NULL, &request, 0);
	return idcall_do(id, "establish", &request, ANSWER_AS_EVENT, NULL);
}

int rdmabroker_notify(struct rdmabroker_id *id, enum ibv_event_type event)
{
	ID_REQUEST(request, m, Notify, NOTIFY, notify, id);

	m.event = event;
	return idcall_do(id, "notify", &request, ANSWER_AS_EVENT, NULL);
}

static int reject(struct rdmabroker_id *id, const char *name, const void *data, size_t len,
		  bool ece)
{
	unsigned max = idstate_is_datagram(id) ? RDMABROKER_LOOKUP_ANSWER_DATA_MAX :
						 RDMABROKER_REJECT_DATA_MAX;
	ID_REQUEST(request, m, Reject, REJECT, reject, id);

	if (data && len > max)
		return fail(E2BIG, "%s: %zu bytes of private data exceed the limit of %u", name,
			    len, max);
	m.private_data.len = data ? len : 0;
	m.private_data.data = (uint8_t *)data;
	m.ece = ece;
	idstate_set_stage(id, STAGE_UNKNOWN);
	return idcall_do(id, name, &request, ANSWER_AS_EVENT, NULL);
}

int rdmabroker_reject(struct rdmabroker_id *id, const void *data, size_t len)
{
	return reject(id, "reject", data, len, /* ece= */ false);
}

int rdmabroker_reject_ece(struct rdmabroker_id *id, const void *data, size_t len)
{
	return reject(id, "reject_ece", data, len, /* ece= */ true);
}

int rdmabroker_get_remote_ece(const struct rdmabroker_id *id, struct ibv_ece *ret)
{
	if (id->qp)
		return fail(
			EINVAL,
			"get_remote_ece: the id has a QP, so the library negotiates ECE itself");
	*ret = id->remote_ece;
	return 0;
}

int rdmabroker_set_local_ece(struct rdmabroker_id *id, const struct ibv_ece *ece)
{
	if (id->qp)
		return fail(EINVAL,
			    "set_local_ece: the id has a QP, so the library negotiates ECE itself");
	if (!ece->vendor_id || ece->comp_mask)
		return fail(EINVAL,
			    "set_local_ece: vendor_id must not be 0, and comp_mask must be 0");
	id->local_ece = *ece;
	return 0;
}

/*
 * Perhaps the peer has disconnected, and waits for the confirmation. With RDMABROKER_FAIL_BY_EVENT, do not wait for the
 * outcome: the program knows that the connection has ended, so that a failure tells it nothing.
 */
static int confirm(struct rdmabroker_id *id, Rdmabroker__Request *request)
{
	const unsigned flags = id->session->flags;
	struct call like = { .name = "disconnect", .answer = ANSWER_DROPPED };

	if (flags & RDMABROKER_NONBLOCK || !(flags & RDMABROKER_FAIL_BY_EVENT))
		return idcall_do(id, like.name, request, ANSWER_FAILURE_AS_EVENT, NULL);
	return idcall_post(id, &like, request, id->session->wire.call_timeout_ms);
}

/*
 * CALL is as for idcall_step(). Returns 1 if DISCONNECTED was taken before: no event will come, and CALL is not begun.
 * Then the disconnect is sent only with RDMABROKER_CONFIRM_DISCONNECT, to reply to the peer's.
 */
static int disconnect_id(struct rdmabroker_id *id, struct call *call, int timeout_ms)
{
	ID_REQUEST(request, m, Disconnect, DISCONNECT, disconnect, id);
	/* No outcomes: DISCONNECTED does not imply success, because the peer can disconnect too. */
	static const struct step step = {
		.name = "disconnect",
		.from = 1 << STAGE_CONNECTING | 1 << STAGE_RESPONDED | 1 << STAGE_ACCEPTED |
			1 << STAGE_ESTABLISHED,
	};
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (!idstate_is_datagram(id))
		qpstate_to_error(id);
	if (!idstate_read(id, &id->disconnected))
		return idcall_step(id, &step, call, &request, timeout_ms);
	if (!(id->session->flags & RDMABROKER_CONFIRM_DISCONNECT))
		return 1;
	r = call ? idcall_wait(id, step.name, &request, timeout_ms, NULL) : confirm(id, &request);
	/* If the broker is gone, no peer waits for the confirmation. */
	return r < 0 && r != -ECONNRESET ? r : 1;
}

int rdmabroker_disconnect(struct rdmabroker_id *id)
{
	int r = disconnect_id(id, NULL, 0);

	return r < 0 ? r : 0;
}

int rdmabroker_disconnect_wait(struct rdmabroker_id *id, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct call call;
	int r = disconnect_id(id, &call, timeout_ms);

	if (r != 0)
		return r < 0 ? r : 0;
	return take_outcome(id, &call, BIT(DISCONNECTED), 0, deadline);
}

/* An event that reports a failure of the connection ends the wait too, with the event's error. */
int rdmabroker_wait_disconnected(struct rdmabroker_id *id, int timeout_ms)
{
	struct call call = { .name = "wait_disconnected" };
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (idstate_is_datagram(id))
		return fail(EINVAL, "wait_disconnected: a datagram id has no connection");
	if (idstate_read(id, &id->disconnected))
		return 0;
	return take_outcome(id, &call, BIT(DISCONNECTED),
			    BIT(CONNECT_ERROR) | BIT(REJECTED) | BIT(UNREACHABLE),
			    deadline_after(timeout_ms));
}

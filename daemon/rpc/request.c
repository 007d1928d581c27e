/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/bind.h"
#include "core/conn.h"
#include "core/group.h"
#include "core/handover.h"
#include "core/id.h"
#include "core/lease.h"
#include "core/listen.h"
#include "core/option.h"
#include "core/resolve.h"
#include "core/settings.h"
#include "core/table.h"
#include "proto/address.h"
#include "proto/version.h"
#include "rpc/call.h"
#include "rpc/convert.h"
#include "rpc/request.h"
#include "rpc/server.h"
#include "util/util.h"

static int get_id(struct call *call, uint32_t handle, struct id **ret)
{
	return table_find(call->session, handle, ret, &call->failure);
}

static void reply_id_info(struct call *call, struct id *id)
{
	out_id_info(&call->space.id_info, id);
	REPLY(call, id_info, ID_INFO, &call->space.id_info.info);
}

static int do_hello(struct call *call)
{
	const Rdmabroker__Hello *hello = call->request->hello;
	Rdmabroker__HelloResult *result = &call->space.hello;
	struct identity *identity = &call->session->identity;
	const char *question = NULL;
	int r;

	if (hello->version < 1)
		return failure_set(&call->failure, STATUS_VERSION,
				   "protocol version %u is not spoken here; 1 is", hello->version);
	rdmabroker__hello_result__init(result);
	result->version = 1;
	REPLY(call, hello, HELLO, result);
	/* The proof comes before any decision, because rules can depend on the unit. */
	if (hello->features & RDMABROKER__FEATURE__FEATURE_PROOF)
		question = identity_ask(identity);
	if (question) {
		result->proof = (char *)question;
		return 0;
	}
	if (!call->again)
		identity_prove(identity, call->fd);
	r = session_find_unit(call->session, &call->failure);
	if (r == 0)
		r = session_greet(call->session, &call->failure);
	if (r != 0)
		return r;
	result->daemon_version = (char *)RDMABROKER_VERSION;
	result->max_ids = call->session->core->settings.max_ids_per_session;
	return 0;
}

static int create_id(struct call *call, const Rdmabroker__CreateId *m, bool bare)
{
	struct id *id;

	switch (m->port_space) {
	case RDMA_PS_TCP:
	case RDMA_PS_UDP:
	case RDMA_PS_IB:
	case RDMA_PS_IPOIB:
		break;
	default:
		return failure_set(&call->failure, STATUS_BAD_REQUEST,
				   "there is no port space 0x%x", m->port_space);
	}
	if (m->id == 0)
		return bad_request(call, "the id's number is missing");
	return id_new(&id, call->session, m->id, (enum rdma_port_space)m->port_space, bare,
		      &call->failure);
}

static int do_create_id(struct call *call)
{
	return create_id(call, call->request->create_id, /* bare= */ false);
}

static int do_destroy_id(struct call *call)
{
	struct id *id;
	int r = get_id(call, call->request->destroy_id->id, &id);

	if (r == 0)
		id_free(id);
	return r;
}

static int do_set_option(struct call *call)
{
	const Rdmabroker__SetOption *m = call->request->set_option;
	struct id *id;
	int r = get_id(call, m->id, &id);

	return r != 0 ? r : option_set(id, (int)m->option, m->value, &call->failure);
}

static int do_bind_addr(struct call *call)
{
	const Rdmabroker__BindAddr *m = call->request->bind_addr;
	struct sockaddr_storage addr;
	const char *wrong = address_unpack(&addr, m->addr);
	struct qp_attr qp;
	struct id *id;
	int r;

	r = get_id(call, m->id, &id);
	if (r == 0 && wrong)
		r = bad_request(call, wrong);
	if (r == 0)
		r = bind_addr(id, (struct sockaddr *)&addr, &call->failure);
	if (r != 0)
		return r;
	reply_id_info(call, id);
	/* Without the attributes the client requests them when it needs them. */
	if (call->space.id_info.from.device &&
	    id_qp_attr(id, IBV_QPS_INIT, &qp, &call->failure) == 0) {
		out_qp_attr(&call->space.bound_init, &qp);
		call->reply->init = &call->space.bound_init.attr;
	}
	return 0;
}

static int do_listen(struct call *call)
{
	const Rdmabroker__Listen *m = call->request->listen;
	struct id *id;
	int r;

	r = get_id(call, m->id, &id);
	if (r == 0)
		r = listen_start(id, m->backlog, &call->failure);
	if (r == 0)
		reply_id_info(call, id);
	return r;
}

static const char *in_plan(struct plan *ret, const Rdmabroker__ResolveAddr *m)
{
	const char *wrong = in_ece(&ret->local_ece, m->connect->local_ece);

	if (!wrong)
		wrong = in_conn_param(&ret->param, m->connect->param, sizeof(ret->private_data));
	if (wrong)
		return wrong;
	if (!m->route)
		return "to connect at once needs the route";
	if (strlen(m->device) >= sizeof(ret->device))
		return "the device's name is longer than 63 bytes";
	if (m->port_num > UINT8_MAX || m->pkey_index > UINT16_MAX)
		return "there is no such port or pkey index";
	strcpy(ret->device, m->device);
	ret->port_num = (uint8_t)m->port_num;
	ret->pkey_index = (uint16_t)m->pkey_index;
	return NULL;
}

static int do_resolve_addr(struct call *call)
{
	const Rdmabroker__ResolveAddr *m = call->request->resolve_addr;
	struct sockaddr_storage src, dst;
	const char *wrong = NULL;
	struct plan plan;
	struct id *id;
	int r;

	if (m->src)
		wrong = address_unpack(&src, m->src);
	if (!wrong)
		wrong = address_unpack(&dst, m->dst);
	if (!wrong && m->src && src.ss_family != dst.ss_family)
		wrong = "source and destination are not of one address family";
	if (!wrong && m->connect)
		wrong = in_plan(&plan, m);
	r = get_id(call, m->id, &id);
	if (r == 0 && !wrong && m->connect && id_is_datagram(id))
		wrong = "to connect at once is for connections, not for look-ups";
	if (r == 0 && wrong)
		r = bad_request(call, wrong);
	if (r == 0)
		r = resolve_addr(id, m->src ? (struct sockaddr *)&src : NULL,
				 (struct sockaddr *)&dst, m->timeout_ms, m->route,
				 m->connect ? &plan : NULL, &call->failure);
	return r;
}

static int do_resolve_route(struct call *call)
{
	struct id *id;
	int r = get_id(call, call->request->resolve_route->id, &id);

	return r != 0 ? r :
			resolve_route(id, call->request->resolve_route->timeout_ms, &call->failure);
}

static int do_connect(struct call *call)
{
	const Rdmabroker__Connect *m = call->request->connect;
	struct rdma_conn_param param;
	struct ibv_ece ece;
	const char *wrong = in_ece(&ece, m->local_ece);
	struct id *id;
	int r = get_id(call, m->id, &id);

	if (r == 0 && !wrong)
		wrong = in_conn_param(&param, m->param, id_is_datagram(id) ? 180 : 56);
	if (r == 0 && wrong)
		r = bad_request(call, wrong);
	return r != 0 ? r : conn_connect(id, &param, &ece, &call->failure);
}

static int do_accept(struct call *call)
{
	const Rdmabroker__Accept *m = call->request->accept;
	struct rdma_conn_param param;
	struct ibv_ece ece;
	const char *wrong = in_ece(&ece, m->local_ece);
	struct id *id;
	int r = get_id(call, m->id, &id);

	if (r == 0 && !wrong)
		wrong = in_conn_param(&param, m->param, id_is_datagram(id) ? 136 : 196);
	if (r == 0 && wrong)
		r = bad_request(call, wrong);
	return r != 0 ? r : conn_accept(id, &param, &ece, &call->failure);
}

static int do_establish(struct call *call)
{
	struct id *id;
	int r = get_id(call, call->request->establish->id, &id);

	return r != 0 ? r : conn_establish(id, &call->failure);
}

static int do_reject(struct call *call)
{
	const Rdmabroker__Reject *m = call->request->reject;
	struct id *id;
	int r = get_id(call, m->id, &id);

	if (r == 0 && m->private_data.len > (id_is_datagram(id) ? REFUSAL_MAX_LOOKUP : REFUSAL_MAX))
		r = bad_request(call, "too much private data for a reject");
	return r != 0 ? r :
			conn_reject(id, m->private_data.data, m->private_data.len, m->ece,
				    &call->failure);
}

static int do_notify(struct call *call)
{
	const Rdmabroker__Notify *m = call->request->notify;
	struct id *id;
	int r = get_id(call, m->id, &id);

	return r != 0 ? r : conn_notify(id, (enum ibv_event_type)m->event, &call->failure);
}

static int do_get_option(struct call *call)
{
	const Rdmabroker__GetOption *m = call->request->get_option;
	Rdmabroker__GetOptionResult *result = &call->space.get_option;
	struct id *id;
	int value;
	int r = get_id(call, m->id, &id);

	if (r == 0)
		r = option_get(id, (int)m->option, &value, &call->failure);
	if (r != 0)
		return r;
	rdmabroker__get_option_result__init(result);
	result->value = value;
	REPLY(call, get_option, GET_OPTION, result);
	return 0;
}

static int do_join_multicast(struct call *call)
{
	const Rdmabroker__JoinMulticast *m = call->request->join_multicast;
	struct sockaddr_storage addr;
	const char *wrong = address_unpack(&addr, m->addr);
	struct id *id;
	int r = get_id(call, m->id, &id);

	if (!wrong && (m->join_flags == 0 || m->join_flags > 3))
		wrong = "the join flags are neither full member (1) nor send only (2)";
	if (r == 0 && wrong)
		r = bad_request(call, wrong);
	return r != 0 ? r : group_join(id, (struct sockaddr *)&addr, m->join_flags, &call->failure);
}

static int do_leave_multicast(struct call *call)
{
	const Rdmabroker__LeaveMulticast *m = call->request->leave_multicast;
	struct sockaddr_storage addr;
	const char *wrong = address_unpack(&addr, m->addr);
	struct id *id;
	int r = get_id(call, m->id, &id);

	if (r == 0 && wrong)
		r = bad_request(call, wrong);
	return r != 0 ? r : group_leave(id, (struct sockaddr *)&addr, &call->failure);
}

static int do_export_id(struct call *call)
{
	struct id *id;
	int r = get_id(call, call->request->export_id->id, &id);

	return r != 0 ? r : handover_export(id, &call->reply_fd, &call->failure);
}

static Rdmabroker__QpAttr *reply_qp_attr(struct out_qp_attr *space, const struct qp_attr *qp)
{
	if (!qp->mask)
		return NULL;
	out_qp_attr(space, qp);
	return &space->attr;
}

static int do_import_id(struct call *call)
{
	Rdmabroker__ImportIdResult *result = &call->space.import_id;
	struct session_event event = { 0 };
	struct id *id;
	int r;

	if (call->fd < 0)
		return bad_request(call, "the descriptor is missing");
	r = handover_import(call->session, call->fd, &id, &call->failure);
	if (r != 0)
		return r;
	rdmabroker__import_id_result__init(result);
	result->id = id->handle;
	result->port_space = id->ps;
	out_id_info(&call->space.info, id);
	result->info = &call->space.info.info;
	if (settings_get_caps(id))
		result->caps = out_caps(&call->space.caps, settings_get_caps(id));
	if (id->request) {
		result->request = true;
		out_conn_param(&call->space.conn, &id->request->conn);
		result->conn = &call->space.conn;
		result->remote_ece = out_ece(&call->space.ece, &id->request->remote_ece);
		/* Without the attributes the client requests them when it needs them. */
		if (listen_fill_request(id, &event, &call->failure) == 0) {
			result->init = reply_qp_attr(&call->space.init, &event.init);
			result->rtr = reply_qp_attr(&call->space.rtr, &event.rtr);
			result->rts = reply_qp_attr(&call->space.rts, &event.rts);
		}
	}
	REPLY(call, import_id, IMPORT_ID, result);
	return 0;
}

static int do_disconnect(struct call *call)
{
	struct id *id;
	int r = get_id(call, call->request->disconnect->id, &id);

	return r != 0 ? r : conn_disconnect(id, &call->failure);
}

static int do_init_qp_attr(struct call *call)
{
	const Rdmabroker__InitQpAttr *m = call->request->init_qp_attr;
	struct qp_attr qp;
	struct id *id;
	int r = get_id(call, m->id, &id);

	if (r == 0)
		r = id_qp_attr(id, (enum ibv_qp_state)m->qp_state, &qp, &call->failure);
	if (r == 0) {
		out_qp_attr(&call->space.qp_attr, &qp);
		REPLY(call, qp_attr, QP_ATTR, &call->space.qp_attr.attr);
	}
	return r;
}

static int do_open_device(struct call *call)
{
	const char *name = call->request->open_device->name;
	Rdmabroker__OpenDeviceResult *result = &call->space.open_device;
	struct fabric_device *device;
	int r;

	if (strlen(name) > 63)
		return bad_request(call, "the device's name is longer than 63 bytes");
	r = lease_open(call->session, name, &device, &call->failure);
	if (r != 0)
		return r;
	rdmabroker__open_device_result__init(result);
	result->name = (char *)fabric_device_name(device);
	result->node = (char *)fabric_device_node(device);
	REPLY(call, open_device, OPEN_DEVICE, result);
	return 0;
}

static int do_close_device(struct call *call)
{
	return lease_close(call->session, call->request->close_device->name);
}

static int do_list_devices(struct call *call)
{
	Rdmabroker__ListDevicesResult *result = &call->space.list_devices;
	struct fabric_device *device = NULL;

	rdmabroker__list_devices_result__init(result);
	result->names = call->space.names;
	while (result->n_names < MAX_DEVICES &&
	       (device = fabric_next_device(call->session->core->fabric, device)))
		result->names[result->n_names++] = (char *)fabric_device_name(device);
	REPLY(call, list_devices, LIST_DEVICES, result);
	return 0;
}

/* permits 0: allowed only before the session was greeted. */
static const struct operation {
	Rdmabroker__Request__OpCase op;
	const char *name;
	unsigned permits; /* one of these is enough */
	int (*handler)(struct call *call);
} operations[] = {
#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
	{ OP(HELLO), "hello", 0, do_hello },
	{ OP(CREATE_ID), "create_id", SESSION_PERMIT_CLIENT, do_create_id },
	{ OP(DESTROY_ID), "destroy_id", SESSION_PERMIT_CLIENT, do_destroy_id },
	{ OP(SET_OPTION), "set_option", SESSION_PERMIT_CLIENT, do_set_option },
	{ OP(BIND_ADDR), "bind_addr", SESSION_PERMIT_CLIENT, do_bind_addr },
	{ OP(LISTEN), "listen", SESSION_PERMIT_CLIENT, do_listen },
	{ OP(RESOLVE_ADDR), "resolve_addr", SESSION_PERMIT_CLIENT, do_resolve_addr },
	{ OP(RESOLVE_ROUTE), "resolve_route", SESSION_PERMIT_CLIENT, do_resolve_route },
	{ OP(CONNECT), "connect", SESSION_PERMIT_CLIENT, do_connect },
	{ OP(ACCEPT), "accept", SESSION_PERMIT_CLIENT, do_accept },
	{ OP(ESTABLISH), "establish", SESSION_PERMIT_CLIENT, do_establish },
	{ OP(REJECT), "reject", SESSION_PERMIT_CLIENT, do_reject },
	{ OP(DISCONNECT), "disconnect", SESSION_PERMIT_CLIENT, do_disconnect },
	{ OP(INIT_QP_ATTR), "init_qp_attr", SESSION_PERMIT_CLIENT, do_init_qp_attr },
	{ OP(OPEN_DEVICE), "open_device", SESSION_PERMIT_CLIENT, do_open_device },
	{ OP(CLOSE_DEVICE), "close_device", SESSION_PERMIT_CLIENT, do_close_device },
	{ OP(GET_STATUS), "get_status", SESSION_PERMIT_OBSERVE, do_get_status },
	{ OP(GET_OPTION), "get_option", SESSION_PERMIT_CLIENT, do_get_option },
	{ OP(NOTIFY), "notify", SESSION_PERMIT_CLIENT, do_notify },
	{ OP(JOIN_MULTICAST), "join_multicast", SESSION_PERMIT_CLIENT, do_join_multicast },
	{ OP(LEAVE_MULTICAST), "leave_multicast", SESSION_PERMIT_CLIENT, do_leave_multicast },
	{ OP(EXPORT_ID), "export_id", SESSION_PERMIT_CLIENT, do_export_id },
	{ OP(IMPORT_ID), "import_id", SESSION_PERMIT_CLIENT, do_import_id },
	{ OP(LIST_DEVICES), "list_devices", SESSION_PERMIT_CLIENT, do_list_devices },
	{ OP(EXPLAIN), "explain", SESSION_PERMIT_OBSERVE, do_explain },
	{ OP(RELOAD), "reload", SESSION_PERMIT_ADMIN, do_reload },
	{ OP(LIST_RULES), "list_rules", SESSION_PERMIT_OBSERVE, do_list_rules },
	{ OP(LIST), "list", SESSION_PERMIT_OBSERVE, do_list },
	{ OP(KICK), "kick", SESSION_PERMIT_ADMIN, do_kick },
	{ OP(DRAIN), "drain", SESSION_PERMIT_ADMIN, do_drain },
	{ OP(GET_METRICS), "get_metrics", SESSION_PERMIT_OBSERVE, do_get_metrics },
	{ OP(WATCH), "watch", SESSION_PERMIT_OBSERVE, do_watch },
#undef OP
};

static const struct operation *find_operation(Rdmabroker__Request__OpCase op)
{
	for (size_t i = 0; i < ELEMENTS_OF(operations); i++)
		if (operations[i].op == op)
			return &operations[i];
	return NULL;
}

bool request_takes_fd(const struct session *session, const Rdmabroker__Request *request)
{
	if (request->op_case == RDMABROKER__REQUEST__OP_HELLO)
		return session->identity.question[0] && !session->permits;
	return request->op_case == RDMABROKER__REQUEST__OP_IMPORT_ID;
}

/*
 * Creates the id that the operation is about, and then carries the operation out: either both or neither. For
 * resolve_addr the id is created bare, because the operation may find a spare for it. It creates the fabric's
 * id itself if it does not.
 */
static int carry_out_with_first(struct call *call, const struct operation *op)
{
	const Rdmabroker__Request *request = call->request;
	const Rdmabroker__CreateId *first = request->first;
	bool bare = op->op == RDMABROKER__REQUEST__OP_RESOLVE_ADDR &&
		    request->resolve_addr->id == first->id;
	struct failure ignored;
	struct id *id;
	int r;

	if (!call->again || call->session->makes_id) {
		r = create_id(call, first, bare);
		call->session->makes_id = r == -EINPROGRESS;
		if (r != 0)
			return r;
	}
	r = op->handler(call);
	if (r == 0 || r == -EINPROGRESS)
		return r;
	if (table_find(call->session, first->id, &id, &ignored) == 0)
		id_free(id);
	return r;
}

static const char *why_not(unsigned permits)
{
	if (permits & SESSION_PERMIT_ADMIN)
		return "only root, the broker's own user and whom a rule for admin allows may ask";
	if (permits & SESSION_PERMIT_OBSERVE)
		return "only root, the broker's own user and whom a rule for observe or admin "
		       "allows may ask";
	return "no session rule allows this user to use RDMA";
}

static int carry_out(struct call *call, bool *greeted)
{
	const struct operation *op = find_operation(call->request->op_case);
	struct failure *failure = &call->failure;
	int r;

	if (!op)
		return failure_set(failure, STATUS_UNKNOWN_OPERATION,
				   "the broker does not know this operation");
	if (op->permits == 0) {
		if (*greeted)
			return failure_set(failure, STATUS_BAD_STATE, "%s: was said already",
					   op->name);
		r = op->handler(call);
		/* Without permits, the reply asks for a proof. */
		*greeted = call->session->permits != 0;
		return r;
	}
	if (!*greeted)
		return failure_set(failure, STATUS_BAD_STATE, "%s: hello comes first", op->name);
	if (!(op->permits & call->session->permits))
		return failure_set(failure, STATUS_NOT_PERMITTED, "%s: %s", op->name,
				   why_not(op->permits));
	if (!call->request->first)
		return op->handler(call);
	if (op->permits != SESSION_PERMIT_CLIENT)
		return failure_set(failure, STATUS_BAD_REQUEST, "%s: is not about an id", op->name);
	return carry_out_with_first(call, op);
}

static void set_internal(struct failure *failure, int r)
{
	failure_set(failure, STATUS_INTERNAL, "the broker failed: %s", strerror(-r));
	failure->error = -r;
}

/* Turns R, which is not 0, into the reply. If it is a status, call.failure explains it. */
static void refuse(struct call *call, int r, Rdmabroker__Failure *ret)
{
	struct session *session = call->session;
	struct failure *failure = &call->failure;
	Rdmabroker__Reply *reply = call->reply;

	if (r == -ETOOMANYREFS) {
		failure_set(
			failure, STATUS_QUOTA,
			"the kernel sends no more descriptors now: too many wait to be received");
		failure->error = -r;
		r = STATUS_QUOTA;
	} else if (r < 0) {
		log_limited(session_log_limit(session), LOG_ERR,
			    "Session %llu: a request failed here: %s.",
			    (unsigned long long)session->number, strerror(-r));
		set_internal(failure, r);
	}
	session->core->metrics.refusals[r < 0 ? STATUS_INTERNAL : r]++;
	out_failure(ret, failure);
	reply->failure = ret;
	reply->result_case = RDMABROKER__REPLY__RESULT__NOT_SET;
	reply->init = NULL;
}

size_t request_pack_refusal(uint64_t serial, int r, uint8_t *buf, size_t size)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__Failure out;
	struct failure failure;

	set_internal(&failure, r);
	out_failure(&out, &failure);
	reply.serial = (uint32_t)serial;
	reply.failure = &out;
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	return rdmabroker__frame__get_packed_size(&frame) <= size ?
		       rdmabroker__frame__pack(&frame, buf) :
		       0;
}

enum request_outcome request_dispatch(struct server *server, struct session *session, bool *greeted,
				      const Rdmabroker__Request *request, bool again, int fd,
				      int (*send)(void *userdata, const Rdmabroker__Frame *frame,
						  int fd, struct failure *failure),
				      void *userdata)
{
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Failure failure;
	struct call
		call; /* not cleared as a whole: its space is large, and each handler clears its own */
	enum request_outcome outcome;
	int r;

	call.server = server;
	call.session = session;
	call.request = request;
	call.again = again;
	call.fd = fd;
	call.reply = &reply;
	call.reply_fd = -1;
	reply.serial = request->serial;
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	session->last_request += !again;
	r = carry_out(&call, greeted);
	if (r == -EINPROGRESS)
		return REQUEST_WAIT;
	/* A Hello that is refused ends the client's connection; a reply that asks for a proof does not. */
	outcome = r == 0 || *greeted ? REQUEST_GO_ON : REQUEST_CLOSE;
	if (r != 0)
		refuse(&call, r, &failure);
	else if (request->quiet && call.reply_fd < 0 && *greeted)
		return REQUEST_GO_ON;
	r = send(userdata, &frame, call.reply_fd, &call.failure);
	/* Our own descriptor. If it was not sent, nobody else has it, and closing it ends the export. */
	closep(&call.reply_fd);
	if (r != 0) {
		refuse(&call, r, &failure);
		send(userdata, &frame, /* fd= */ -1, &call.failure);
	}
	return outcome;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "core/admit/rule_settings.h"
#include "core/object/id.h"
#include "core/verbs/bind.h"
#include "core/verbs/conn.h"
#include "core/verbs/group.h"
#include "core/verbs/handover.h"
#include "core/verbs/id_life.h"
#include "core/verbs/lease.h"
#include "core/verbs/listen.h"
#include "core/verbs/option.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "core/verbs/session_life.h"
#include "proto/address.h"
#include "proto/names.h"
#include "proto/private_data.h"
#include "proto/version.h"
#include "rpc/call.h"

#define N_OPTIONS 4

/* Requests of clients: hello, ids and devices. */

/* What the replies of this file point to. */
union space {
	Rdmabroker__HelloResult hello;
	struct {
		struct out_id_info id_info;
		struct out_qp_attr bound_init;
	};
	struct out_qp_attr qp_attr;
	Rdmabroker__OpenDeviceResult open_device;
	Rdmabroker__GetOptionResult get_option;
	struct {
		Rdmabroker__ImportIdResult import_id;
		Rdmabroker__ConnParam conn;
		Rdmabroker__Ece ece;
		Rdmabroker__Caps caps;
		struct out_id_info info;
		struct out_qp_attr qp;
		uint8_t paths[PATHS_SIZE];
	};
	struct {
		Rdmabroker__ListDevicesResult list_devices;
		char *names[MAX_DEVICES];
	};
};

static int reply_id_info(struct call *call)
{
	union space *space = SPACE(call, union space);

	out_id_info(&space->id_info, call->id);
	return REPLY(call, id_info, ID_INFO, &space->id_info.info);
}

static int in_address(struct call *call, struct sockaddr_storage *ret, const Rdmabroker__Address *m)
{
	const char *wrong = address_unpack(ret, m);

	return wrong ? bad_request(call, wrong) : 0;
}

static int describe_broker(struct call *call, Rdmabroker__HelloResult *result)
{
	const struct core *core = session_get_core(call->session);

	result->daemon_version = (char *)RDMABROKER_VERSION;
	result->max_ids = core_get_settings(core)->max_ids_per_session;
	result->has_devices = lease_count(call->session) > 0;
	result->session = session_get_number(call->session);
	result->apart = session_is_apart(call->session);
	return 0;
}

/*
 * Requires a proof from the client if that is needed and possible. Sets *RET to its name; NULL: none is required.
 * Returns 0 or STATUS_DENIED.
 */
static int require_proof(struct call *call, const char **ret)
{
	struct identity *identity = session_get_identity(call->session);

	*ret = NULL;
	if (call->request->hello->features & RDMABROKER__FEATURE__FEATURE_PROOF)
		*ret = identity_ask(identity);
	if (*ret)
		return 0;
	if (call->attempt != REQUEST_AGAIN)
		identity_prove(identity, call->fd);
	return identity->adopts ? failure_set(&call->failure, STATUS_DENIED,
					      "cannot verify which process adopts the session") :
				  0;
}

int do_hello(struct call *call)
{
	const Rdmabroker__Hello *hello = call->request->hello;
	Rdmabroker__HelloResult *result = &SPACE(call, union space)->hello;
	const char *question;
	int r;

	if (hello->version < 1)
		return failure_set(&call->failure, STATUS_VERSION,
				   "protocol version %u is not supported, only version 1",
				   hello->version);
	rdmabroker__hello_result__init(result);
	result->version = 1;
	result->features = RDMABROKER__FEATURE__FEATURE_GOODBYE |
			   RDMABROKER__FEATURE__FEATURE_PATHS;
	REPLY(call, hello, HELLO, result);
	if (session_is_released(call->session))
		return failure_set(&call->failure, STATUS_BAD_STATE,
				   "the session was released; it can only be adopted");
	/* A previous process has admitted the client of a restored session, and could not tell it. */
	if (session_get_permits(call->session))
		return describe_broker(call, result);
	/* Require the proof before any decision, because rules can depend on the workload, which needs the proof. */
	r = require_proof(call, &question);
	if (r == 0 && question) {
		result->proof = (char *)question;
		return 0;
	}
	session_set_confirms(call->session,
			     hello->features & RDMABROKER__FEATURE__FEATURE_CONFIRMS_DISCONNECT);
	session_set_keeps_leases(call->session,
				 hello->features & RDMABROKER__FEATURE__FEATURE_GOODBYE);
	session_set_at_start(call->session, hello->at_start);
	if (r == 0)
		r = session_find_workload(call->session, &call->failure);
	if (r == 0)
		r = session_greet(call->session, &call->failure);
	session_set_at_start(call->session, false);
	if (r != 0)
		return r;
	session_set_replies_to(call->session, hello->replies_to);
	return describe_broker(call, result);
}

int do_wake(struct call *call)
{
	if (!session_is_apart(call->session))
		return failure_set(&call->failure, STATUS_BAD_STATE,
				   "wake: the session gets its replies by its own socket");
	session_wake(call->session);
	return 0;
}

int do_goodbye(struct call *call)
{
	session_set_keeps_leases(call->session, false);
	return 0;
}

static int set_options(struct id *id, const Rdmabroker__CreateId *m, struct failure *failure)
{
	int r = 0;

	for (size_t i = 0; i < m->n_options && r == 0; i++)
		r = option_set(id, (int)m->options[i]->option, m->options[i]->value, failure);
	return r;
}

int do_client_create_id(struct call *call, const Rdmabroker__CreateId *m)
{
	struct id *id;
	int r;

	if (!portspace_name((int)m->port_space))
		return failure_set(&call->failure, STATUS_BAD_REQUEST, "unknown port space 0x%x",
				   m->port_space);
	if (m->id == 0)
		return bad_request(call, "the id's number is missing");
	if (m->n_options > N_OPTIONS)
		return bad_request(call, "more options than there are");
	r = id_new(&id, call->session, m->id, (enum rdma_port_space)m->port_space, &call->failure);
	if (r != 0)
		return r;
	r = set_options(id, m, &call->failure);
	if (r != 0)
		id_free(id);
	return r;
}

int do_create_id(struct call *call)
{
	return do_client_create_id(call, call->request->create_id);
}

int do_destroy_id(struct call *call)
{
	int r = group_leave_all(call->id, call->session);

	if (r == 0)
		id_free(call->id);
	return r;
}

int do_set_option(struct call *call)
{
	const Rdmabroker__SetOption *m = call->request->set_option;

	return option_set(call->id, (int)m->option, m->value, &call->failure);
}

int do_bind_addr(struct call *call)
{
	union space *space = SPACE(call, union space);
	struct sockaddr_storage addr;
	struct qp_attr qp;
	int r = in_address(call, &addr, call->request->bind_addr->addr);

	if (r == 0)
		r = bind_addr(call->id, (struct sockaddr *)&addr, &call->failure);
	if (r != 0)
		return r;
	reply_id_info(call);
	/* If the attributes are missing here, the client requests them when it needs them. */
	if (space->id_info.from.device &&
	    rule_settings_get_qp_attr(call->id, IBV_QPS_INIT, &qp, &call->failure) == 0) {
		out_qp_attr(&space->bound_init, &qp);
		call->reply->init = &space->bound_init.attr;
	}
	return 0;
}

int do_listen(struct call *call)
{
	int r = listen_start(call->id, call->request->listen->backlog, &call->failure);

	return r != 0 ? r : reply_id_info(call);
}

int do_resolve_addr(struct call *call)
{
	const Rdmabroker__ResolveAddr *m = call->request->resolve_addr;
	struct sockaddr_storage src, dst;
	const char *wrong = NULL;

	if (m->src)
		wrong = address_unpack(&src, m->src);
	if (!wrong)
		wrong = address_unpack(&dst, m->dst);
	if (!wrong && m->src && src.ss_family != dst.ss_family)
		wrong = "source and destination have different address families";
	if (wrong)
		return bad_request(call, wrong);
	return resolve_addr(call->id, m->src ? (struct sockaddr *)&src : NULL,
			    (struct sockaddr *)&dst, m->timeout_ms,
			    (m->route ? ROUTE_TOO : 0) | (m->ahead ? ROUTE_AHEAD : 0),
			    &call->failure);
}

int do_resolve_route(struct call *call)
{
	const Rdmabroker__ResolveRoute *m = call->request->resolve_route;

	if (m->path.len > 0)
		return resolve_route_set_path(call->id, m->timeout_ms, m->path.data, m->path.len,
					      &call->failure);
	return resolve_route(call->id, m->timeout_ms, &call->failure);
}

/* What a connect and an accept have in common. */
struct offer {
	struct rdma_conn_param param;
	struct ibv_ece ece;
};

/* DATA_MAX: the maximum of private data in bytes; LOOKUP_DATA_MAX: the maximum if the id is a datagram id. */
static int in_offer(struct offer *ret, struct call *call, const Rdmabroker__ConnParam *param,
		    const Rdmabroker__Ece *ece, size_t data_max, size_t lookup_data_max)
{
	const char *wrong = in_ece(&ret->ece, ece);

	if (!wrong)
		wrong = in_conn_param(&ret->param, param,
				      id_is_datagram(call->id) ? lookup_data_max : data_max);
	return wrong ? bad_request(call, wrong) : 0;
}

int do_connect(struct call *call)
{
	const Rdmabroker__Connect *m = call->request->connect;
	struct offer h;
	int r = in_offer(&h, call, m->param, m->local_ece, PRIVATE_DATA_CONNECT,
			 PRIVATE_DATA_LOOKUP);

	return r != 0 ? r : conn_connect(call->id, &h.param, &h.ece, &call->failure);
}

int do_accept(struct call *call)
{
	const Rdmabroker__Accept *m = call->request->accept;
	struct offer h;
	int r = in_offer(&h, call, m->param, m->local_ece, PRIVATE_DATA_ACCEPT,
			 PRIVATE_DATA_LOOKUP_ANSWER);

	return r != 0 ? r : conn_accept(call->id, &h.param, &h.ece, &call->failure);
}

int do_establish(struct call *call)
{
	return conn_establish(call->id, &call->failure);
}

int do_reject(struct call *call)
{
	const Rdmabroker__Reject *m = call->request->reject;

	if (m->private_data.len > (id_is_datagram(call->id) ? REFUSAL_MAX_LOOKUP : REFUSAL_MAX))
		return bad_request(call, "too much private data for a reject");
	return conn_reject(call->id, m->private_data.data, m->private_data.len, m->ece,
			   &call->failure);
}

int do_notify(struct call *call)
{
	return conn_notify(call->id, (enum ibv_event_type)call->request->notify->event,
			   &call->failure);
}

int do_get_option(struct call *call)
{
	Rdmabroker__GetOptionResult *result = &SPACE(call, union space)->get_option;
	int value, r;

	r = option_get(call->id, (int)call->request->get_option->option, &value, &call->failure);
	if (r != 0)
		return r;
	rdmabroker__get_option_result__init(result);
	result->value = value;
	return REPLY(call, get_option, GET_OPTION, result);
}

int do_join_multicast(struct call *call)
{
	const Rdmabroker__JoinMulticast *m = call->request->join_multicast;
	struct sockaddr_storage addr;
	int r = in_address(call, &addr, m->addr);

	if (r == 0 && (m->join_flags == 0 || m->join_flags > 3))
		r = bad_request(call,
				"the join flags are neither full member (1) nor send only (2)");
	return r != 0 ? r :
			group_join(call->id, (struct sockaddr *)&addr, m->join_flags,
				   &call->failure);
}

int do_leave_multicast(struct call *call)
{
	struct sockaddr_storage addr;
	int r = in_address(call, &addr, call->request->leave_multicast->addr);

	return r != 0 ? r : group_leave(call->id, (struct sockaddr *)&addr, &call->failure);
}

int do_export_id(struct call *call)
{
	return handover_export(call->id, &call->reply_fd, &call->failure);
}

int do_import_id(struct call *call)
{
	union space *space = SPACE(call, union space);
	Rdmabroker__ImportIdResult *result = &space->import_id;
	struct session_event event = { 0 };
	struct id *id;
	int r, type;

	if (call->fd < 0)
		return bad_request(call, "the descriptor is missing");
	r = handover_import(call->session, call->fd, &id, &call->failure);
	if (r != 0)
		return r;
	rdmabroker__import_id_result__init(result);
	result->id = id_get_handle(id);
	result->port_space = id_get_port_space(id);
	if (option_get(id, option_kinds[OPTION_QP_TYPE].number, &type, &call->failure) == 0 &&
	    type > 0)
		result->qp_type = (uint32_t)type;
	out_id_info(&space->info, id);
	result->info = &space->info.info;
	if (rule_settings_get_caps(id))
		result->caps = out_caps(&space->caps, rule_settings_get_caps(id));
	if (id_get_request(id)) {
		result->request = true;
		out_conn_param(&space->conn, &id_get_request(id)->conn);
		result->conn = &space->conn;
		result->remote_ece = out_ece(&space->ece, &id_get_request(id)->remote_ece);
		result->paths = out_paths(space->paths, id);
		/* If the attributes are missing here, the client requests them when it needs them. */
		if (rule_settings_fill_attrs(id, &event, &call->failure) == 0)
			result->qp = out_qp_attrs(&space->qp, &event);
	}
	return REPLY(call, import_id, IMPORT_ID, result);
}

int do_disconnect(struct call *call)
{
	return conn_disconnect(call->id, &call->failure);
}

int do_init_qp_attr(struct call *call)
{
	struct out_qp_attr *space = &SPACE(call, union space)->qp_attr;
	struct qp_attr qp;
	int r = rule_settings_get_qp_attr(call->id,
					  (enum ibv_qp_state)call->request->init_qp_attr->qp_state,
					  &qp, &call->failure);

	if (r != 0)
		return r;
	out_qp_attr(space, &qp);
	return REPLY(call, qp_attr, QP_ATTR, &space->attr);
}

int do_open_device(struct call *call)
{
	const char *name = call->request->open_device->name;
	Rdmabroker__OpenDeviceResult *result = &SPACE(call, union space)->open_device;
	struct fabric_device *device;
	int r;

	if (strlen(name) > 63)
		return bad_request(call, "the device's name is longer than 63 bytes");
	session_set_at_start(call->session, call->request->open_device->at_start);
	r = lease_open(call->session, name, &device, &call->failure);
	session_set_at_start(call->session, false);
	if (r != 0)
		return r;
	rdmabroker__open_device_result__init(result);
	result->name = (char *)fabric_device_name(device);
	result->node = (char *)fabric_device_node(device);
	return REPLY(call, open_device, OPEN_DEVICE, result);
}

int do_lend_device(struct call *call)
{
	const Rdmabroker__LendDevice *m = call->request->lend_device;

	if (strlen(m->name) > 63)
		return bad_request(call, "the device's name is longer than 63 bytes");
	return m->end ? lease_end_loan(call->session, m->name, m->uid) :
			lease_lend(call->session, m->name, m->uid, &call->failure);
}

int do_close_device(struct call *call)
{
	return lease_close(call->session, call->request->close_device->name);
}

int do_list_devices(struct call *call)
{
	union space *space = SPACE(call, union space);
	Rdmabroker__ListDevicesResult *result = &space->list_devices;
	struct fabric_device *device = NULL;

	rdmabroker__list_devices_result__init(result);
	result->names = space->names;
	while (result->n_names < MAX_DEVICES &&
	       (device = fabric_next_device(core_get_fabric(session_get_core(call->session)),
					    device)))
		result->names[result->n_names++] = (char *)fabric_device_name(device);
	return REPLY(call, list_devices, LIST_DEVICES, result);
}

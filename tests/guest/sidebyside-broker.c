/* SPDX-License-Identifier: BSD-2-Clause */

/* The backend "broker": librdmabroker. */

#include <errno.h>
#include <netdb.h>
#include <rdmabroker.h>
#include <stdio.h>
#include <string.h>

#include "tests/guest/sidebyside.h"

static struct rdmabroker *sessions[N_SIDES];

/* The context of ids whose calls wait for their result. */
static char waits;

static int broker_open(enum side side)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	int r;

	/* As with librdmacm, the program replies to its peer's disconnect. */
	options.flags = RDMABROKER_CONFIRM_DISCONNECT;
	r = rdmabroker_open(&options, &sessions[side]);
	if (r < 0)
		fprintf(stderr, "sidebyside: %s\n", rdmabroker_last_failure()->text);
	return r;
}

static void broker_close(enum side side)
{
	rdmabroker_close(sessions[side]);
}

static int broker_get_fd(enum side side)
{
	return rdmabroker_get_fd(sessions[side]);
}

/* Prints a failed call's error text on stderr, which is not compared. */
static int tell(int r)
{
	if (r >= 0)
		return 0;
	fprintf(stderr, "sidebyside: %s\n", rdmabroker_last_failure()->text);
	return r;
}

static int broker_get_event(enum side side, struct event *ret)
{
	struct rdmabroker_event *event;
	int r = rdmabroker_get_event(sessions[side], 0, &event);

	if (r < 0)
		return r;
	*ret = (struct event){
		.type = rdmabroker_event_str(event->type) + strlen("RDMABROKER_EVENT_"),
		.status = event->status,
		.id = event->id,
		.listen_id = event->listen_id,
		.conn = {
			.responder_resources = event->conn->responder_resources,
			.initiator_depth = event->conn->initiator_depth,
			.flow_control = event->conn->flow_control,
			.retry_count = event->conn->retry_count,
			.rnr_retry_count = event->conn->rnr_retry_count,
			.srq = event->conn->srq,
			.qp_num = event->conn->qp_num,
		},
		.ud = {
			.ah_attr = event->ud->ah_attr,
			.qp_num = event->ud->qp_num,
			.qkey = event->ud->qkey,
		},
		.join_context = event->join_context,
	};
	if (event->conn->private_data) {
		memcpy(ret->data, event->conn->private_data, event->conn->private_data_len);
		ret->data_len = event->conn->private_data_len;
	}
	for (size_t i = 0; i < event->n_paths && i < PATHS_MAX; i++)
		ret->paths[ret->n_paths++] = event->paths[i];
	rdmabroker_free_event(event);
	return 0;
}

static int broker_create_id(enum side side, bool wait, enum rdma_port_space ps, void **ret)
{
	struct rdmabroker_id *id;
	int r;

	r = rdmabroker_create_id(sessions[side], (enum rdmabroker_port_space)ps,
				 wait ? &waits : NULL, &id);
	if (r == 0)
		*ret = id;
	return r;
}

/* The library's endpoints are for RC and UD. */
static int create_of_type(enum side side, bool passive, enum rdma_port_space ps,
			  enum ibv_qp_type type, struct sockaddr *addr, struct rdmabroker_id **ret)
{
	int r = rdmabroker_create_id(sessions[side], (enum rdmabroker_port_space)ps, NULL, ret);

	if (r < 0)
		return r;
	r = rdmabroker_set_option(*ret, RDMABROKER_OPTION_QP_TYPE, (int)type);
	if (r == 0)
		r = passive ? rdmabroker_bind_addr(*ret, addr) :
			      rdmabroker_resolve_wait(*ret, NULL, addr, RESOLVE_MS);
	if (r < 0)
		rdmabroker_destroy_id(*ret);
	return r;
}

static int broker_create_ep(enum side side, bool passive, enum rdma_port_space ps,
			    enum ibv_qp_type type, const char *node, const char *service,
			    void **ret)
{
	const struct addrinfo hints = {
		.ai_flags = passive ? AI_PASSIVE : 0,
		.ai_socktype = ps == RDMA_PS_UDP ? SOCK_DGRAM : SOCK_STREAM,
	};
	struct rdmabroker_id *id;
	struct addrinfo *info;
	int r;

	if (getaddrinfo(node, service, &hints, &info) != 0)
		return -ENOENT;
	r = type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV ?
		    create_of_type(side, passive, ps, type, info->ai_addr, &id) :
		    rdmabroker_create_ep(sessions[side], info, (enum rdmabroker_port_space)ps, NULL,
					 NULL, DEADLINE_MS, &id);
	freeaddrinfo(info);
	if (r == 0)
		*ret = id;
	return r;
}

static int broker_destroy_id(void *id)
{
	rdmabroker_destroy_id(id);
	return 0;
}

static int broker_migrate_id(void *id, enum side side)
{
	int r = rdmabroker_migrate_id(id, sessions[side]);

	/* As with librdmacm, calls on an id with a channel do not wait. */
	if (r == 0)
		rdmabroker_set_context(id, NULL);
	return tell(r);
}

static int broker_bind_addr(void *id, struct sockaddr *addr)
{
	return tell(rdmabroker_bind_addr(id, addr));
}

static int broker_listen(void *id, int backlog)
{
	return tell(rdmabroker_listen(id, backlog));
}

static int broker_get_request(void *id, void **ret)
{
	struct rdmabroker_id *request;
	int r = rdmabroker_get_request(id, DEADLINE_MS, &request);

	if (r == 0)
		*ret = request;
	return tell(r);
}

static bool has_to_wait(void *id)
{
	return rdmabroker_get_context(id) == &waits;
}

static int broker_resolve_addr(void *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	return tell(has_to_wait(id) ? rdmabroker_resolve_addr_wait(id, src, dst, timeout_ms) :
				      rdmabroker_resolve_addr(id, src, dst, timeout_ms));
}

static int broker_resolve_route(void *id, int timeout_ms)
{
	return tell(has_to_wait(id) ? rdmabroker_resolve_route_wait(id, timeout_ms) :
				      rdmabroker_resolve_route(id, timeout_ms));
}

static void convert(const struct rdma_conn_param *from, struct rdmabroker_conn_param *ret)
{
	*ret = (struct rdmabroker_conn_param){
		.size = sizeof(struct rdmabroker_conn_param),
		.private_data = from->private_data,
		.private_data_len = from->private_data_len,
		.responder_resources = from->responder_resources,
		.initiator_depth = from->initiator_depth,
		.flow_control = from->flow_control,
		.retry_count = from->retry_count,
		.rnr_retry_count = from->rnr_retry_count,
		.srq = from->srq,
		.qp_num = from->qp_num,
	};
}

static int broker_set_path(void *id, const struct ibv_path_record *path)
{
	return tell(rdmabroker_set_path(id, path, RESOLVE_MS));
}

static int broker_connect(void *id, struct rdma_conn_param *param)
{
	struct rdmabroker_conn_param p, *converted = param ? &p : NULL;

	if (param)
		convert(param, &p);
	return tell(has_to_wait(id) ? rdmabroker_connect_wait(id, converted, DEADLINE_MS) :
				      rdmabroker_connect(id, converted));
}

static int broker_establish(void *id)
{
	return tell(rdmabroker_establish(id));
}

static int broker_accept(void *id, struct rdma_conn_param *param)
{
	struct rdmabroker_conn_param p, *converted = param ? &p : NULL;

	if (param)
		convert(param, &p);
	return tell(has_to_wait(id) ? rdmabroker_accept_wait(id, converted, DEADLINE_MS) :
				      rdmabroker_accept(id, converted));
}

static int broker_reject(void *id, const void *data, uint8_t len)
{
	return tell(rdmabroker_reject(id, data, len));
}

static int broker_reject_ece(void *id, const void *data, uint8_t len)
{
	return tell(rdmabroker_reject_ece(id, data, len));
}

static int broker_disconnect(void *id)
{
	return tell(has_to_wait(id) ? rdmabroker_disconnect_wait(id, DEADLINE_MS) :
				      rdmabroker_disconnect(id));
}

static int broker_notify(void *id, enum ibv_event_type event)
{
	return tell(rdmabroker_notify(id, event));
}

static int broker_set_option(void *id, int option, int value)
{
	return tell(rdmabroker_set_option(id, (enum rdmabroker_option)option, value));
}

static int broker_join(void *id, struct sockaddr *addr, enum rdma_cm_mc_join_flags flag,
		       const void *context)
{
	return tell(rdmabroker_join_multicast(id, addr, 1u << flag, (void *)(uintptr_t)context));
}

static int broker_leave(void *id, struct sockaddr *addr)
{
	return tell(rdmabroker_leave_multicast(id, addr));
}

static int broker_set_local_ece(void *id, struct ibv_ece *ece)
{
	return tell(rdmabroker_set_local_ece(id, ece));
}

static int broker_get_remote_ece(void *id, struct ibv_ece *ret)
{
	return tell(rdmabroker_get_remote_ece(id, ret));
}

static int broker_create_qp(void *id, struct ibv_qp_init_attr *attr)
{
	return tell(rdmabroker_create_qp(id, NULL, attr));
}

static void broker_destroy_qp(void *id)
{
	rdmabroker_destroy_qp(id);
}

static int broker_init_qp_attr(void *id, struct ibv_qp_attr *attr, int *mask)
{
	return tell(rdmabroker_init_qp_attr(id, attr, mask));
}

static struct ibv_qp *broker_get_qp(void *id)
{
	return rdmabroker_get_qp(id);
}

static struct ibv_context *broker_get_verbs(void *id)
{
	struct ibv_context *verbs;

	return tell(rdmabroker_get_verbs(id, &verbs)) < 0 ? NULL : verbs;
}

static const struct sockaddr *broker_get_local_addr(void *id)
{
	return rdmabroker_get_local_addr(id);
}

static const struct sockaddr *broker_get_peer_addr(void *id)
{
	return rdmabroker_get_peer_addr(id);
}

/* What a program of librdmabroker knows of a route. There is no P_Key, which librdmacm sets to 0 on RoCE. */
static int broker_get_route(const struct slot *slot, struct route *ret)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask, r = broker_init_qp_attr(slot->id, &attr, &mask);

	if (r < 0)
		return r;
	*ret = (struct route){
		.port_num = attr.port_num,
		.paths = slot->paths,
		.n_paths = slot->n_paths,
	};
	/* On RoCE they follow from the addresses. */
	if (rdmabroker_get_gids(slot->id, &ret->sgid, &ret->dgid) == 0)
		return 0;
	if (slot->n_paths > 0) {
		ret->sgid = slot->paths[0].sgid;
		ret->dgid = slot->paths[0].dgid;
	}
	return 0;
}

const struct backend broker_backend = {
	.name = "broker",
	.port_offset = 1000,
	.open = broker_open,
	.close = broker_close,
	.get_fd = broker_get_fd,
	.get_event = broker_get_event,
	.create_id = broker_create_id,
	.create_ep = broker_create_ep,
	.destroy_id = broker_destroy_id,
	.migrate_id = broker_migrate_id,
	.bind_addr = broker_bind_addr,
	.listen = broker_listen,
	.get_request = broker_get_request,
	.resolve_addr = broker_resolve_addr,
	.resolve_route = broker_resolve_route,
	.set_path = broker_set_path,
	.connect = broker_connect,
	.establish = broker_establish,
	.accept = broker_accept,
	.reject = broker_reject,
	.reject_ece = broker_reject_ece,
	.disconnect = broker_disconnect,
	.notify = broker_notify,
	.set_option = broker_set_option,
	.join = broker_join,
	.leave = broker_leave,
	.set_local_ece = broker_set_local_ece,
	.get_remote_ece = broker_get_remote_ece,
	.create_qp = broker_create_qp,
	.destroy_qp = broker_destroy_qp,
	.init_qp_attr = broker_init_qp_attr,
	.get_qp = broker_get_qp,
	.get_verbs = broker_get_verbs,
	.get_local_addr = broker_get_local_addr,
	.get_peer_addr = broker_get_peer_addr,
	.get_route = broker_get_route,
};

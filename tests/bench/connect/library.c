/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <rdmabroker.h>
#include <string.h>

#include "tests/bench/connect/bench.h"

static struct rdmabroker *session;

static int library_open(const struct sockaddr *addr, void **ret, struct ibv_context **ret_verbs)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker_id *id;
	int r;

	options.flags = RDMABROKER_FAIL_BY_EVENT;
	r = rdmabroker_open(&options, &session);
	if (r < 0)
		return r;
	r = rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id);
	if (r == 0)
		r = rdmabroker_bind_addr(id, addr);
	if (r == 0)
		r = rdmabroker_get_verbs(id, ret_verbs);
	if (r == 0)
		*ret = id;
	return r;
}

static int library_listen(void *id)
{
	return rdmabroker_listen(id, 0);
}

static int library_get_fd(void)
{
	return rdmabroker_get_fd(session);
}

static int library_get_event(struct event *ret, bool wait)
{
	struct rdmabroker_event *event;
	int r = rdmabroker_get_event(session, wait ? DEADLINE_MS : 0, &event);

	if (r < 0)
		return r == -EAGAIN && wait ? -ETIMEDOUT : r;
	/* librdmacm and librdmabroker number the event types alike. */
	*ret = (struct event){
		.type = (enum rdma_cm_event_type)event->type,
		.status = event->status,
		.id = event->id,
		.data_len = event->conn->private_data_len,
	};
	if (ret->data_len > sizeof(ret->data))
		ret->data_len = sizeof(ret->data);
	if (ret->data_len > 0)
		memcpy(ret->data, event->conn->private_data, ret->data_len);
	rdmabroker_free_event(event);
	return 0;
}

static const char *library_get_failure(void)
{
	return rdmabroker_last_failure()->text;
}

static void *library_get_context(void *id)
{
	return rdmabroker_get_context(id);
}

static void library_set_context(void *id, void *context)
{
	rdmabroker_set_context(id, context);
}

static int library_create_id(void **ret)
{
	struct rdmabroker_id *id;
	int r = rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id);

	if (r == 0)
		*ret = id;
	return r;
}

static int library_bind_addr(void *id, struct sockaddr *addr)
{
	return rdmabroker_bind_addr(id, addr);
}

/* Whether one call resolves both the address and the route. */
static bool wants_both(void)
{
	return worker.shared->config.qps != QPS_PROGRAM;
}

static int library_resolve_addr(void *id, struct sockaddr *addr)
{
	return wants_both() ? rdmabroker_resolve(id, NULL, addr, RESOLVE_MS) :
			      rdmabroker_resolve_addr(id, NULL, addr, RESOLVE_MS);
}

static int library_resolve_route(void *id)
{
	return wants_both() ? 0 : rdmabroker_resolve_route(id, RESOLVE_MS);
}

static int library_init_qp_attr(void *id, struct ibv_qp_attr *attr, int *mask)
{
	return rdmabroker_init_qp_attr(id, attr, mask);
}

static struct rdmabroker_conn_param convert(const struct rdma_conn_param *from)
{
	return (struct rdmabroker_conn_param){
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

static int library_connect(void *id, const struct rdma_conn_param *param)
{
	struct rdmabroker_conn_param p = convert(param);

	return rdmabroker_connect(id, &p);
}

static int library_establish(void *id)
{
	return rdmabroker_establish(id);
}

static int library_accept(void *id, const struct rdma_conn_param *param)
{
	struct rdmabroker_conn_param p = convert(param);

	return rdmabroker_accept(id, &p);
}

static int library_disconnect(void *id)
{
	return rdmabroker_disconnect(id);
}

static int library_destroy_id(void *id)
{
	rdmabroker_destroy_id(id);
	return 0;
}

static int library_rpc(void *id)
{
	int value;

	return rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value);
}

static int library_create_qp(void *id, struct ibv_qp_init_attr *attr)
{
	return rdmabroker_create_qp(id, worker.pd, attr);
}

static void library_destroy_qp(void *id)
{
	rdmabroker_destroy_qp(id);
}

const struct backend library_backend = {
	.open = library_open,
	.listen = library_listen,
	.get_fd = library_get_fd,
	.get_event = library_get_event,
	.get_failure = library_get_failure,
	.get_context = library_get_context,
	.set_context = library_set_context,
	.create_id = library_create_id,
	.bind_addr = library_bind_addr,
	.resolve_addr = library_resolve_addr,
	.resolve_route = library_resolve_route,
	.init_qp_attr = library_init_qp_attr,
	.connect = library_connect,
	.establish = library_establish,
	.accept = library_accept,
	.disconnect = library_disconnect,
	.destroy_id = library_destroy_id,
	.rpc = library_rpc,
	.create_qp = library_create_qp,
	.destroy_qp = library_destroy_qp,
};

/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <rdmabroker.h>

#include "tests/bench/connect/worker.h"

static struct rdmabroker *session;

static int library_create_id(void **ret)
{
	return rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, (struct rdmabroker_id **)ret);
}

static int library_bind_addr(void *id, struct sockaddr *addr)
{
	return rdmabroker_bind_addr(id, addr);
}

static int library_open(struct sockaddr *addr, void **ret, struct ibv_context **ret_verbs)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	int r;

	options.flags = RDMABROKER_FAIL_BY_EVENT;
	r = rdmabroker_open(&options, &session);
	if (r == 0)
		r = library_create_id(ret);
	if (r == 0)
		r = library_bind_addr(*ret, addr);
	return r == 0 ? rdmabroker_get_verbs(*ret, ret_verbs) : r;
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
	};
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

/* A program for the library resolves both the address and the route by one call. */

static int library_resolve_addr(void *id, struct sockaddr *addr)
{
	return worker.moves_qps ? rdmabroker_resolve_addr(id, NULL, addr, RESOLVE_MS) :
				  rdmabroker_resolve(id, NULL, addr, RESOLVE_MS);
}

static int library_resolve_route(void *id)
{
	return worker.moves_qps ? rdmabroker_resolve_route(id, RESOLVE_MS) : 0;
}

static int library_init_qp_attr(void *id, struct ibv_qp_attr *attr, int *mask)
{
	return rdmabroker_init_qp_attr(id, attr, mask);
}

static struct rdmabroker_conn_param describe(uint32_t qp_num)
{
	struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT;

	param.responder_resources = 1;
	param.initiator_depth = 1;
	param.retry_count = 7;
	param.rnr_retry_count = 7;
	param.qp_num = qp_num;
	return param;
}

static int library_connect(void *id, uint32_t qp_num)
{
	struct rdmabroker_conn_param param = describe(qp_num);

	return rdmabroker_connect(id, &param);
}

static int library_establish(void *id)
{
	return rdmabroker_establish(id);
}

static int library_accept(void *id, uint32_t qp_num)
{
	struct rdmabroker_conn_param param = describe(qp_num);

	return rdmabroker_accept(id, &param);
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
	.create_qp = library_create_qp,
	.destroy_qp = library_destroy_qp,
};

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/* Endpoints: ids that one call creates, and binds or resolves. The timeout of each step is librdmacm's. */
#define RESOLVE_TIMEOUT_MS 2000

static int make_passive(struct id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->public, res->ai_src_addr) < 0)
		return -1;
	if (pd)
		id->public.pd = pd;
	if (!attr)
		return 0;
	id->request_qp = malloc(sizeof(*id->request_qp));
	if (!id->request_qp)
		return fail(ENOMEM);
	*id->request_qp = *attr;
	id->request_qp->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int keep_connect_data(struct id *id, const struct rdma_addrinfo *res)
{
	if (!res->ai_connect_len)
		return 0;
	id->connect_data = malloc(res->ai_connect_len);
	if (!id->connect_data)
		return fail(ENOMEM);
	memcpy(id->connect_data, res->ai_connect, res->ai_connect_len);
	id->connect_len = res->ai_connect_len;
	return 0;
}

static int set_route(struct id *id, const struct rdma_addrinfo *res)
{
	if (!res->ai_route_len)
		return rdma_resolve_route(&id->public, RESOLVE_TIMEOUT_MS);
	if (rdma_set_option(&id->public, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
			    res->ai_route_len) < 0)
		return -1;
	return event_await_outcome(id);
}

static int make_active(struct id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		       struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(&id->public, res->ai_src_addr, res->ai_dst_addr, RESOLVE_TIMEOUT_MS) <
		    0 ||
	    set_route(id, res) < 0)
		return -1;
	if (attr) {
		attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
		if (rdma_create_qp(&id->public, pd, attr) < 0)
			return -1;
	}
	return keep_connect_data(id, res);
}

int rdma_create_ep(struct rdma_cm_id **ret, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr)
{
	struct id *id;
	int error, r;

	if (broker_start() < 0)
		return -1;
	FORWARD(rdma_create_ep, ret, res, pd, qp_init_attr);
	if (id_new(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space,
		   (enum ibv_qp_type)res->ai_qp_type) < 0)
		return -1;
	r = res->ai_flags & RAI_PASSIVE ? make_passive(id, res, pd, qp_init_attr) :
					  make_active(id, res, pd, qp_init_attr);
	if (r < 0) {
		error = errno;
		rdma_destroy_ep(&id->public);
		return fail(error);
	}
	*ret = &id->public;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *public)
{
	FORWARD(rdma_destroy_ep, public);
	if (public->qp)
		rdma_destroy_qp(public);
	if (public->srq)
		rdma_destroy_srq(public);
	rdma_destroy_id(public);
}

static int check_request(struct id *listener, struct rdma_cm_event *event)
{
	struct ibv_qp_init_attr attr;

	if (event->event == RDMA_CM_EVENT_REJECTED)
		return fail(ECONNREFUSED);
	if (event->status)
		return fail(-event->status);
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return fail(EINVAL);
	if (!listener->request_qp)
		return 0;
	attr = *listener->request_qp;
	return rdma_create_qp(event->id, listener->public.pd, &attr);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct id *listener = to_id(listen);
	struct rdma_cm_event *event;

	FORWARD_ID(rdma_get_request, listen, id);
	if (!listener->sync)
		return fail(EINVAL);
	id_ack_own_event(listener);
	if (rdma_get_cm_event(listen->channel, &event) < 0)
		return -1;
	if (check_request(listener, event) < 0) {
		listen->event = event;
		return -1;
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}

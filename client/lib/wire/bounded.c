/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/lib/wire/bounded.h"

/* More than a request of a connection's life has. With these, such a request takes less than 1 KiB. */
#define BYTES_MAX 256
#define OPTIONS_MAX 4

static bool bounded_create(const Rdmabroker__CreateId *create)
{
	return !create || create->n_options <= OPTIONS_MAX;
}

static bool bounded_address(const Rdmabroker__Address *address)
{
	return !address || address->addr.len <= BYTES_MAX;
}

static bool bounded_param(const Rdmabroker__ConnParam *param)
{
	return !param || param->private_data.len <= BYTES_MAX;
}

bool bounded_request(const Rdmabroker__Request *request)
{
	if (!bounded_create(request->first))
		return false;
	switch (request->op_case) {
	case RDMABROKER__REQUEST__OP_CREATE_ID:
		return bounded_create(request->create_id);
	case RDMABROKER__REQUEST__OP_BIND_ADDR:
		return bounded_address(request->bind_addr->addr);
	case RDMABROKER__REQUEST__OP_RESOLVE_ADDR:
		return bounded_address(request->resolve_addr->src) &&
		       bounded_address(request->resolve_addr->dst);
	case RDMABROKER__REQUEST__OP_CONNECT:
		return bounded_param(request->connect->param);
	case RDMABROKER__REQUEST__OP_ACCEPT:
		return bounded_param(request->accept->param);
	case RDMABROKER__REQUEST__OP_REJECT:
		return request->reject->private_data.len <= BYTES_MAX;
	/* These have only numbers. */
	case RDMABROKER__REQUEST__OP_DESTROY_ID:
	case RDMABROKER__REQUEST__OP_SET_OPTION:
	case RDMABROKER__REQUEST__OP_GET_OPTION:
	case RDMABROKER__REQUEST__OP_LISTEN:
	case RDMABROKER__REQUEST__OP_RESOLVE_ROUTE:
	case RDMABROKER__REQUEST__OP_ESTABLISH:
	case RDMABROKER__REQUEST__OP_DISCONNECT:
	case RDMABROKER__REQUEST__OP_INIT_QP_ATTR:
		return true;
	default:
		return false;
	}
}

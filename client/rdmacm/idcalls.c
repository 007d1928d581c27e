/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <infiniband/sa.h>
#include <string.h>

#include "rdmacm.h"

#define SET_PATH_TIMEOUT_MS 2000

/*
 * librdmacm's calls about ids, their addresses and options, by the library's. An id that has no broker behind it goes
 * to the real librdmacm (FORWARD_ID).
 */

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	enum ibv_qp_type qp_type = ps == RDMA_PS_IPOIB || ps == RDMA_PS_UDP ? IBV_QPT_UD :
									      IBV_QPT_RC;
	struct id *new;

	/* With a channel it is decided already. */
	if (!channel && broker_start() < 0)
		return -1;
	FORWARD(rdma_create_id, channel, id, context, ps);
	if (id_new(channel ? to_channel(channel) : NULL, &new, context, ps, qp_type) < 0)
		return -1;
	*id = &new->public;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *public)
{
	FORWARD(rdma_destroy_id, public);
	id_destroy(to_id(public));
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *public, struct rdma_event_channel *channel)
{
	struct id *id = to_id(public);

	FORWARD_ID(rdma_migrate_id, public, channel);
	if (id->sync && !channel)
		return fail(EINVAL);
	return id_migrate(id, channel ? to_channel(channel) : NULL);
}

int rdma_bind_addr(struct rdma_cm_id *public, struct sockaddr *addr)
{
	struct id *id = to_id(public);
	int r;

	FORWARD_ID(rdma_bind_addr, public, addr);
	if (!is_address(addr))
		return fail(EINVAL);
	r = BROKER(rdmabroker_bind_addr(id->handle, addr));
	return report_result("rdma_bind_addr", r < 0 ? r : id_learn(id));
}

int rdma_listen(struct rdma_cm_id *public, int backlog)
{
	struct id *id = to_id(public);
	int r;

	FORWARD_ID(rdma_listen, public, backlog);
	r = BROKER(rdmabroker_listen(id->handle, backlog));
	return report_result("rdma_listen", r < 0 ? r : id_learn(id));
}

int rdma_resolve_addr(struct rdma_cm_id *public, struct sockaddr *src_addr,
		      struct sockaddr *dst_addr, int timeout_ms)
{
	struct id *id = to_id(public);
	int r;

	FORWARD_ID(rdma_resolve_addr, public, src_addr, dst_addr, timeout_ms);
	if (!is_address(dst_addr) || (src_addr && !is_address(src_addr)))
		return fail(EINVAL);
	r = BROKER(rdmabroker_resolve_addr(id->handle, src_addr, dst_addr,
					   timeout_ms > 0 ? timeout_ms : 1));
	if (r < 0)
		return report_result("rdma_resolve_addr", r);
	memcpy(&public->route.addr.dst_storage, dst_addr, addr_len(dst_addr));
	return event_await_outcome(id);
}

int rdma_resolve_route(struct rdma_cm_id *public, int timeout_ms)
{
	struct id *id = to_id(public);
	int r;

	FORWARD_ID(rdma_resolve_route, public, timeout_ms);
	r = BROKER(rdmabroker_resolve_route(id->handle, timeout_ms > 0 ? timeout_ms : 1));
	return r < 0 ? report_result("rdma_resolve_route", r) : event_await_outcome(id);
}

__be16 rdma_get_src_port(struct rdma_cm_id *public)
{
	FORWARD(rdma_get_src_port, public);
	return htons(addr_port(&public->route.addr.src_addr));
}

__be16 rdma_get_dst_port(struct rdma_cm_id *public)
{
	FORWARD(rdma_get_dst_port, public);
	return htons(addr_port(&public->route.addr.dst_addr));
}

static int set_option(struct id *id, int option, const void *value, size_t len)
{
	bool is_byte = option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT;
	int number;

	if (option < RDMA_OPTION_ID_TOS || option > RDMA_OPTION_ID_ACK_TIMEOUT)
		return -ENOSYS;
	if (!value || len != (is_byte ? 1 : sizeof(int)))
		return -EINVAL;
	if (is_byte)
		number = *(const uint8_t *)value;
	else
		memcpy(&number, value, sizeof(number));
	return BROKER(rdmabroker_set_option(id->handle, (enum rdmabroker_option)option, number));
}

/* As the kernel, takes the first path that connection requests and packets of both directions can use. */
static const struct ibv_path_record *find_path(const void *value, size_t len)
{
	const uint32_t needed = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
				IBV_PATH_FLAG_BIDIRECTIONAL;
	const struct ibv_path_data *paths = value;

	if (!value || len % sizeof(*paths) != 0)
		return NULL;
	for (size_t i = 0; i < len / sizeof(*paths); i++)
		if (paths[i].flags == needed)
			return &paths[i].path;
	return NULL;
}

/* VALUE: LEN bytes of struct ibv_path_data. */
static int set_path(struct id *id, const void *value, size_t len)
{
	const struct ibv_path_record *path = find_path(value, len);

	if (!path)
		return -EINVAL;
	return BROKER(rdmabroker_set_path(id->handle, path, SET_PATH_TIMEOUT_MS));
}

int rdma_set_option(struct rdma_cm_id *public, int level, int optname, void *optval, size_t optlen)
{
	struct id *id = to_id(public);
	int r = -ENOSYS;

	FORWARD_ID(rdma_set_option, public, level, optname, optval, optlen);
	if (level == RDMA_OPTION_ID)
		r = set_option(id, optname, optval, optlen);
	else if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH)
		r = set_path(id, optval, optlen);
	return report_result("rdma_set_option", r);
}

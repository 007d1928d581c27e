/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <unistd.h>

#include "fabric/ucm.h"

#define NODE "/dev/infiniband/rdma_cm"

/* A command is written as a header and its parameters. The kernel writes the response to where they point. */
static int command(int fd, uint32_t cmd, const void *in, size_t in_len, size_t out_len)
{
	struct {
		struct rdma_ucm_cmd_hdr header;
		uint8_t in[sizeof(struct rdma_ucm_accept)];
	} __attribute__((packed)) message = {
		.header = { .cmd = cmd, .in = (uint16_t)in_len, .out = (uint16_t)out_len },
	};
	size_t len = sizeof(message.header) + in_len;

	memcpy(message.in, in, in_len);
	return write(fd, &message, len) == (ssize_t)len ? 0 : -errno;
}

int ucm_open(void)
{
	int fd = open(NODE, O_RDWR | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int ucm_move(int fd, int from, uint32_t id)
{
	struct rdma_ucm_migrate_resp out;
	struct rdma_ucm_migrate_id in = {
		.response = (uintptr_t)&out,
		.id = id,
		.fd = (uint32_t)from,
	};

	return command(fd, RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof(in), sizeof(out));
}

int ucm_query_addresses(int fd, uint32_t id, struct ucm_addresses *ret)
{
	struct rdma_ucm_query_addr_resp out = { 0 };
	struct rdma_ucm_query in = {
		.response = (uintptr_t)&out,
		.id = id,
		.option = RDMA_USER_CM_QUERY_ADDR,
	};
	int r = command(fd, RDMA_USER_CM_CMD_QUERY, &in, sizeof(in), sizeof(out));

	if (r < 0)
		return r;
	*ret = (struct ucm_addresses){ .port_num = out.port_num };
	if (out.src_size <= sizeof(ret->local))
		memcpy(&ret->local, &out.src_addr, out.src_size);
	if (out.dst_size <= sizeof(ret->peer))
		memcpy(&ret->peer, &out.dst_addr, out.dst_size);
	return 0;
}

int ucm_get_event(int fd, struct ucm_event *ret)
{
	struct rdma_ucm_event_resp out = { 0 };
	struct rdma_ucm_get_event in = { .response = (uintptr_t)&out };
	int r = command(fd, RDMA_USER_CM_CMD_GET_EVENT, &in, sizeof(in), sizeof(out));

	if (r < 0)
		return r;
	*ret = (struct ucm_event){ .id = out.id,
				   .type = (int)out.event,
				   .status = (int)out.status };
	return 0;
}

bool ucm_is_connected(int fd, uint32_t id)
{
	struct ib_uverbs_qp_attr out = { 0 };
	struct rdma_ucm_init_qp_attr in = {
		.response = (uintptr_t)&out,
		.id = id,
		.qp_state = IBV_QPS_RTS,
	};

	return command(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, &in, sizeof(in), sizeof(out)) == 0;
}

/* Without parameters, an accept of the active side is the confirmation. */
int ucm_establish(int fd, uint32_t id)
{
	struct rdma_ucm_accept in = { .id = id };

	return command(fd, RDMA_USER_CM_CMD_ACCEPT, &in, sizeof(in), 0);
}

int ucm_disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect in = { .id = id };

	return command(fd, RDMA_USER_CM_CMD_DISCONNECT, &in, sizeof(in), 0);
}

int ucm_reject(int fd, uint32_t id, const void *data, size_t len)
{
	struct rdma_ucm_reject in = { .id = id };

	if (len > sizeof(in.private_data))
		return -EINVAL;
	in.private_data_len = (uint8_t)len;
	/* The reason "rejected by the consumer", as rdma_reject() of librdmacm leaves it. */
	in.reason = 0;
	memcpy(in.private_data, data, len);
	return command(fd, RDMA_USER_CM_CMD_REJECT, &in, sizeof(in), 0);
}

int ucm_destroy(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp out;
	struct rdma_ucm_destroy_id in = { .response = (uintptr_t)&out, .id = id };

	return command(fd, RDMA_USER_CM_CMD_DESTROY_ID, &in, sizeof(in), sizeof(out));
}

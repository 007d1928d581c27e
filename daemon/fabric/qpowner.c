/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <unistd.h>

#include "fabric/internal.h"

/*
 * The kernel is asked about one QP, by its number: what `rdma resource show qp` prints of all. It answers
 * within the send, so that nothing is waited for. It looks only at the QPs of one port, and says EAGAIN
 * for one that is there, but on another port.
 */

#define TYPE ((RDMA_NL_NLDEV << 10) + RDMA_NLDEV_CMD_RES_QP_GET)

struct answer {
	uint32_t qpn;
	uint32_t pid; /* 0: a QP of the kernel, or of a thread that is gone */
};

static int on_attr(const struct nlattr *attr, void *data)
{
	struct answer *answer = data;

	if (mnl_attr_get_payload_len(attr) == sizeof(uint32_t)) {
		if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_RES_LQPN)
			answer->qpn = mnl_attr_get_u32(attr);
		if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_RES_PID)
			answer->pid = mnl_attr_get_u32(attr);
	}
	return MNL_CB_OK;
}

static int on_answer(const struct nlmsghdr *header, void *data)
{
	return mnl_attr_parse(header, 0, on_attr, data);
}

static int send_query(struct fabric *fabric, uint32_t index, uint32_t port, uint32_t qpn)
{
	char buf[256];
	struct nlmsghdr *header = mnl_nlmsg_put_header(buf);

	header->nlmsg_type = TYPE;
	header->nlmsg_flags = NLM_F_REQUEST;
	header->nlmsg_seq = ++fabric->serial;
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_LQPN, qpn);
	return mnl_socket_sendto(fabric->netlink, header, header->nlmsg_len) < 0 ? -errno : 0;
}

static int query(struct fabric *fabric, uint32_t index, uint32_t port, uint32_t qpn,
		 struct answer *ret)
{
	struct pollfd p = { .fd = mnl_socket_get_fd(fabric->netlink), .events = POLLIN };
	char buf[8192];
	ssize_t n;
	int r;

	r = send_query(fabric, index, port, qpn);
	if (r < 0)
		return r;
	do {
		if (poll(&p, 1, 0) <= 0)
			return -EIO;
		n = mnl_socket_recvfrom(fabric->netlink, buf, sizeof(buf));
		if (n < 0)
			return -errno;
		/* Of an earlier query that was given up: not ours. */
	} while (((struct nlmsghdr *)buf)->nlmsg_seq != fabric->serial);

	*ret = (struct answer){ 0 };
	if (mnl_cb_run(buf, (size_t)n, fabric->serial, mnl_socket_get_portid(fabric->netlink),
		       on_answer, ret) < 0)
		return -errno;
	return 0;
}

/* What the kernel calls the owner is the thread that made the QP. */
static bool is_thread_of(pid_t pid, uint32_t tid)
{
	char path[64];

	if (tid == (uint32_t)pid)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/task/%u", pid, tid);
	return access(path, F_OK) == 0;
}

int fabric_qp_belongs(struct fabric *fabric, const char *device, uint32_t qpn, pid_t pid)
{
	struct fabric_context *context = fabric_find_context(fabric, device);
	struct answer answer;
	int r = -ENODEV;

	if (!context)
		return -ENODEV;
	if (!fabric->netlink)
		return -EOPNOTSUPP;
	for (uint32_t port = 1; port <= context->n_ports; port++) {
		r = query(fabric, context->index, port, qpn, &answer);
		if (r != -EAGAIN)
			break;
	}
	if (r == -EAGAIN || r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	return answer.qpn == qpn && answer.pid != 0 && is_thread_of(pid, answer.pid);
}

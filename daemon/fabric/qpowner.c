/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/internal.h"

/*
 * The kernel is asked about one QP, by its number: what `rdma resource show qp` prints of all. It
 * answers within the send, so nothing is waited for. It looks only at the QPs of one port, and says
 * EAGAIN for one that is there, but not on this port; a QP in RESET has none.
 */

#define NONE UINT32_MAX

struct answer {
	uint32_t qpn;
	uint32_t pid; /* 0: a QP of the kernel, or of a thread that is gone */
	uint32_t pdn, ctxn; /* protection domain and context, from 0; NONE: not told */
};

struct lookup {
	struct fabric_device *device;
	bool found;
};

static int open_netlink(struct fabric *fabric)
{
	struct mnl_socket *nl;

	if (fabric->netlink)
		return 0;
	nl = mnl_socket_open2(NETLINK_RDMA, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!nl)
		return -errno;
	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0) {
		int r = -errno;

		mnl_socket_close(nl);
		return r;
	}
	fabric->netlink = nl;
	return 0;
}

static struct nlmsghdr *request(void *buf, int command, uint16_t flags)
{
	struct nlmsghdr *header = mnl_nlmsg_put_header(buf);

	header->nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	header->nlmsg_flags = NLM_F_REQUEST | flags;
	return header;
}

static int exchange(struct fabric *fabric, struct nlmsghdr *header, mnl_cb_t on_answer, void *data)
{
	uint32_t portid = mnl_socket_get_portid(fabric->netlink);
	char buf[8192];
	int r;

	header->nlmsg_seq = ++fabric->serial;
	if (mnl_socket_sendto(fabric->netlink, header, header->nlmsg_len) < 0)
		return -errno;
	do {
		ssize_t n = mnl_socket_recvfrom(fabric->netlink, buf, sizeof(buf));

		if (n < 0)
			return errno == EAGAIN ? -EIO : -errno;
		r = mnl_cb_run(buf, (size_t)n, fabric->serial, portid, on_answer, data);
		/* ESRCH: what is left of an earlier exchange that failed halfway. */
		if (r < 0 && errno != ESRCH)
			return -errno;
	} while (r < 0 || (r > MNL_CB_STOP && (header->nlmsg_flags & NLM_F_DUMP)));
	return 0;
}

static int on_resource_attr(const struct nlattr *attr, void *data)
{
	struct answer *answer = data;

	if (mnl_attr_get_payload_len(attr) != sizeof(uint32_t))
		return MNL_CB_OK;
	switch (mnl_attr_get_type(attr)) {
	case RDMA_NLDEV_ATTR_RES_LQPN:
		answer->qpn = mnl_attr_get_u32(attr);
		break;
	case RDMA_NLDEV_ATTR_RES_PID:
		answer->pid = mnl_attr_get_u32(attr);
		break;
	case RDMA_NLDEV_ATTR_RES_PDN:
		answer->pdn = mnl_attr_get_u32(attr);
		break;
	case RDMA_NLDEV_ATTR_RES_CTXN:
		answer->ctxn = mnl_attr_get_u32(attr);
		break;
	}
	return MNL_CB_OK;
}

static int on_resource(const struct nlmsghdr *header, void *data)
{
	return mnl_attr_parse(header, 0, on_resource_attr, data);
}

/* PORT 0: for what belongs to the device as a whole. */
static int ask(struct fabric_device *device, int command, uint16_t key, uint32_t number,
	       uint32_t port, struct answer *ret)
{
	char buf[256];
	struct nlmsghdr *header = request(buf, command, 0);

	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
	if (port > 0)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	mnl_attr_put_u32(header, key, number);
	*ret = (struct answer){ .pdn = NONE, .ctxn = NONE };
	return exchange(device->fabric, header, on_resource, ret);
}

static int on_device_attr(const struct nlattr *attr, void *data)
{
	const struct nlattr **attrs = data;

	switch (mnl_attr_get_type(attr)) {
	case RDMA_NLDEV_ATTR_DEV_NAME:
		if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			attrs[RDMA_NLDEV_ATTR_DEV_NAME] = attr;
		break;
	case RDMA_NLDEV_ATTR_DEV_INDEX:
	case RDMA_NLDEV_ATTR_PORT_INDEX:
		if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			attrs[mnl_attr_get_type(attr)] = attr;
		break;
	}
	return MNL_CB_OK;
}

static int on_device(const struct nlmsghdr *header, void *data)
{
	const struct nlattr *attrs[RDMA_NLDEV_ATTR_PORT_INDEX + 1] = { 0 };
	const struct nlattr *name, *index, *ports;
	struct lookup *lookup = data;
	struct fabric_device *device = lookup->device;

	if (mnl_attr_parse(header, 0, on_device_attr, attrs) < 0)
		return MNL_CB_ERROR;
	name = attrs[RDMA_NLDEV_ATTR_DEV_NAME];
	index = attrs[RDMA_NLDEV_ATTR_DEV_INDEX];
	ports = attrs[RDMA_NLDEV_ATTR_PORT_INDEX];
	if (name && index && ports && strcmp(mnl_attr_get_str(name), device->name) == 0) {
		device->index = mnl_attr_get_u32(index);
		device->n_ports = mnl_attr_get_u32(ports);
		lookup->found = true;
	}
	return MNL_CB_OK;
}

static int find_index(struct fabric_device *device)
{
	struct lookup lookup = { .device = device };
	char buf[256];
	int r;

	if (device->n_ports > 0)
		return 0;
	r = exchange(device->fabric, request(buf, RDMA_NLDEV_CMD_GET, NLM_F_DUMP), on_device,
		     &lookup);
	if (r < 0)
		return r;
	return lookup.found ? 0 : -ENODEV;
}

static int find_qp(struct fabric_device *device, uint32_t qpn, struct answer *ret)
{
	int r = -ENOENT;

	for (uint32_t port = 1; port <= device->n_ports; port++) {
		r = ask(device, RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_LQPN, qpn, port,
			ret);
		if (r != -EAGAIN)
			break;
	}
	return r == 0 && ret->qpn != qpn ? -ENOENT : r;
}

/*
 * What the kernel names is the thread that made the QP, and nobody if that has ended, as a pool's
 * threads do. Then it is asked who made the QP's protection domain, and who opened the device for
 * that.
 */
static int find_maker(struct fabric_device *device, uint32_t qpn, uint32_t *ret_tid)
{
	struct answer answer;
	int r;

	r = find_index(device);
	if (r < 0)
		return r;
	r = find_qp(device, qpn, &answer);
	if (r == 0 && answer.pid == 0 && answer.pdn != NONE)
		r = ask(device, RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PDN, answer.pdn, 0,
			&answer);
	if (r == 0 && answer.pid == 0 && answer.ctxn != NONE)
		r = ask(device, RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTXN, answer.ctxn,
			0, &answer);
	if (r < 0)
		return r;
	*ret_tid = answer.pid;
	return 0;
}

static bool is_thread_of(pid_t pid, uint32_t tid)
{
	char path[64];

	if (tid == 0 || tid == (uint32_t)pid)
		return tid != 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%u", pid, tid);
	return access(path, F_OK) == 0;
}

int fabric_qp_belongs(struct fabric *fabric, const char *name, uint32_t qpn, pid_t pid)
{
	struct fabric_device *device = fabric_find_device(fabric, name);
	uint32_t tid;
	int r;

	if (!device)
		return -ENODEV;
	r = open_netlink(fabric);
	if (r < 0)
		return r;
	r = find_maker(device, qpn, &tid);
	if (r == -EINVAL) {
		/* No device of this index: it has come anew, and udev has not told yet. */
		device->n_ports = 0;
		r = find_maker(device, qpn, &tid);
	}
	if (r == -ENOENT || r == -EAGAIN)
		return 0;
	if (r < 0)
		return r;
	return is_thread_of(pid, tid);
}

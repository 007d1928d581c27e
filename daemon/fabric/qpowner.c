/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/qpowner.h"

/*
 * Asks the kernel about one QP, by its number: the data that `rdma resource show qp` prints for all QPs. The kernel
 * replies within the send, so this does not wait for a message. The kernel looks only at QPs of the given port, and
 * returns EAGAIN for a QP that exists but not on this port; a QP in RESET has no port.
 */

#define NONE UINT32_MAX

struct answer {
	uint32_t qpn;
	uint32_t pid; /* 0: the kernel's, or made by a thread that has ended */
	/* numbers of protection domain and context, from 0; NONE: not reported */
	uint32_t pdn, ctxn;
};

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

/* PORT 0: the resource belongs to the device as a whole. */
static int ask(struct nldev *nl, const struct nldev_device *device, int command, uint16_t key,
	       uint32_t number, uint32_t port, struct answer *ret)
{
	_Alignas(struct nlmsghdr) char buf[256];
	struct nlmsghdr *header = nldev_request(buf, command, 0);

	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
	if (port > 0)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	mnl_attr_put_u32(header, key, number);
	*ret = (struct answer){ .pdn = NONE, .ctxn = NONE };
	return nldev_exchange(nl, header, on_resource, ret);
}

static int find_qp(struct nldev *nl, const struct nldev_device *device, uint32_t qpn,
		   struct answer *ret)
{
	int r = -ENOENT;

	for (uint32_t port = 1; port <= device->n_ports; port++) {
		r = ask(nl, device, RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_LQPN, qpn, port,
			ret);
		if (r != -EAGAIN)
			break;
	}
	return r == 0 && ret->qpn != qpn ? -ENOENT : r;
}

/*
 * The kernel reports the thread that made the QP, or none if that thread has ended, as threads of a pool do. Then it
 * is asked which thread made the QP's protection domain, and if that has ended too, which thread opened the device
 * for it.
 */
static int find_maker(struct nldev *nl, const char *name, struct nldev_device *device, uint32_t qpn,
		      uint32_t *ret_tid)
{
	struct answer answer;
	int r = 0;

	if (device->n_ports == 0)
		r = nldev_find_device(nl, name, device);
	if (r < 0)
		return r;
	r = find_qp(nl, device, qpn, &answer);
	if (r == 0 && answer.pid == 0 && answer.pdn != NONE)
		r = ask(nl, device, RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PDN, answer.pdn,
			0, &answer);
	if (r == 0 && answer.pid == 0 && answer.ctxn != NONE)
		r = ask(nl, device, RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTXN,
			answer.ctxn, 0, &answer);
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

int qpowner_find(struct nldev *nl, const char *name, struct nldev_device *device, uint32_t qpn,
		 pid_t pid)
{
	uint32_t tid;
	int r;

	r = find_maker(nl, name, device, qpn, &tid);
	if (r == -EINVAL) {
		/* There is no device with this index: it was replaced, and udev has not reported that yet. */
		device->n_ports = 0;
		r = find_maker(nl, name, device, qpn, &tid);
	}
	if (r == -ENOENT || r == -EAGAIN)
		return 0;
	if (r < 0)
		return r;
	return is_thread_of(pid, tid);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/owner/qpowner.h"
#include "util/util.h"

/*
 * The kernel is queried for one QP, by number and port. It returns EAGAIN for a QP that is not on this port.
 * A QP in RESET has no port: it is found only in a dump of all QPs.
 */

#define NONE UINT32_MAX
#define XRC_TARGET 10 /* the kernel's IB_QPT_XRC_TGT */

static const struct qpowner_facts nothing = { .pdn = NONE, .ctxn = NONE };

static int on_resource_attr(const struct nlattr *attr, void *data)
{
	struct qpowner_facts *facts = data;

	if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_RES_TYPE &&
	    mnl_attr_validate(attr, MNL_TYPE_U8) == 0)
		facts->is_xrc_target = mnl_attr_get_u8(attr) == XRC_TARGET;
	if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_RES_KERN_NAME &&
	    mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
		facts->is_uverbs = strcmp(mnl_attr_get_str(attr), "ib_uverbs") == 0;
	if (mnl_attr_get_payload_len(attr) != sizeof(uint32_t))
		return MNL_CB_OK;
	switch (mnl_attr_get_type(attr)) {
	case RDMA_NLDEV_ATTR_RES_LQPN:
		facts->qpn = mnl_attr_get_u32(attr);
		break;
	case RDMA_NLDEV_ATTR_RES_PID:
		facts->tid = mnl_attr_get_u32(attr);
		break;
	case RDMA_NLDEV_ATTR_RES_PDN:
		facts->pdn = mnl_attr_get_u32(attr);
		break;
	case RDMA_NLDEV_ATTR_RES_CTXN:
		facts->ctxn = mnl_attr_get_u32(attr);
		break;
	}
	return MNL_CB_OK;
}

static int on_resource(const struct nlmsghdr *header, void *data)
{
	return mnl_attr_parse(header, 0, on_resource_attr, data);
}

/* Queries the kernel for one resource. NUMBER is sent as attribute KEY. PORT 0: none. */
static int ask(struct nldev *nl, const struct nldev_device *device, int command, uint16_t key,
	       uint32_t number, uint32_t port, struct qpowner_facts *ret)
{
	_Alignas(struct nlmsghdr) char buf[256];
	struct nlmsghdr *header = nldev_request(buf, command, 0);

	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
	if (port > 0)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_PORT_INDEX, port);
	mnl_attr_put_u32(header, key, number);
	*ret = nothing;
	return nldev_exchange(nl, header, on_resource, ret);
}

static int find_qp(struct nldev *nl, const struct nldev_device *device, uint32_t qpn,
		   struct qpowner_facts *ret)
{
	int r = -ENODEV;

	for (uint32_t port = 1; port <= device->n_ports; port++) {
		r = ask(nl, device, RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_LQPN, qpn, port,
			ret);
		if (r != -EAGAIN)
			break;
	}
	return r == 0 && ret->qpn != qpn ? -EBADMSG : r;
}

/*
 * Completes facts->tid, which is 0 if the thread that made the QP has ended (common with a pool of threads).
 * Then the thread that made the QP's protection domain is taken, or else the one that opened the device.
 */
static int find_maker(struct nldev *nl, const struct nldev_device *device,
		      struct qpowner_facts *facts)
{
	int r = 0;

	if (facts->tid == 0 && facts->pdn != NONE)
		r = ask(nl, device, RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PDN, facts->pdn,
			0, facts);
	if (r == 0 && facts->tid == 0 && facts->ctxn != NONE)
		r = ask(nl, device, RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTXN,
			facts->ctxn, 0, facts);
	return r;
}

/* A filter of system calls may not know tgkill(), and its EPERM must not pass for an answer. */
static bool can_ask_tgkill(void)
{
	/* No thread of this process. */
	return tgkill(getpid(), 1, 0) < 0 && errno == ESRCH;
}

static bool is_thread_of(pid_t pid, uint32_t tid)
{
	static atomic_int can_ask = -1; /* -1: not known yet */
	char path[64];

	if (tid == 0 || tid == (uint32_t)pid)
		return tid != 0;
	if (can_ask < 0)
		can_ask = can_ask_tgkill();
	/* No signal is sent; who must not send one is told so if there is the thread. To look into /proc takes far longer. */
	if (can_ask)
		return tgkill(pid, (pid_t)tid, 0) == 0 || errno == EPERM || errno == EACCES;
	snprintf(path, sizeof(path), "/proc/%d/task/%u", pid, tid);
	return access(path, F_OK) == 0;
}

/*
 * No process can have these numbers. The kernel has 0 and 1 on each port, stored under other numbers;
 * 0xffffff stands for multicast.
 */
static bool is_special(uint32_t qpn)
{
	return qpn <= 1 || qpn == 0xffffff;
}

/* The kernel reports a target QP of XRC as one that ib_uverbs has made for itself. */
static int judge(const struct qpowner_facts *facts, pid_t pid)
{
	if (facts->is_uverbs && facts->is_xrc_target)
		return FABRIC_QP_XRC_TARGET;
	return is_thread_of(pid, facts->tid) ? FABRIC_QP_OWN : FABRIC_QP_FOREIGN;
}

static int find(struct nldev *nl, const struct nldev_device *device, uint32_t qpn, pid_t pid)
{
	struct qpowner_facts facts;
	int r;

	r = find_qp(nl, device, qpn, &facts);
	if (r == -ENOENT)
		return is_special(qpn) ? FABRIC_QP_FOREIGN : FABRIC_QP_UNKNOWN;
	if (r == 0)
		r = find_maker(nl, device, &facts);
	/* The protection domain or the context is gone, so the QP is gone too. */
	if (r == -ENOENT)
		return FABRIC_QP_FOREIGN;
	if (r < 0)
		return r;
	return judge(&facts, pid);
}

int qpowner_find(struct nldev *nl, const char *name, struct nldev_device *device, uint32_t qpn,
		 pid_t pid)
{
	bool is_known = device->n_ports > 0;
	int r;

	r = is_known ? find(nl, device, qpn, pid) : -EINVAL;
	if (r == -EINVAL) {
		/* The index is not known yet, or the device was replaced and udev has not reported that yet. */
		r = nldev_find_device(nl, name, device);
		if (r == 0)
			r = find(nl, device, qpn, pid);
	}
	return r;
}

struct scan {
	struct qpowner_want **wants;
	size_t n;
	unsigned n_left;
};

static size_t first_want(const struct scan *scan, uint32_t qpn)
{
	return LOWER_BOUND(i, scan->n, scan->wants[i]->qpn < qpn);
}

static int on_qp(const struct nlattr *attr, void *data)
{
	struct qpowner_facts facts = nothing;
	struct scan *scan = data;

	if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_QP_ENTRY)
		return MNL_CB_OK;
	if (mnl_attr_parse_nested(attr, on_resource_attr, &facts) < 0)
		return MNL_CB_ERROR;
	for (size_t i = first_want(scan, facts.qpn);
	     i < scan->n && scan->wants[i]->qpn == facts.qpn; i++) {
		scan->n_left -= scan->wants[i]->facts.qpn != facts.qpn;
		scan->wants[i]->facts = facts;
	}
	return MNL_CB_OK;
}

static int on_qps(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_QP)
		return MNL_CB_OK;
	return mnl_attr_parse_nested(attr, on_qp, data);
}

static int on_dump(const struct nlmsghdr *header, void *data)
{
	const struct scan *scan = data;
	int r = mnl_attr_parse(header, 0, on_qps, data);

	return r >= MNL_CB_STOP && scan->n_left == 0 ? MNL_CB_STOP : r;
}

DEFINE_CLEANUP(struct nldev *, nldev_free)

/* Over a socket of its own, which can end before the dump does. Returns as nldev_dump(). */
static int dump(const struct nldev_device *device, struct scan *scan)
{
	_cleanup_(nldev_freep) struct nldev *nl = NULL;
	_Alignas(struct nlmsghdr) char request[256];
	struct nlmsghdr *header;
	int r = nldev_new(&nl);

	if (r < 0)
		return r;
	header = nldev_request(request, RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
	return nldev_dump(nl, header, on_dump, scan);
}

/*
 * The kernel finds its place in the list of QPs by the number of QPs sent. If one of these QPs is destroyed,
 * the kernel skips another QP. So a dump of several datagrams is repeated once if wanted QPs are missing.
 */
static int dump_until_found(const struct nldev_device *device, struct scan *scan)
{
	int r = dump(device, scan);

	if (r > 1 && scan->n_left > 0)
		r = dump(device, scan);
	return r < 0 ? r : 0;
}

static int scan_device(struct nldev *nl, const char *name, struct nldev_device *device,
		       struct scan *scan)
{
	struct nldev_device before = *device;
	int r = -EINVAL;

	if (device->n_ports > 0)
		r = dump_until_found(device, scan);
	if (r != -EINVAL)
		return r;
	/* The device is unknown or has another index by now, or it is the driver that has answered so. */
	r = nldev_find_device(nl, name, device);
	if (r == 0 && before.n_ports > 0 && device->index == before.index)
		return -EINVAL;
	return r < 0 ? r : dump_until_found(device, scan);
}

/*
 * A QP that the dump lacks is not FABRIC_QP_UNKNOWN: qpowner_find() has found it, and the dump can skip a QP. R: how the dump
 * has ended.
 */
static int answer(struct nldev *nl, const struct nldev_device *device, struct qpowner_want *want,
		  int r)
{
	if (want->facts.qpn == want->qpn)
		r = find_maker(nl, device, &want->facts);
	/* The protection domain or the context is gone, so the QP is gone too. */
	return r < 0 && r != -ENOENT ? r : judge(&want->facts, want->pid);
}

void qpowner_scan(const char *name, struct nldev_device *device, struct qpowner_want **wants,
		  size_t n)
{
	struct scan scan = { .wants = wants, .n = n, .n_left = (unsigned)n };
	_cleanup_(nldev_freep) struct nldev *nl = NULL;
	int r = nldev_new(&nl);

	for (size_t i = 0; i < n; i++)
		wants[i]->facts = nothing;
	if (r == 0)
		r = scan_device(nl, name, device, &scan);
	for (size_t i = 0; i < n; i++)
		wants[i]->answer = nl ? answer(nl, device, wants[i], r) : r;
}

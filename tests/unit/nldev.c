/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/nldev.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <rdma/rdma_netlink.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define INDEX 7

struct mnl_socket {
	int near, far;
	uint32_t seq; /* the sequence number of the request that is answered */
	uint32_t dump_seq; /* the sequence number of the last dump of QPs */
	bool dumping; /* a dump of QPs is being read */
	unsigned next; /* index into kernel.qps */
};

struct kernel kernel;

static void put_address(struct nlmsghdr *header, uint16_t type, const char *text)
{
	struct sockaddr_storage storage = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&storage;
	char host[INET_ADDRSTRLEN];
	const char *port;

	if (!text)
		return;
	port = strchr(text, ':');
	snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, ":"), text);
	in->sin_family = AF_INET;
	ck_assert_int_eq(inet_pton(AF_INET, host, &in->sin_addr), 1);
	if (in->sin_addr.s_addr != INADDR_ANY)
		in->sin_port = htons(port ? (uint16_t)atoi(port + 1) : 7471);
	mnl_attr_put(header, type, sizeof(storage), &storage);
}

static void put_id(struct nlmsghdr *header, const struct id *id)
{
	struct nlattr *entry = mnl_attr_nest_start(header, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY);

	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_PS, 0x106);
	mnl_attr_put_u8(header, RDMA_NLDEV_ATTR_RES_STATE, id->state);
	put_address(header, RDMA_NLDEV_ATTR_RES_SRC_ADDR, id->local);
	put_address(header, RDMA_NLDEV_ATTR_RES_DST_ADDR, id->peer);
	if (id->qpn)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_LQPN, id->qpn);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_CM_IDN, 3);
	if (id->kernel)
		mnl_attr_put_strz(header, RDMA_NLDEV_ATTR_RES_KERN_NAME, id->kernel);
	else if (id->tid)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_PID, id->tid);
	mnl_attr_nest_end(header, entry);
}

static struct nlmsghdr *begin(struct mnl_socket *nl, void *buf, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *header = mnl_nlmsg_put_header(buf);

	header->nlmsg_type = type;
	header->nlmsg_flags = flags;
	header->nlmsg_seq = nl->seq;
	return header;
}

static void answer(struct mnl_socket *nl, const struct nlmsghdr *header)
{
	ck_assert_int_eq(send(nl->far, header, header->nlmsg_len, 0), header->nlmsg_len);
}

static void answer_number(struct mnl_socket *nl, uint16_t type, uint16_t flags, int number)
{
	_Alignas(struct nlmsghdr) char buf[256] = { 0 };
	struct nlmsghdr *header = begin(nl, buf, type, flags);
	struct nlmsgerr *error = mnl_nlmsg_put_extra_header(header, sizeof(*error));

	error->error = number;
	answer(nl, header);
}

static void next_piece(struct mnl_socket *nl)
{
	static _Alignas(struct nlmsghdr) char buf[32768];
	struct nlmsghdr *header;
	struct nlattr *table;

	if (kernel.next == kernel.n_pieces) {
		answer_number(nl, NLMSG_DONE, NLM_F_MULTI, kernel.error);
		kernel.dumping = false;
		return;
	}
	header = begin(nl, buf, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_CM_ID_GET),
		       NLM_F_MULTI);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, INDEX);
	mnl_attr_put_strz(header, RDMA_NLDEV_ATTR_DEV_NAME, kernel.name);
	table = mnl_attr_nest_start(header, RDMA_NLDEV_ATTR_RES_CM_ID);
	for (size_t i = 0; i < kernel.n_ids[kernel.next % PIECES_MAX]; i++)
		put_id(header, &kernel.ids[kernel.next % PIECES_MAX][i]);
	mnl_attr_nest_end(header, table);
	kernel.next++;
	answer(nl, header);
}

static void answer_devices(struct mnl_socket *nl)
{
	_Alignas(struct nlmsghdr) char buf[512];
	struct nlmsghdr *header =
		begin(nl, buf, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLM_F_MULTI);

	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, INDEX + kernel.n_replaced);
	mnl_attr_put_strz(header, RDMA_NLDEV_ATTR_DEV_NAME, kernel.name);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_PORT_INDEX, kernel.n_ports);
	answer(nl, header);
	answer_number(nl, NLMSG_DONE, NLM_F_MULTI, 0);
}

static uint32_t get_u32(const struct nlmsghdr *header, uint16_t type)
{
	const struct nlattr *attr;

	for (attr = mnl_nlmsg_get_payload(header);
	     mnl_attr_ok(attr, (int)((const char *)mnl_nlmsg_get_payload_tail(header) -
				     (const char *)attr));
	     attr = mnl_attr_next(attr))
		if (mnl_attr_get_type(attr) == type)
			return mnl_attr_get_u32(attr);
	ck_abort_msg("attribute %u is missing", type);
}

static void put_qp(struct nlmsghdr *header, const struct qp *qp)
{
	if (qp->port > 0)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_PORT_INDEX, qp->port);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_LQPN, qp->qpn);
	mnl_attr_put_u8(header, RDMA_NLDEV_ATTR_RES_TYPE, qp->type);
	if (qp->kernel)
		mnl_attr_put_strz(header, RDMA_NLDEV_ATTR_RES_KERN_NAME, qp->kernel);
	else if (qp->tid)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_PID, qp->tid);
	if (qp->pdn)
		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_PDN, qp->pdn);
}

static void answer_qp(struct mnl_socket *nl, const struct nlmsghdr *request)
{
	uint32_t port = get_u32(request, RDMA_NLDEV_ATTR_PORT_INDEX);
	uint32_t qpn = get_u32(request, RDMA_NLDEV_ATTR_RES_LQPN);
	_Alignas(struct nlmsghdr) char buf[512];
	struct nlmsghdr *header;

	kernel.n_qp_asked++;
	for (unsigned i = 0; i < kernel.n_qps; i++) {
		if (kernel.qps[i].qpn != qpn)
			continue;
		if (kernel.qps[i].port != port) {
			answer_number(nl, NLMSG_ERROR, 0, -EAGAIN);
			return;
		}
		header = begin(nl, buf, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET),
			       0);
		put_qp(header, &kernel.qps[i]);
		answer(nl, header);
		return;
	}
	answer_number(nl, NLMSG_ERROR, 0, -ENOENT);
}

static void answer_pd(struct mnl_socket *nl)
{
	_Alignas(struct nlmsghdr) char buf[512];
	struct nlmsghdr *header =
		begin(nl, buf, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_PD_GET), 0);

	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_PID, PD_TID);
	answer(nl, header);
}

static void next_qps(struct mnl_socket *nl)
{
	_Alignas(struct nlmsghdr) char buf[32768];
	struct nlmsghdr *header;
	struct nlattr *table;

	if (nl->next >= kernel.n_qps) {
		answer_number(nl, NLMSG_DONE, NLM_F_MULTI, 0);
		nl->dumping = false;
		return;
	}
	/* What the kernel has put into the piece before is lost. */
	for (unsigned i = nl->next; i < nl->next + QPS_A_PIECE && i < kernel.n_qps; i++)
		if (kernel.qps[i].error) {
			answer_number(nl, NLMSG_DONE, NLM_F_MULTI, kernel.qps[i].error);
			nl->dumping = false;
			return;
		}
	header = begin(nl, buf, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET),
		       NLM_F_MULTI);
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, INDEX);
	table = mnl_attr_nest_start(header, RDMA_NLDEV_ATTR_RES_QP);
	for (unsigned i = 0; i < QPS_A_PIECE && nl->next < kernel.n_qps; i++) {
		struct nlattr *entry = mnl_attr_nest_start(header, RDMA_NLDEV_ATTR_RES_QP_ENTRY);

		put_qp(header, &kernel.qps[nl->next++]);
		mnl_attr_nest_end(header, entry);
	}
	mnl_attr_nest_end(header, table);
	answer(nl, header);
}

static void dump_qps(struct mnl_socket *nl)
{
	kernel.n_qp_dumps++;
	if (kernel.on_qp_dump)
		kernel.on_qp_dump();
	if (kernel.qp_error) {
		answer_number(nl, NLMSG_ERROR, 0, kernel.qp_error);
		kernel.qp_error = 0;
		return;
	}
	nl->dumping = true;
	nl->dump_seq = nl->seq;
	nl->next = kernel.skips;
	kernel.skips = 0;
	next_qps(nl);
}

/* In one piece. */
static void dump_contexts(struct mnl_socket *nl)
{
	static _Alignas(struct nlmsghdr) char buf[32768];
	struct nlmsghdr *header = begin(
		nl, buf, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_CTX_GET), NLM_F_MULTI);
	struct nlattr *table;

	kernel.n_context_dumps++;
	if (kernel.context_error) {
		answer_number(nl, NLMSG_ERROR, 0, kernel.context_error);
		return;
	}
	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, INDEX);
	table = mnl_attr_nest_start(header, RDMA_NLDEV_ATTR_RES_CTX);
	for (unsigned i = 0; i < kernel.n_contexts; i++) {
		struct nlattr *entry = mnl_attr_nest_start(header, RDMA_NLDEV_ATTR_RES_CTX_ENTRY);

		mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_CTXN, i);
		if (kernel.contexts[i])
			mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_RES_PID, kernel.contexts[i]);
		mnl_attr_nest_end(header, entry);
	}
	mnl_attr_nest_end(header, table);
	answer(nl, header);
	answer_number(nl, NLMSG_DONE, NLM_F_MULTI, 0);
}

struct mnl_socket *mnl_socket_open2(int bus, int flags)
{
	struct mnl_socket *nl = calloc(1, sizeof(*nl));
	int fds[2];

	ck_assert_int_eq(bus, NETLINK_RDMA);
	ck_assert_int_eq(flags, SOCK_CLOEXEC | SOCK_NONBLOCK);
	ck_assert_ptr_nonnull(nl);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | flags, 0, fds), 0);
	nl->near = fds[0];
	nl->far = fds[1];
	return nl;
}

int mnl_socket_bind(struct mnl_socket *nl, unsigned int groups, pid_t pid)
{
	return 0;
}

int mnl_socket_close(struct mnl_socket *nl)
{
	close(nl->near);
	close(nl->far);
	free(nl);
	return 0;
}

int mnl_socket_get_fd(const struct mnl_socket *nl)
{
	return nl->near;
}

unsigned int mnl_socket_get_portid(const struct mnl_socket *nl)
{
	return 0;
}

ssize_t mnl_socket_sendto(const struct mnl_socket *const_nl, const void *request, size_t len)
{
	struct mnl_socket *nl = (struct mnl_socket *)const_nl;
	const struct nlmsghdr *header = request;

	nl->seq = header->nlmsg_seq;
	/* The kernel refuses a dump until the previous one was read to its end. */
	if (nl->dumping && (header->nlmsg_flags & NLM_F_DUMP)) {
		answer_number(nl, NLMSG_ERROR, 0, -EBUSY);
		return (ssize_t)len;
	}
	switch (RDMA_NL_GET_OP(header->nlmsg_type)) {
	case RDMA_NLDEV_CMD_GET:
		kernel.n_device_dumps++;
		answer_devices(nl);
		break;
	case RDMA_NLDEV_CMD_RES_CM_ID_GET:
		ck_assert_uint_eq(get_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX), INDEX);
		ck_assert(header->nlmsg_flags & NLM_F_DUMP);
		kernel.n_dumps++;
		kernel.dumping = true;
		kernel.next = 0;
		next_piece(nl);
		break;
	case RDMA_NLDEV_CMD_RES_QP_GET:
		if (header->nlmsg_flags & NLM_F_DUMP)
			dump_qps(nl);
		else
			answer_qp(nl, header);
		break;
	case RDMA_NLDEV_CMD_RES_CTX_GET:
		ck_assert_uint_eq(get_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX), INDEX);
		ck_assert(header->nlmsg_flags & NLM_F_DUMP);
		dump_contexts(nl);
		break;
	case RDMA_NLDEV_CMD_RES_PD_GET:
		answer_pd(nl);
		break;
	default:
		ck_abort_msg("nobody should ask this: %u", header->nlmsg_type);
	}
	return (ssize_t)len;
}

ssize_t mnl_socket_recvfrom(const struct mnl_socket *const_nl, void *buf, size_t size)
{
	struct mnl_socket *nl = (struct mnl_socket *)const_nl;
	ssize_t n = recv(nl->near, buf, size, MSG_TRUNC);

	ck_assert_int_le(n, (ssize_t)size);
	if (n < 0)
		return n;
	kernel.n_read++;
	if (kernel.dumping)
		next_piece(nl);
	if (nl->dumping) {
		nl->seq = nl->dump_seq;
		next_qps(nl);
	}
	return n;
}

time_t skipped;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);

	if (r == 0 && clock == CLOCK_MONOTONIC)
		ret->tv_sec += skipped;
	return r;
}

pid_t start_process(const char *name)
{
	int ready[2];
	pid_t pid;
	char c;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_NAME, name);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

void stop_process(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

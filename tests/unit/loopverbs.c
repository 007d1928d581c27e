/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "tests/unit/loopverbs.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

#define RECEIVES_MAX 1024

/* A CQ notifies its channel by an eventfd, which counts. */
struct channel {
	struct ibv_comp_channel public;
	struct ibv_cq *cq; /* that has notified */
};

struct completion {
	STAILQ_ENTRY(completion) link;
	struct ibv_wc wc;
};

struct cq {
	struct ibv_cq public;
	bool armed;
	STAILQ_HEAD(, completion) completions;
};

struct receive {
	uint64_t id;
	struct ibv_sge buffers[2];
	int n;
};

struct qp {
	LIST_ENTRY(qp) link;
	struct ibv_qp public;
	uint32_t peer; /* the number of its QP */
	bool signals_all;
	struct receive receives[RECEIVES_MAX]; /* that were posted */
	unsigned first, n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, qp) qps;
static uint32_t largest;
static unsigned n_datagrams;
static struct ibv_device device = { .name = "fake0", .transport_type = IBV_TRANSPORT_IB };

unsigned loopverbs_n_qps(void)
{
	unsigned n = 0;
	struct qp *qp;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(qp, &qps, link)
		n++;
	pthread_mutex_unlock(&lock);
	return n;
}

uint32_t loopverbs_largest_queue(void)
{
	uint32_t ret;

	pthread_mutex_lock(&lock);
	ret = largest;
	pthread_mutex_unlock(&lock);
	return ret;
}

unsigned loopverbs_n_datagrams(void)
{
	unsigned ret;

	pthread_mutex_lock(&lock);
	ret = n_datagrams;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- data; the lock is held, except in the functions of struct ibv_context_ops ---- */

static struct qp *find(uint32_t number)
{
	struct qp *qp;

	LIST_FOREACH(qp, &qps, link)
		if (qp->public.qp_num == number)
			return qp;
	return NULL;
}

static void complete(struct ibv_cq *public, const struct ibv_wc *wc)
{
	struct cq *cq = (struct cq *)public;
	struct completion *new = calloc(1, sizeof(*new));
	uint64_t one = 1;

	if (!new)
		abort();
	new->wc = *wc;
	STAILQ_INSERT_TAIL(&cq->completions, new, link);
	if (!cq->armed || !public->channel)
		return;
	cq->armed = false;
	((struct channel *)public->channel)->cq = public;
	if (write(public->channel->fd, &one, sizeof(one)) < 0)
		abort();
}

static bool take_receive(struct qp *qp, struct receive *ret)
{
	if (qp->n == 0)
		return false;
	*ret = qp->receives[qp->first];
	qp->first = (qp->first + 1) % RECEIVES_MAX;
	qp->n--;
	return true;
}

static void flush(struct qp *qp)
{
	struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->public.qp_num };
	struct receive receive;

	while (take_receive(qp, &receive)) {
		wc.wr_id = receive.id;
		complete(qp->public.recv_cq, &wc);
	}
}

static void copy(char *to, const struct ibv_send_wr *wr)
{
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

static bool is_up(const struct qp *qp)
{
	return qp->public.state == IBV_QPS_RTR || qp->public.state == IBV_QPS_RTS;
}

/* Writes, and lets the peer know if there is immediate data. */
static enum ibv_wc_status carry(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV_RDMA_WITH_IMM, .wc_flags = IBV_WC_WITH_IMM };
	struct qp *peer = find(qp->peer);
	struct receive receive = { 0 };

	if (qp->public.state != IBV_QPS_RTS)
		return IBV_WC_WR_FLUSH_ERR;
	if (!peer || !is_up(peer))
		return IBV_WC_RETRY_EXC_ERR;
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && !take_receive(peer, &receive))
		return IBV_WC_RNR_RETRY_EXC_ERR;
	copy((char *)(uintptr_t)wr->wr.rdma.remote_addr, wr);
	if (wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		return IBV_WC_SUCCESS;
	wc.wr_id = receive.id;
	wc.qp_num = peer->public.qp_num;
	wc.imm_data = wr->imm_data;
	complete(peer->public.recv_cq, &wc);
	return IBV_WC_SUCCESS;
}

/* A datagram, behind the space for its GRH. It is lost if the peer has no buffer for it. */
static enum ibv_wc_status carry_datagram(const struct qp *qp, const struct ibv_send_wr *wr)
{
	struct qp *peer = find(wr->wr.ud.remote_qpn);
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .src_qp = qp->public.qp_num };
	struct receive receive;
	uint32_t len = 0;

	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	if (!peer || !is_up(peer) || !take_receive(peer, &receive) || receive.n < 2 ||
	    receive.buffers[1].length < len)
		return IBV_WC_SUCCESS;
	n_datagrams++;
	copy((char *)(uintptr_t)receive.buffers[1].addr, wr);
	wc.wr_id = receive.id;
	wc.qp_num = peer->public.qp_num;
	wc.byte_len = (uint32_t)sizeof(struct ibv_grh) + len;
	complete(peer->public.recv_cq, &wc);
	return IBV_WC_SUCCESS;
}

static bool is_possible(const struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	return qp->qp_type == IBV_QPT_UD ?
		       opcode == IBV_WR_SEND :
		       opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static int post_send(struct ibv_qp *public, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	bool is_datagram = public->qp_type == IBV_QPT_UD;
	struct ibv_wc wc = { .qp_num = public->qp_num };
	struct qp *qp;
	int r = 0;

	pthread_mutex_lock(&lock);
	qp = find(public->qp_num);
	for (; wr && r == 0; wr = wr->next) {
		*bad = wr;
		if (!is_possible(public, wr->opcode)) {
			r = EOPNOTSUPP;
			break;
		}
		wc.wr_id = wr->wr_id;
		wc.opcode = is_datagram ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
		wc.status = is_datagram ? carry_datagram(qp, wr) : carry(qp, wr);
		if (wc.status != IBV_WC_SUCCESS || wr->send_flags & IBV_SEND_SIGNALED ||
		    qp->signals_all)
			complete(public->send_cq, &wc);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void add_receive(struct qp *qp, const struct ibv_recv_wr *wr)
{
	struct receive *receive = &qp->receives[(qp->first + qp->n++) % RECEIVES_MAX];

	receive->id = wr->wr_id;
	receive->n = wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		receive->buffers[i] = wr->sg_list[i];
}

static int post_recv(struct ibv_qp *public, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp;
	int r = 0;

	pthread_mutex_lock(&lock);
	qp = find(public->qp_num);
	for (; wr && r == 0; wr = wr->next) {
		*bad = wr;
		if (qp->n == RECEIVES_MAX || wr->num_sge > 2)
			r = ENOMEM;
		else
			add_receive(qp, wr);
	}
	if (public->state == IBV_QPS_ERR)
		flush(qp);
	pthread_mutex_unlock(&lock);
	return r;
}

static int poll_cq(struct ibv_cq *public, int max, struct ibv_wc *ret)
{
	struct cq *cq = (struct cq *)public;
	struct completion *first;
	int n = 0;

	pthread_mutex_lock(&lock);
	while (n < max && (first = STAILQ_FIRST(&cq->completions))) {
		ret[n++] = first->wc;
		STAILQ_REMOVE_HEAD(&cq->completions, link);
		free(first);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

static int req_notify_cq(struct ibv_cq *public, int solicited_only)
{
	pthread_mutex_lock(&lock);
	((struct cq *)public)->armed = true;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- devices ---- */

struct ibv_device **ibv_get_device_list(int *ret_n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (!list)
		return NULL;
	list[0] = &device;
	if (ret_n)
		*ret_n = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

__be64 ibv_get_device_guid(struct ibv_device *of)
{
	return 1;
}

int ibv_get_device_index(struct ibv_device *of)
{
	return 0;
}

/* /dev/null has a name: a device whose node has none is removed. */
struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	struct ibv_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->device = of;
	context->cmd_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	close(context->cmd_fd);
	free(context);
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *ret)
{
	*ret = (struct ibv_device_attr){
		.max_qp_wr = LOOPVERBS_MAX_QP_WR,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.phys_port_cnt = 1,
	};
	return 0;
}

/* RET is a struct ibv_port_attr, which the caller, an inline function of verbs.h, has cleared. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *ret)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)ret;

	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->active_mtu = IBV_MTU_1024;
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *ret)
{
	*ret = 0xffff;
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *ret)
{
	memset(ret, 0, sizeof(*ret));
	return 0;
}

/* ---- objects ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = len;
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->public.context = context;
	channel->public.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	return &channel->public;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int n, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->public.context = context;
	cq->public.cq_context = cq_context;
	cq->public.channel = channel;
	STAILQ_INIT(&cq->completions);
	return &cq->public;
}

int ibv_destroy_cq(struct ibv_cq *public)
{
	struct ibv_wc wc;

	while (poll_cq(public, 1, &wc) > 0)
		;
	free(public);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ret, void **ret_context)
{
	uint64_t n;

	if (read(channel->fd, &n, sizeof(n)) < 0)
		return -1;
	*ret = ((struct channel *)channel)->cq;
	*ret_context = (*ret)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t last = 100;
	struct qp *qp;

	if (attr->cap.max_send_wr > LOOPVERBS_MAX_QP_WR ||
	    attr->cap.max_recv_wr > LOOPVERBS_MAX_QP_WR) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->public.context = pd->context;
	qp->public.pd = pd;
	qp->public.qp_type = attr->qp_type;
	qp->public.send_cq = attr->send_cq;
	qp->public.recv_cq = attr->recv_cq;
	qp->public.qp_context = attr->qp_context;
	qp->signals_all = attr->sq_sig_all;
	pthread_mutex_lock(&lock);
	qp->public.qp_num = ++last;
	if (attr->cap.max_send_wr > largest)
		largest = attr->cap.max_send_wr;
	LIST_INSERT_HEAD(&qps, qp, link);
	pthread_mutex_unlock(&lock);
	return &qp->public;
}

int ibv_modify_qp(struct ibv_qp *public, struct ibv_qp_attr *attr, int mask)
{
	struct qp *qp;

	pthread_mutex_lock(&lock);
	qp = find(public->qp_num);
	if (mask & IBV_QP_DEST_QPN)
		qp->peer = attr->dest_qp_num;
	if (mask & IBV_QP_STATE)
	public->state = attr->qp_state;
	if (public->state == IBV_QPS_ERR)
		flush(qp);
	pthread_mutex_unlock(&lock);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *public)
{
	struct qp *qp;

	pthread_mutex_lock(&lock);
	qp = find(public->qp_num);
	LIST_REMOVE(qp, link);
	pthread_mutex_unlock(&lock);
	free(qp);
	return 0;
}

/* One for all, because librdmacm does not destroy each that it creates. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static struct ibv_ah ah;

	ah.context = pd->context;
	return &ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ret)
{
	return EOPNOTSUPP;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/guest/calls.h"

/* The pattern differs in every round and at every offset, so that stale or shifted bytes are detected. */
void pattern_fill(uint8_t *bytes, uint64_t seed)
{
	for (size_t i = 0; i < PATTERN_SIZE; i += sizeof(uint64_t)) {
		uint64_t x = ((seed << 20) + i + 1) * 0x9e3779b97f4a7c15;

		x ^= x >> 31;
		memcpy(bytes + i, &x, sizeof(x));
	}
}

void pattern_check(const char *what, const uint8_t *bytes, uint64_t seed)
{
	uint8_t expected[PATTERN_SIZE];

	pattern_fill(expected, seed);
	for (size_t i = 0; i < PATTERN_SIZE; i++)
		if (bytes[i] != expected[i])
			die("%s, round %llu: byte %zu is 0x%02x instead of 0x%02x", what,
			    (unsigned long long)seed, i, bytes[i], expected[i]);
}

enum link_mode link_mode(const char *name)
{
	static const char *const names[] = {
		[LINK_OWN] = "own",     [LINK_SET] = "set", [LINK_EXTERNAL] = "external",
		[LINK_RESET] = "reset", [LINK_SRQ] = "srq",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return (enum link_mode)i;
	die("there is no mode \"%s\"", name);
}

void link_init(struct link *link, struct rdmabroker_id *id, enum link_mode mode)
{
	struct rdmabroker *session = rdmabroker_get_session(id);
	struct ibv_context *verbs;
	struct ibv_pd *pd;

	must(session, "get_verbs", rdmabroker_get_verbs(id, &verbs));
	must(session, "get_pd", rdmabroker_get_pd(id, &pd));
	link_init_on(link, id, mode, verbs, pd);
}

void link_init_on(struct link *link, struct rdmabroker_id *id, enum link_mode mode,
		  struct ibv_context *verbs, struct ibv_pd *pd)
{
	*link = (struct link){ .id = id, .mode = mode, .pd = pd };
	link->channel = ibv_create_comp_channel(verbs);
	if (!link->channel || fcntl(link->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		die("no completion channel: %s", strerror(errno));
	link->cq = ibv_create_cq(verbs, 32, NULL, link->channel, 0);
	if (!link->cq || ibv_req_notify_cq(link->cq, 0) != 0)
		die("no completion queue: %s", strerror(errno));
	/* fork(2) treats registered pages differently, so the registered memory has pages of its own. */
	link->memory = mmap(NULL, sizeof(*link->memory), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->memory == MAP_FAILED)
		die("no memory: %s", strerror(errno));
	link->mr = ibv_reg_mr(link->pd, link->memory, sizeof(*link->memory),
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!link->mr)
		die("no memory region: %s", strerror(errno));
	stall_add(link);
}

bool link_is_external(const struct link *link)
{
	return link->mode == LINK_EXTERNAL || link->mode == LINK_RESET;
}

void link_move(struct link *link, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, r;

	must(rdmabroker_get_session(link->id), "init_qp_attr",
	     rdmabroker_init_qp_attr(link->id, &attr, &mask));
	r = ibv_modify_qp(link->qp, &attr, mask);
	if (r != 0)
		die("the QP cannot be moved to state %d: %s", state, strerror(r));
}

struct ibv_qp_init_attr link_qp_attr(const struct link *link, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = link->cq,
		.recv_cq = link->cq,
		.qp_type = type,
		.cap = {
			.max_send_wr = 8,
			.max_recv_wr = LINK_RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
}

void link_take_qp(struct link *link)
{
	link->qp = rdmabroker_get_qp(link->id);
	for (unsigned i = 0; i < LINK_RECEIVES; i++)
		link_post_receive(link, i);
}

void link_make_qp(struct link *link, enum ibv_qp_type type)
{
	struct rdmabroker *session = rdmabroker_get_session(link->id);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = LINK_RECEIVES, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = link_qp_attr(link, type);

	if (link->mode == LINK_SRQ) {
		link->srq = ibv_create_srq(link->pd, &srq);
		if (!link->srq)
			die("no shared receive queue: %s", strerror(errno));
		attr.srq = link->srq;
	}
	if (link->mode == LINK_OWN || link->mode == LINK_SRQ) {
		must(session, "create_qp", rdmabroker_create_qp(link->id, link->pd, &attr));
		link->qp = rdmabroker_get_qp(link->id);
	} else {
		link->qp = ibv_create_qp(link->pd, &attr);
		if (!link->qp)
			die("no QP: %s", strerror(errno));
	}
	if (link->mode == LINK_SET) {
		must(session, "set_qp", rdmabroker_set_qp(link->id, link->qp));
		if (rdmabroker_get_qp(link->id) != link->qp)
			die("get_qp does not give what set_qp was given");
	}
	if (link->mode == LINK_EXTERNAL)
		link_move(link, IBV_QPS_INIT);
	if (link->mode == LINK_RESET)
		return;
	for (unsigned i = 0; i < LINK_RECEIVES; i++)
		link_post_receive(link, i);
}

void link_done(struct link *link)
{
	stall_remove(link);
	if (link->mode == LINK_SET)
		rdmabroker_destroy_qp(link->id); /* detaches the QP, but does not destroy it */
	if (link->mode == LINK_SET || link_is_external(link))
		ibv_destroy_qp(link->qp);
	else
		rdmabroker_destroy_qp(link->id);
	if (link->srq && ibv_destroy_srq(link->srq) != 0)
		die("the shared receive queue cannot be destroyed: %s", strerror(errno));
	if (ibv_dereg_mr(link->mr) != 0)
		die("the memory region cannot be removed: %s", strerror(errno));
	munmap(link->memory, sizeof(*link->memory));
	if (ibv_destroy_cq(link->cq) != 0)
		die("the completion queue cannot be destroyed: %s", strerror(errno));
	ibv_destroy_comp_channel(link->channel);
}

void link_post_receive(struct link *link, unsigned slot)
{
	struct link_memory *memory = &link->memory->receives[slot];
	/* Only datagrams have a GRH before the message. */
	bool has_grh = link->qp->qp_type == IBV_QPT_UD;
	struct ibv_sge sge = {
		.addr = has_grh ? (uintptr_t)memory : (uintptr_t)&memory->message,
		.length = has_grh ? sizeof(*memory) : sizeof(memory->message),
		.lkey = link->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };
	int r = link->srq ? ibv_post_srq_recv(link->srq, &wr, &bad) :
			    ibv_post_recv(link->qp, &wr, &bad);

	if (r != 0)
		die("a receive cannot be posted: %s", strerror(r));
	link->n_receives++;
}

void link_post_send(struct link *link, const struct link_dest *dest)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&link->memory->send.message,
		.length = sizeof(struct message),
		.lkey = link->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int r;

	if (dest) {
		wr.wr.ud.ah = dest->ah;
		wr.wr.ud.remote_qpn = dest->qpn;
		wr.wr.ud.remote_qkey = dest->qkey;
	}
	r = ibv_post_send(link->qp, &wr, &bad);
	if (r != 0)
		die("a send cannot be posted: %s", strerror(r));
	link->n_sends++;
}

/* Writes the pattern in link->memory->target to the client's address in REQUEST. */
void link_post_write(struct link *link, const struct message *request)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)link->memory->target,
		.length = PATTERN_SIZE,
		.lkey = link->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = request->addr, .rkey = request->rkey },
	};
	int r = ibv_post_send(link->qp, &wr, &bad);

	if (r != 0)
		die("a write cannot be posted: %s", strerror(r));
	link->n_writes++;
}

static void wait_for_completions(struct link *link, int timeout_ms)
{
	struct pollfd p = { .fd = link->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&p, 1, timeout_ms) <= 0 || ibv_get_cq_event(link->channel, &cq, &context) < 0)
		return;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(cq, 0);
}

/*
 * Takes a receive that completed while link_try() awaited a send; false: none. An answer can arrive before its
 * request's send completes.
 */
static bool take_early(struct link *link, struct ibv_wc *ret)
{
	if (link->n_early == 0)
		return false;
	*ret = link->early[0];
	link->n_early--;
	memmove(&link->early[0], &link->early[1], link->n_early * sizeof(link->early[0]));
	return true;
}

static void count_completion(struct link *link, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		link->n_failed++;
	else if (wc->opcode == IBV_WC_RECV)
		link->n_receives--;
	else if (wc->opcode == IBV_WC_SEND)
		link->n_sends--;
	else
		link->n_writes--;
}

bool link_try(struct link *link, enum ibv_wc_opcode opcode, int timeout_ms, struct ibv_wc *ret)
{
	int64_t deadline = now_ms() + timeout_ms;
	bool late = false;

	if (opcode == IBV_WC_RECV && take_early(link, ret))
		return true;
	for (;;) {
		int n = ibv_poll_cq(link->cq, 1, ret);
		int64_t left = deadline - now_ms();

		if (n < 0)
			die("the completion queue cannot be polled");
		if (n == 1)
			count_completion(link, ret);
		if (n == 1 && ret->status != IBV_WC_SUCCESS)
			return false;
		if (n == 1 && ret->opcode == opcode)
			return true;
		/* The array has room for all posted receives. */
		if (n == 1 && ret->opcode == IBV_WC_RECV)
			link->early[link->n_early++] = *ret;
		if (n == 1)
			continue;
		ret->status = IBV_WC_SUCCESS;
		if (late)
			return false;
		/*
		 * The completion event that ends this wait can belong to an earlier completion: poll once more after
		 * the timeout.
		 */
		late = left <= 0;
		wait_for_completions(link, late ? 0 : (int)left);
	}
}

void link_await(struct link *link, enum ibv_wc_opcode opcode, struct ibv_wc *ret)
{
	if (link_try(link, opcode, DEADLINE_MS, ret))
		return;
	if (ret->status == IBV_WC_SUCCESS) {
		stall_tell(rdmabroker_get_session(link->id), link, "no completion came");
		die("no completion came");
	}
	die("a completion says: %s", ibv_wc_status_str(ret->status));
}

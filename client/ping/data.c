/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"

#define HELLO_MAGIC "ping"
#define HELLO_VERSION 1
#define MESSAGE_MAGIC "PiNg"

enum message_type {
	MESSAGE_ROUND = 1, /* from the client: the pattern, and where to write the inverted one */
	MESSAGE_DONE = 2, /* from the server: the inverted pattern is written */
	MESSAGE_BYE = 3, /* from the client: the last message */
};

struct hello {
	char magic[4];
	uint32_t version; /* network order, as all numbers here and below */
	uint32_t size;
};
_Static_assert(sizeof(struct hello) == DATA_HELLO_LEN, "hello is on the wire");

struct message {
	char magic[4];
	uint32_t type;
	uint64_t round; /* BYE: the number of rounds */
	uint64_t addr;
	uint32_t rkey;
	uint32_t size; /* size of the pattern */
};
_Static_assert(sizeof(struct message) == 32, "message is on the wire");

enum work {
	WORK_RECV,
	WORK_WRITE,
	WORK_SEND,
};

__attribute__((format(printf, 3, 4))) static int fail(struct data *data, int error, const char *fmt,
						      ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(data->error, sizeof(data->error), fmt, ap);
	va_end(ap);
	return error;
}

void data_pack_hello(uint8_t hello[DATA_HELLO_LEN], size_t size)
{
	struct hello h = { .version = htobe32(HELLO_VERSION), .size = htobe32((uint32_t)size) };

	memcpy(h.magic, HELLO_MAGIC, sizeof(h.magic));
	memcpy(hello, &h, sizeof(h));
}

int data_unpack_hello(size_t *ret_size, const void *hello, size_t len)
{
	struct hello h;
	size_t size;

	if (len < sizeof(h))
		return -EPROTO;
	memcpy(&h, hello, sizeof(h));
	if (memcmp(h.magic, HELLO_MAGIC, sizeof(h.magic)) != 0 ||
	    be32toh(h.version) != HELLO_VERSION)
		return -EPROTO;
	size = be32toh(h.size);
	if (size < 1 || size > DATA_SIZE_MAX)
		return -E2BIG;
	*ret_size = size;
	return 0;
}

/* The pattern differs in every round and at every offset, so that stale or shifted data is detected. */
static void fill_pattern(uint8_t *buf, size_t size, uint64_t round)
{
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t x = (round << 32) + i;
		size_t n = size - i < sizeof(x) ? size - i : sizeof(x);

		x = (x + 1) * 0x9e3779b97f4a7c15;
		x ^= x >> 31;
		x *= 0xbf58476d1ce4e5b9;
		x ^= x >> 29;
		x = htole64(x);
		memcpy(buf + i, &x, n);
	}
}

static void invert(uint8_t *dest, const uint8_t *src, size_t size)
{
	for (size_t i = 0; i < size; i++)
		dest[i] = (uint8_t)~src[i];
}

static int compare(struct data *data, const char *what, uint64_t round, const uint8_t *got,
		   const uint8_t *expected, size_t len)
{
	if (memcmp(got, expected, len) == 0)
		return 0;
	for (size_t i = 0;; i++)
		if (got[i] != expected[i])
			return fail(
				data, -EBADMSG,
				"round %llu: wrong data in %s: byte %zu is 0x%02x instead of 0x%02x",
				(unsigned long long)round, what, i, got[i], expected[i]);
}

static int make_buffer(struct data *data, uint8_t **ret, struct ibv_mr **ret_mr, size_t size,
		       int access)
{
	struct ibv_mr *mr;
	uint8_t *buf;
	int r;

	buf = calloc(1, size);
	if (!buf)
		return fail(data, -ENOMEM, "out of memory");
	mr = ibv_reg_mr(data->pd, buf, size, access);
	if (!mr) {
		r = -errno;
		free(buf);
		return fail(data, r, "cannot register %zu bytes of memory: %s%s", size,
			    strerror(-r),
			    r == -ENOMEM ? " (check the limit of \"ulimit -l\")" : "");
	}
	*ret = buf;
	*ret_mr = mr;
	return 0;
}

int data_init(struct data *data, struct ibv_context *verbs, size_t size)
{
	size_t len = sizeof(struct message) + size;
	int r;

	*data = (struct data){ .size = size };

	data->expected = calloc(1, size);
	if (!data->expected)
		return fail(data, -ENOMEM, "out of memory");
	data->pd = ibv_alloc_pd(verbs);
	if (!data->pd)
		return fail(data, -errno, "cannot create a protection domain: %s", strerror(errno));
	data->channel = ibv_create_comp_channel(verbs);
	if (!data->channel)
		return fail(data, -errno, "cannot create a completion channel: %s",
			    strerror(errno));
	if (fcntl(data->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return fail(data, -errno, "cannot set O_NONBLOCK: %s", strerror(errno));
	data->cq = ibv_create_cq(verbs, 16, NULL, data->channel, 0);
	if (!data->cq)
		return fail(data, -errno, "cannot create a completion queue: %s", strerror(errno));
	r = ibv_req_notify_cq(data->cq, 0);
	if (r != 0)
		return fail(data, -r, "cannot arm the completion queue: %s", strerror(r));

	r = make_buffer(data, &data->message, &data->message_mr, len, 0);
	if (r == 0)
		r = make_buffer(data, &data->received, &data->received_mr, len,
				IBV_ACCESS_LOCAL_WRITE);
	if (r == 0)
		r = make_buffer(data, &data->target, &data->target_mr, size,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return r;
}

void data_done(struct data *data)
{
	if (data->target_mr)
		ibv_dereg_mr(data->target_mr);
	if (data->received_mr)
		ibv_dereg_mr(data->received_mr);
	if (data->message_mr)
		ibv_dereg_mr(data->message_mr);
	free(data->target);
	free(data->received);
	free(data->message);
	free(data->expected);
	if (data->cq)
		ibv_destroy_cq(data->cq);
	if (data->channel)
		ibv_destroy_comp_channel(data->channel);
	if (data->pd)
		ibv_dealloc_pd(data->pd);
	*data = (struct data){ 0 };
}

void data_get_qp_attr(const struct data *data, struct ibv_qp_init_attr *ret)
{
	*ret = (struct ibv_qp_init_attr){
		.send_cq = data->cq,
		.recv_cq = data->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 4,
			.max_recv_wr = 2,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
}

static int post_receive(struct data *data)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)data->received,
		.length = (uint32_t)(sizeof(struct message) + data->size),
		.lkey = data->received_mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = WORK_RECV, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int r;

	data->has_received = false;
	r = ibv_post_recv(data->qp, &wr, &bad);
	if (r != 0)
		return fail(data, -r, "cannot post a receive: %s", strerror(r));
	return 0;
}

/* Posts WR, which sends LEN bytes of the message from OFFSET on. */
static int post(struct data *data, struct ibv_send_wr *wr, size_t offset, size_t len,
		const char *what)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)data->message + offset,
		.length = (uint32_t)len,
		.lkey = data->message_mr->lkey,
	};
	struct ibv_send_wr *bad;
	int r;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	r = ibv_post_send(data->qp, wr, &bad);
	return r != 0 ? fail(data, -r, "cannot post a %s: %s", what, strerror(r)) : 0;
}

static int post_send(struct data *data, size_t len)
{
	struct ibv_send_wr wr = {
		.wr_id = WORK_SEND,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int r = post(data, &wr, 0, len, "send");

	data->n_sending += r == 0;
	return r;
}

static int post_write(struct data *data, uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = WORK_WRITE,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	return post(data, &wr, sizeof(struct message), data->size, "write");
}

int data_start(struct data *data, struct ibv_qp *qp)
{
	data->qp = qp;
	return post_receive(data);
}

int data_get_fd(const struct data *data)
{
	return data->channel->fd;
}

int data_wakeup(struct data *data)
{
	struct ibv_cq *cq;
	void *context;
	int r;

	if (ibv_get_cq_event(data->channel, &cq, &context) < 0)
		return errno == EAGAIN ?
			       0 :
			       fail(data, -errno, "cannot read the completion channel: %s",
				    strerror(errno));
	ibv_ack_cq_events(cq, 1);
	r = ibv_req_notify_cq(cq, 0);
	if (r != 0)
		return fail(data, -r, "cannot arm the completion queue: %s", strerror(r));
	return 0;
}

int data_poll(struct data *data)
{
	static const char *const work_names[] = {
		[WORK_RECV] = "receive",
		[WORK_WRITE] = "RDMA write",
		[WORK_SEND] = "send",
	};
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(data->cq, 1, &wc)) > 0) {
		if (wc.status == IBV_WC_WR_FLUSH_ERR)
			continue;
		if (wc.status != IBV_WC_SUCCESS)
			return fail(data, -EIO, "%s failed: %s", work_names[wc.wr_id],
				    ibv_wc_status_str(wc.status));
		if (wc.wr_id == WORK_RECV) {
			data->has_received = true;
			data->received_len = wc.byte_len;
		} else {
			data->n_sending--;
		}
	}
	return n < 0 ? fail(data, -EIO, "cannot poll the completion queue") : 0;
}

bool data_is_ready(const struct data *data)
{
	return data->has_received && data->n_sending == 0;
}

static void make_message(const struct data *data, struct message *ret, enum message_type type,
			 uint64_t round)
{
	*ret = (struct message){
		.type = htobe32(type),
		.round = htobe64(round),
		.size = htobe32((uint32_t)data->size),
	};
	memcpy(ret->magic, MESSAGE_MAGIC, sizeof(ret->magic));
	if (type == MESSAGE_ROUND) {
		ret->addr = htobe64((uintptr_t)data->target);
		ret->rkey = htobe32(data->target_mr->rkey);
	}
}

int data_send_round(struct data *data, uint64_t round)
{
	struct message m;

	make_message(data, &m, MESSAGE_ROUND, round);
	memcpy(data->message, &m, sizeof(m));
	fill_pattern(data->message + sizeof(m), data->size, round);
	memset(data->target, 0, data->size);
	return post_send(data, sizeof(m) + data->size);
}

int data_send_bye(struct data *data)
{
	struct message m;

	make_message(data, &m, MESSAGE_BYE, data->n_verified);
	memcpy(data->message, &m, sizeof(m));
	return post_send(data, sizeof(m));
}

static int verify_length(struct data *data, uint64_t round, size_t expected)
{
	if (data->received_len == expected)
		return 0;
	return fail(data, -EBADMSG, "round %llu: the message has %zu bytes instead of %zu",
		    (unsigned long long)round, data->received_len, expected);
}

int data_verify_done(struct data *data, uint64_t round)
{
	struct message m;
	int r;

	make_message(data, &m, MESSAGE_DONE, round);
	fill_pattern(data->expected, data->size, round);
	invert(data->expected, data->expected, data->size);

	r = verify_length(data, round, sizeof(m));
	if (r == 0)
		r = compare(data, "the server's message", round, data->received, (uint8_t *)&m,
			    sizeof(m));
	if (r == 0)
		r = compare(data, "the memory that the server wrote", round, data->target,
			    data->expected, data->size);
	if (r < 0)
		return r;
	data->n_verified++;
	return post_receive(data);
}

int data_serve(struct data *data, bool *ret_bye)
{
	uint64_t round = data->n_verified + 1;
	struct message got, m;
	bool bye;
	int r;

	memcpy(&got, data->received, sizeof(got));
	bye = data->received_len >= sizeof(got) && got.type == htobe32(MESSAGE_BYE);

	make_message(data, &m, bye ? MESSAGE_BYE : MESSAGE_ROUND, bye ? data->n_verified : round);
	m.addr = got.addr;
	m.rkey = got.rkey;
	r = verify_length(data, round, sizeof(m) + (bye ? 0 : data->size));
	if (r == 0)
		r = compare(data, "the client's message", round, (uint8_t *)&got, (uint8_t *)&m,
			    sizeof(m));
	if (r < 0)
		return r;
	*ret_bye = bye;
	if (bye)
		return 0;

	fill_pattern(data->expected, data->size, round);
	r = compare(data, "the client's pattern", round, data->received + sizeof(m), data->expected,
		    data->size);
	if (r < 0)
		return r;
	invert(data->message + sizeof(m), data->received + sizeof(m), data->size);

	make_message(data, &m, MESSAGE_DONE, round);
	memcpy(data->message, &m, sizeof(m));
	/* Post the receive before the answer, after which the client can send its next round. */
	r = post_receive(data);
	if (r == 0)
		r = post_write(data, be64toh(got.addr), be32toh(got.rkey));
	if (r == 0)
		r = post_send(data, sizeof(m));
	data->n_verified += r == 0;
	return r;
}

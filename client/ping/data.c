/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"

/* The data of a connection, and its objects on the device. Errors are printed here. */

struct message {
	char magic[4];
	uint32_t type; /* network order, as all numbers here and below */
	uint64_t round; /* BYE: the number of rounds */
	uint64_t addr; /* ROUND: where to write the inverted pattern */
	uint32_t rkey;
	uint32_t size; /* size of the pattern */
};
_Static_assert(sizeof(struct message) == 32, "message is on the wire");

/* The places in the memory of a connection. Each has room for a message with a pattern. */
enum place {
	SENT,
	RECEIVED, /* of the client: the server's message, and the pattern that the server has written */
	EXPECTED,
	PLACES
};

static size_t place_size(const struct conn *conn)
{
	return (sizeof(struct message) + conn->size + 7) / 8 * 8;
}

static struct message *message_at(const struct conn *conn, enum place place)
{
	return (struct message *)(conn->memory + place * place_size(conn));
}

size_t data_hello_size(const void *data, size_t len)
{
	uint32_t hello[PING_HELLO_LEN], size;

	if (len < sizeof(hello))
		return 0;
	memcpy(hello, data, sizeof(hello));
	size = be32toh(hello[2]);
	return hello[0] == PING_MAGIC && hello[1] == PING_VERSION && size <= PING_MAX_SIZE ? size :
											     0;
}

static enum outcome post_receive(struct conn *conn)
{
	struct ibv_sge sge = { (uintptr_t)message_at(conn, RECEIVED),
			       (uint32_t)(sizeof(struct message) + conn->size), conn->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVED, .sg_list = &sge, .num_sge = 1 }, *bad;

	conn->received = 0;
	if (ibv_post_recv(rdmabroker_get_qp(conn->id), &wr, &bad) == 0)
		return OUTCOME_OK;
	complain("connection with %s: cannot post a receive", conn->peer);
	return OUTCOME_FAILED;
}

/* Sends LEN bytes from FROM on, or writes them to where the message WRITE says. */
static enum outcome post(struct conn *conn, const void *from, size_t len,
			 const struct message *write)
{
	struct ibv_sge sge = { (uintptr_t)from, (uint32_t)len, conn->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = SENT,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	if (write) {
		wr.wr.rdma.remote_addr = be64toh(write->addr);
		wr.wr.rdma.rkey = be32toh(write->rkey);
	}
	conn->n_sending++;
	if (ibv_post_send(rdmabroker_get_qp(conn->id), &wr, &bad) == 0)
		return OUTCOME_OK;
	complain("connection with %s: cannot post a send", conn->peer);
	return OUTCOME_FAILED;
}

enum outcome data_open(struct conn *conn)
{
	const size_t len = PLACES * place_size(conn);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_context *verbs;
	int r = rdmabroker_get_verbs(conn->id, &verbs);

	if (r < 0)
		return ping_call_failed(r);
	conn->pd = ibv_alloc_pd(verbs);
	conn->channel = conn->pd ? ibv_create_comp_channel(verbs) : NULL;
	conn->cq = conn->channel ? ibv_create_cq(verbs, 16, NULL, conn->channel, 0) : NULL;
	conn->memory = conn->cq ? calloc(1, len) : NULL;
	conn->mr = conn->memory ? ibv_reg_mr(conn->pd, conn->memory, len,
					     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) :
				  NULL;
	if (!conn->mr || fcntl(conn->channel->fd, F_SETFL, O_NONBLOCK) < 0 ||
	    ibv_req_notify_cq(conn->cq, 0) != 0) {
		complain("cannot create a completion queue and register %zu bytes of memory: %m%s",
			 len, errno == ENOMEM ? " (check the limit of \"ulimit -l\")" : "");
		return OUTCOME_FAILED;
	}
	attr.send_cq = attr.recv_cq = conn->cq;
	r = rdmabroker_create_qp(conn->id, conn->pd, &attr);
	return r < 0 ? ping_call_failed(r) : post_receive(conn);
}

/* The QP goes before its CQ and its PD. */
void data_close(struct conn *conn)
{
	rdmabroker_destroy_qp(conn->id);
	if (conn->mr)
		ibv_dereg_mr(conn->mr);
	free(conn->memory);
	if (conn->cq)
		ibv_destroy_cq(conn->cq);
	if (conn->channel)
		ibv_destroy_comp_channel(conn->channel);
	if (conn->pd)
		ibv_dealloc_pd(conn->pd);
}

/* Why work requests were flushed, an event of the connection says. */
bool data_poll(struct conn *conn)
{
	bool is_any = false;
	struct ibv_wc wc;

	while (conn->cq && ibv_poll_cq(conn->cq, 1, &wc) > 0) {
		is_any = true;
		if (wc.status == IBV_WC_SUCCESS) {
			conn->n_sending -= wc.wr_id == SENT;
			conn->received = wc.wr_id == SENT ? conn->received : wc.byte_len;
		} else if (wc.status != IBV_WC_WR_FLUSH_ERR && conn->state < STEP_DISCONNECTED) {
			complain("connection with %s: %s failed: %s", conn->peer,
				 wc.wr_id == SENT ? "a send" : "a receive",
				 ibv_wc_status_str(wc.status));
			conn->outcome = OUTCOME_FAILED;
		}
	}
	return is_any;
}

/* The pattern differs in every round and at every offset, so that stale or shifted data is detected. */
static struct message *make_message(const struct conn *conn, enum place place,
				    enum message_type type, uint64_t round)
{
	struct message *m = message_at(conn, place);
	uint8_t *pattern = (uint8_t *)(m + 1);

	*m = (struct message){
		"PiNg", htobe32(type), htobe64(round), 0, 0, htobe32((uint32_t)conn->size)
	};
	if (type == MESSAGE_ROUND) {
		m->addr = htobe64((uintptr_t)(message_at(conn, RECEIVED) + 1));
		m->rkey = htobe32(conn->mr->rkey);
	}
	for (size_t i = 0; i < conn->size; i++) {
		uint64_t x = ((round << 32) + (i & ~(size_t)7) + 1) * 0x9e3779b97f4a7c15;

		x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9;
		x = (x ^ x >> 29) >> 8 * (i & 7);
		pattern[i] = (uint8_t)(type == MESSAGE_DONE ? ~x : x);
	}
	return m;
}

enum outcome data_send(struct conn *conn, enum message_type type, uint64_t round)
{
	return post(conn, make_message(conn, SENT, type, round),
		    sizeof(struct message) + (type == MESSAGE_ROUND ? conn->size : 0),
		    /* write= */ NULL);
}

static enum outcome verify(const struct conn *conn, enum message_type type, uint64_t round)
{
	const struct message *got = message_at(conn, RECEIVED);
	struct message *expected = make_message(conn, EXPECTED, type, round);
	size_t len = sizeof(*got) + (type == MESSAGE_BYE ? 0 : conn->size), i = 0;

	/* Only the client knows where its memory is. */
	expected->addr = type == MESSAGE_ROUND ? got->addr : 0;
	expected->rkey = type == MESSAGE_ROUND ? got->rkey : 0;
	while (i < len && ((const uint8_t *)got)[i] == ((uint8_t *)expected)[i])
		i++;
	if (i == len && conn->received == (type == MESSAGE_DONE ? sizeof(*got) : len))
		return OUTCOME_OK;
	complain("connection with %s: round %llu: wrong data: %zu bytes came, and are right up to "
		 "byte %zu",
		 conn->peer, (unsigned long long)round, conn->received, i);
	return OUTCOME_FAILED;
}

enum outcome data_verify_done(struct conn *conn)
{
	enum outcome outcome = verify(conn, MESSAGE_DONE, conn->n_verified + 1);

	conn->n_verified += outcome == OUTCOME_OK;
	return outcome ?: post_receive(conn);
}

enum outcome data_serve(struct conn *conn, bool *ret_bye)
{
	uint64_t round = conn->n_verified + 1;
	struct message got = *message_at(conn, RECEIVED), *done;
	enum outcome outcome;

	*ret_bye = got.type == htobe32(MESSAGE_BYE);
	if (*ret_bye)
		return verify(conn, MESSAGE_BYE, conn->n_verified);
	outcome = verify(conn, MESSAGE_ROUND, round);
	conn->n_verified += outcome == OUTCOME_OK;
	done = make_message(conn, SENT, MESSAGE_DONE, round);
	/* Post the receive before the answer, after which the client can send its next round. */
	outcome = outcome ?: post_receive(conn);
	outcome = outcome ?: post(conn, done + 1, conn->size, &got);
	return outcome ?: post(conn, done, sizeof(*done), /* write= */ NULL);
}

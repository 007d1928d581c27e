/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The data path of one rdmabroker-ping connection.
 *
 *   client                                          server
 *     SEND round n, SIZE bytes of pattern  ───────>   verifies every byte
 *     verifies every byte                  <───────   RDMA WRITE: the pattern inverted
 *     verifies the message                 <───────   SEND done n
 *   ... and at the end
 *     SEND bye, number of rounds           ───────>   verifies the number
 *
 * The functions that return int, except data_unpack_hello() and data_get_fd(), return 0 or a negative errno, and
 * store the reason as text in data.error.
 */

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATA_SIZE_MAX ((size_t)1 << 20)
#define DATA_HELLO_LEN 12

struct data {
	size_t size; /* of the pattern of a round, in bytes */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* of the id; data_done() does not destroy it */

	uint8_t *message; /* to send: header and pattern */
	uint8_t *received; /* received: header and pattern */
	uint8_t *target; /* the peer writes the inverted pattern here */
	uint8_t *expected; /* to compare with; not registered */
	struct ibv_mr *message_mr;
	struct ibv_mr *received_mr;
	struct ibv_mr *target_mr;

	unsigned n_sending; /* posted sends without a completion yet */
	bool has_received;
	size_t received_len;
	uint64_t n_verified; /* number of rounds with correct data */

	char error[160];
};

/* The hello is the private data of connect and accept: magic, version, and size of the pattern. */
void data_pack_hello(uint8_t hello[DATA_HELLO_LEN], size_t size);
/* Padding can follow the hello. Returns 0; -EPROTO: not from rdmabroker-ping; -E2BIG: the size is not valid. */
int data_unpack_hello(size_t *ret_size, const void *hello, size_t len);

int data_init(struct data *data, struct ibv_context *verbs, size_t size);
void data_done(
	struct data *data); /* DATA can be all zero or half-built; destroy the QP before this */
void data_get_qp_attr(const struct data *data, struct ibv_qp_init_attr *ret);
/* Uses QP, which is in state INIT or later, and posts the first receive. */
int data_start(struct data *data, struct ibv_qp *qp);

/* When this descriptor is readable, call data_wakeup(). */
int data_get_fd(const struct data *data);
int data_wakeup(struct data *data);
/* Takes completions. Ignores those of flushed work requests: an event of the connection reports the reason. */
int data_poll(struct data *data);
/* True if a message was received, and the last one that was sent has completed. */
bool data_is_ready(const struct data *data);

int data_send_round(struct data *data, uint64_t round);
int data_verify_done(struct data *data, uint64_t round);
int data_send_bye(struct data *data);
/* Verifies the message that was received, and answers it. *RET_BYE: it was the last message, and was not answered. */
int data_serve(struct data *data, bool *ret_bye);

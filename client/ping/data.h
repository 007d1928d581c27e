/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The data path of one rdmabroker-ping connection: memory, completions, and the messages of a round.
 *
 *   client                                          server
 *     SEND round n, SIZE bytes of pattern  ───────>   verifies every byte
 *     verifies every byte                  <───────   RDMA WRITE: the pattern inverted
 *     verifies the message                 <───────   SEND done n
 *   ... and at the end
 *     SEND bye                             ───────>   knows that no round was lost
 *
 * Functions that take a struct data and return int, except data_get_fd(), return 0 or a negative errno, and store the
 * reason as text in data.error.
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
	struct ibv_qp *qp; /* the id's QP, which data_done() does not destroy */

	uint8_t *message; /* the message to send: header and pattern */
	uint8_t *received; /* the message received: header and pattern */
	uint8_t *target; /* the peer writes the inverted pattern here */
	uint8_t *expected; /* the pattern to compare with; not registered */
	struct ibv_mr *message_mr;
	struct ibv_mr *received_mr;
	struct ibv_mr *target_mr;

	unsigned n_sending; /* posted sends whose completion was not taken yet */
	bool has_received;
	size_t received_len;
	uint64_t n_verified; /* number of rounds whose data was correct */

	char error[160];
};

/* The hello is the private data of connect and accept: magic, version, and size of the pattern. */
void data_pack_hello(uint8_t hello[DATA_HELLO_LEN], size_t size);
/* Padding may follow the hello. Returns 0; -EPROTO: not from rdmabroker-ping; -E2BIG: the size is not valid. */
int data_unpack_hello(size_t *ret_size, const void *hello, size_t len);

int data_init(struct data *data, struct ibv_context *verbs, size_t size);
void data_done(
	struct data *data); /* DATA may be all zero or half-built; destroy the QP before this */
void data_get_qp_attr(const struct data *data, struct ibv_qp_init_attr *ret);
/* Use QP, which is in state INIT or later, and post the first receive. */
int data_start(struct data *data, struct ibv_qp *qp);

/* The descriptor to poll; when it is readable call data_wakeup(). */
int data_get_fd(const struct data *data);
int data_wakeup(struct data *data);
/* Take completions. Flushed work requests are ignored: an event of the connection reports why they were flushed. */
int data_poll(struct data *data);
/* True if a message was received, and the last one that was sent has completed. */
bool data_is_ready(const struct data *data);

int data_send_round(struct data *data, uint64_t round);
int data_verify_done(struct data *data, uint64_t round);
int data_send_bye(struct data *data);
/* Verify the message that was received, and answer it. If it is the last one, *RET_BYE is set to true instead. */
int data_serve(struct data *data, bool *ret_bye);

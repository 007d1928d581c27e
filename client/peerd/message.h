/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What two rdmabroker-peerd say to each other, before it is sealed: JSON. The asking host sends
 *
 *   {"version": 1, "kind": "questions", "nonce": "<32 hexadecimal digits>", "from": "10.0.0.1", "to": "10.0.0.2",
 *    "questions": [{"who": "connects", "ps": 262, "port": 40001, "peer_port": 7471, "qpn": 17}, ...]}
 *
 * The addresses are those of the TCP connection, and of the RDMA connections too: PORT is on the host that is asked,
 * PEER_PORT on the one that asks. The other host sends, with the nonce and the addresses of the questions, and in their
 * order,
 *
 *   {"version": 1, "kind": "answers", "nonce": ..., "from": ..., "to": ...,
 *    "answers": [{"uid": 1000, "gids": [1000, 100], "unit": "a.service", "job": "17"},
 *                {"unknown": "no program has this address"}, ...]}
 *
 * "unit": null says that the unit and the rest are not known. Other members are ignored.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/admin.h"

#define QUESTIONS_MAX 32 /* in one message */
#define NONCE_MAX 33
#define MESSAGE_ERROR_MAX 160

struct question {
	bool listens; /* who listens on PORT? false: who connects from PORT to PEER_PORT? */
	int ps; /* enum rdma_port_space */
	uint16_t port, peer_port; /* host order */
	uint32_t qpn; /* 0: not known */
};

/* The addresses as text, without ports: of IPv4 also if they are mapped to IPv6. */
struct message_head {
	char nonce[NONCE_MAX];
	char from[64], to[64]; /* the asking host, and the one that is asked */
};

/* An answer, which points into the message. */
struct answer {
	const char *unknown; /* why it is not known; NULL: WHO is set */
	struct rdmabroker_who who;
	uint32_t *gids;
};

struct answers {
	json_t *message;
	size_t n;
	struct answer list[QUESTIONS_MAX];
};

/* The address in ADDR as text, in RET. Empty: it is no IP address. Returns RET. */
const char *message_address(const struct sockaddr *addr, char ret[64]);
/* Sets a new nonce. False: there is no randomness. */
bool message_set_nonce(struct message_head *head);

/* The caller frees the texts. NULL: out of memory. */
char *message_ask(const struct message_head *head, const struct question *questions, size_t n);
/* The parsers return false if TEXT is not such a message; ERROR says why. */
bool message_read_questions(const char *text, struct message_head *ret_head,
			    struct question ret[QUESTIONS_MAX], size_t *ret_n,
			    char error[MESSAGE_ERROR_MAX]);

json_t *message_new_answer(const struct rdmabroker_who *who);
json_t *message_new_unknown(const char *why);
/* Takes the reference to ANSWERS, an array. */
char *message_answer(const struct message_head *head, json_t *answers);
/* The answers to N questions with HEAD. Call answers_done() in any case. */
bool message_read_answers(const char *text, const struct message_head *head, size_t n,
			  struct answers *ret, char error[MESSAGE_ERROR_MAX]);
void answers_done(struct answers *answers);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A broker that breaks the protocol, in the same thread as the library: it runs whenever the library would wait. A
 * test sets its answers, and the packets that it sends without a request.
 */

#include <stdbool.h>
#include <stdint.h>

#include "client/admin.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/unit/unit.h"

#define LIAR_TIMEOUT \
	PATIENCE_MS /* by a clock that also advances when a wait ends without a result */
#define LIAR_SLOW_MS (LIAR_TIMEOUT / 10 * 9) /* an answer takes so long */
#define MIB (1u << 20)

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define RESULT(NAME) RDMABROKER__REPLY__RESULT_##NAME

struct liar {
	int sock;
	uint32_t max_ids; /* the limit in its reply to hello */
	bool is_deaf; /* it reads no requests */
	void (*answer)(const Rdmabroker__Request *request); /* NULL: it does not answer */
	void (*flood)(void); /* sends one packet; called when the socket is empty; NULL: no flood */
	int64_t tired_at; /* when the flood ends */
	size_t n_sent; /* bytes that were sent */
};

extern struct liar liar;
extern struct rdmabroker *session;

void liar_set_up(void);
void liar_tear_down(void); /* fails the test if the library has not freed all its memory */
void liar_open(unsigned flags, int timeout_ms);

void liar_send_event(Rdmabroker__Event *event);
void liar_send_notice(Rdmabroker__Notice *notice);
void liar_send_reply(const Rdmabroker__Request *request, Rdmabroker__Reply *reply);
/* Replies to REQUEST with success. This is the initial liar.answer. */
void liar_say_yes(const Rdmabroker__Request *request);
/* From now on the broker sends a flood of packets, until it is tired, which is PATIENCE. */
void liar_start_flood(void (*flood)(void));
void liar_expect_not_tired(void);

struct rdmabroker_id *liar_make_id(void);

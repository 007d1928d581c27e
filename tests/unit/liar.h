/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A broker that lies to the library, in one thread with it: it has its turn where the library waits. A test
 * says what it answers, and what it sends without being asked.
 */

#include <stdbool.h>
#include <stdint.h>

#include "client/rdmabroker.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/unit/unit.h"

#define LIAR_TIMEOUT 10000 /* of a clock that a wait in vain sets forward */
#define LIAR_TIRED_MS 5000 /* of flooding what has to give up far earlier */
#define MIB (1u << 20)

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define RESULT(NAME) RDMABROKER__REPLY__RESULT_##NAME

struct liar {
	int sock;
	uint32_t max_ids; /* as it says at Hello */
	bool is_deaf; /* it reads no requests */
	void (*answer)(const Rdmabroker__Request *request); /* NULL: there is no answer */
	void (*flood)(void); /* sends one more packet, whenever nothing is there; NULL: no flood */
	int64_t tired_at; /* then the flood ends */
	size_t n_sent; /* bytes */
};

extern struct liar liar;
extern struct rdmabroker *session;

void liar_set_up(void);
void liar_tear_down(void); /* the library has given back all its memory, or the test fails */
void liar_open(unsigned flags, int timeout_ms);

void liar_send_event(Rdmabroker__Event *event);
void liar_send_notice(Rdmabroker__Notice *notice);
void liar_send_reply(const Rdmabroker__Request *request, Rdmabroker__Reply *reply);
/* What every request is answered with at first. */
void liar_say_yes(const Rdmabroker__Request *request);
/* From now on, until LIAR_TIRED_MS are over. */
void liar_start_flood(void (*flood)(void));
void liar_expect_not_tired(void);

struct rdmabroker_id *liar_make_id(void);

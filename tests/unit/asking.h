/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* rdmabroker-peerd asks other hosts, which the test plays. */

#include "tests/unit/peerd.h"

#define OTHER "10.9.0.7"

extern struct rdmabroker *server, *client;

void set_up_asking(void);
void tear_down_asking(void);

/* A connection request from the address HOST. */
struct rdmabroker_id *connect_from(const char *host, uint16_t port);
/* Begins to resolve the address of OTHER, where PORT is. */
struct rdmabroker_id *connect_to(uint16_t port);

/* The next decision about OPERATION. */
struct rdmabroker_notice *expect_decision(const char *operation);
void expect_allowed(const char *operation, uint32_t uid);
/* The decision is a reject, because it is not known who the peer is. WHY: a part of the reason. */
void expect_unknown(const char *operation, const char *why);
void expect_reject(void); /* the client gets it */
void reject_request(void); /* the server gets a request, and rejects it */
void expect_request(void); /* both */

/* Sends ANSWERS, a JSON array, to the questions in TEXT. */
void reply(int fd, const char *text, const char *answers);
/* Answers the next questions, which come through a new connection. */
void answer(int listening, const char *answers);

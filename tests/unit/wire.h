/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The daemon on the fake fabric, and clients that speak the protocol without the library, in one thread. When
 * wire_run() returns, only requests that the test holds back are unanswered.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/object/id.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "rpc/control.h"
#include "rpc/server.h"
#include "tests/fake/fake.h"
#include "tests/wire/requests.h"

struct wire_client {
	int sock;
	struct session *session; /* the client's session in the daemon */
	uint32_t serial;
	int fd; /* the last descriptor that was received; -1: none */
	bool dropped;
	unsigned n_answers; /* replies to the last request */
	int status; /* of the last reply: enum status, 0 for success; -1: no reply yet */
	int error; /* of the last reply: errno */
	char text[256]; /* of the last reply */
	uint32_t request; /* the id of the last CONNECT_REQUEST */
	unsigned n_errors; /* events CONNECT_ERROR */
	int event_status; /* of the last of them */
};

struct wire {
	sd_event *loop;
	struct core *core;
	struct server *server;
	enum door door; /* of the next clients; DOOR_ADMIN at first */
	uint64_t n_reloads; /* number of reloads that were requested; also the last ticket */
	bool holds_reloads; /* the test completes reloads itself, by control_reloaded() */
	unsigned n_stuck; /* blocked closes, for which wire_run() does not wait */
	unsigned n_asking; /* blocked look-ups of units, for which wire_run() does not wait */
};

extern struct wire wire;

void wire_start(const char *rules);
void wire_end(void); /* fails the test unless everything was released */
void wire_set_policy(const char *rules);
/* Runs the daemon until it is idle, and reads the packets for CLIENTS. */
void wire_run(struct wire_client *const *clients, size_t n);
/* Reads the packets that have already been sent, without running the daemon. */
void wire_receive(struct wire_client *const *clients, size_t n);

void wire_connect(struct wire_client *client);
/* Sends a Hello, without running the daemon. REPLIES_TO: the session that gets the replies of requests with apart; 0: none. */
void wire_hello(struct wire_client *client, uint64_t replies_to);
void wire_greet(struct wire_client *client,
		uint64_t replies_to); /* connects, and opens a session */
void wire_close(struct wire_client *client);

/* Calls request_make() with the client's next serial. */
size_t wire_make(struct wire_client *client, int op, uint32_t id, uint8_t buf[PACKET_MAX]);
void wire_send(struct wire_client *client, const uint8_t *buf, size_t len, const int *fd);
/* Sends a request and runs the daemon. The reply is in CLIENT. */
void wire_ask(struct wire_client *client, int op, uint32_t id);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The daemon above the fake fabric, and clients that speak the protocol without the library, in one thread:
 * what is sent is answered when wire_run() returns.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/id.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "rpc/control.h"
#include "rpc/server.h"
#include "tests/fake/fake.h"
#include "tests/wire/requests.h"

struct wire_client {
	int sock;
	struct session *session; /* in the daemon */
	uint32_t serial;
	int fd; /* the descriptor that came last; -1: none */
	bool dropped;
	unsigned n_answers; /* to the request sent last */
	int status; /* of its answer: enum status, 0 for yes */
	int error; /* likewise: errno */
	char text[256]; /* likewise */
	uint32_t request; /* the id of the last CONNECT_REQUEST */
};

struct wire {
	sd_event *loop;
	struct core *core;
	struct server *server;
	uint64_t n_reloads; /* that were asked for: their tickets */
	bool holds_reloads; /* they are done when the test says so, by server_reloaded() */
	unsigned n_stuck; /* descriptors that cannot be closed for now: they are not waited for */
	unsigned n_asking; /* units that cannot be found out for now: likewise */
};

extern struct wire wire;

void wire_start(const char *rules);
void wire_end(void); /* everything was given back, or the test fails */
void wire_set_policy(const char *rules);
/* What the daemon has to do is done, and what it said to CLIENTS is read. */
void wire_run(struct wire_client *const *clients, size_t n);
/* What it has said already is read, and nothing else happens. */
void wire_receive(struct wire_client *const *clients, size_t n);

void wire_connect(struct wire_client *client);
void wire_close(struct wire_client *client);

/* As request_make(), with the next serial. */
size_t wire_make(struct wire_client *client, int op, uint32_t id, uint8_t buf[PACKET_MAX]);
void wire_send(struct wire_client *client, const uint8_t *buf, size_t len, const int *fd);
/* Send and run; the answer is in CLIENT. */
void wire_ask(struct wire_client *client, int op, uint32_t id);

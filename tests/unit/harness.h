/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The library against the server over a real socket; below it the fake fabric. The server runs in a
 * thread of its own; what a test wants to know or change of it is asked by a function that its loop runs.
 */

#include <stdbool.h>
#include <stdint.h>

#include "client/rdmabroker.h"
#include "core/core.h"
#include "rpc/control.h"
#include "rpc/server.h"
#include "tests/fake/fake.h"
#include "tests/unit/unit.h"

#define T 5000 /* ms: long enough for a machine that is busy, never waited for when all is well */

struct harness {
	char dir[64];
	char socket_path[96];
	char rules_path[96]; /* what a reload reads */
	sd_event *loop;
	struct core *core;
	struct server *server;
	bool enforce; /* OnReload=enforce */
};

extern struct harness harness;

void set_up(void); /* with "allow any" */
void tear_down(void);

/* RUN in the server's thread, and wait for it. */
void in_server(void (*run)(void *arg), void *arg);
void stop_server(void); /* as if it had died */
void set_policy(const char *rules);
/* A client's end is seen by the server a little later: it has to come, within T. */
void await_counts(unsigned sessions, unsigned ids);

struct rdmabroker *open_session(unsigned flags);
const struct sockaddr *addr(uint16_t port); /* of the fake device */
struct rdmabroker_event *expect(struct rdmabroker *session, enum rdmabroker_event_type type);
void expect_done(struct rdmabroker *session, const char *call, int status);
void expect_failure(struct rdmabroker *session, int r, int error, const char *part);
struct rdmabroker_id *start_listening(struct rdmabroker *session, uint16_t port);
struct rdmabroker_id *resolve(struct rdmabroker *session, uint16_t port);
/* Of the I-th session in the list that SESSION, an admin's, is shown. */
uint64_t number_of(struct rdmabroker *session, size_t i);

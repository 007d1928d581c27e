/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The library against the server over a real socket, with the fake fabric below. The server has a thread of its own,
 * so a test reads or changes its state by in_server().
 */

#include <stdbool.h>
#include <stdint.h>

#include "client/admin.h"
#include "core/object/core.h"
#include "rpc/control.h"
#include "rpc/server.h"
#include "tests/fake/fake.h"
#include "tests/unit/unit.h"

#define T PATIENCE_MS /* a timeout that never ends if all is well */

struct harness {
	char dir[64];
	char socket_path[96]; /* of DOOR_ADMIN, where a client needs no rule for administration */
	char doors_dir[96], common_path[128], helper_path[128]; /* of the other doors */
	char restricted_dir[96]; /* RestrictedDirectory= */
	char rules_path[96]; /* the rules that a reload reads */
	sd_event *loop;
	struct core *core;
	struct server *server;
	bool enforce; /* OnReload=enforce */
};

extern struct harness harness;

void set_up(void); /* the policy is "allow any" */
void tear_down(void);

/* Calls RUN(ARG) in the server's thread, and waits until it has returned. */
void in_server(void (*run)(void *arg), void *arg);
/* Until the latter call the server does nothing, and in_server() must not be called. */
void hang_server(void);
void resume_server(void);
void stop_server(void); /* ends the server without notice, as if it had crashed */
void set_policy(const char *rules);
/* Waits until the server has this many sessions and ids. */
void await_counts(unsigned sessions, unsigned ids);

struct rdmabroker *open_session(unsigned flags); /* of DOOR_ADMIN */
struct rdmabroker *open_session_at(const char *path, unsigned flags);
const struct sockaddr *addr(uint16_t port); /* an address of the fake device */
struct rdmabroker_event *expect(struct rdmabroker *session, enum rdmabroker_event_type type);
void expect_done(struct rdmabroker *session, const char *call, int status);
void expect_failure(int r, int error, const char *part);
/* An admin's session is decided about with its first request that needs it: makes such a request. */
void be_client(struct rdmabroker *session);
struct rdmabroker_id *start_listening(struct rdmabroker *session, uint16_t port);
struct rdmabroker_id *start_listening_with(struct rdmabroker *session, uint16_t port, int backlog);
struct rdmabroker_id *resolve(struct rdmabroker *session, uint16_t port);
/* Returns the number of session I, counted from 0, in the list of sessions. SESSION must be an admin's. */
uint64_t number_of(struct rdmabroker *session, size_t i);

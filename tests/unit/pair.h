/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The core on the fake fabric, with two sessions, a server's and a client's, which record their events. */

#include <sys/socket.h>

#include "core/object/id.h"
#include "core/object/session.h"
#include "tests/fake/fake.h"
#include "tests/unit/unit.h"

#define QPN 17
#define STRANGER 4711

struct record {
	struct session *session;
	unsigned n;
	unsigned n_resumed; /* how often a request of the session could go on */
	struct {
		enum rdma_cm_event_type type;
		int status;
		uint32_t id, request;
		struct rdma_conn_param conn;
		uint8_t data[256];
		int traffic_class; /* in the RTR attributes; -1: there were none */
		bool with_info; /* the event came with the id's addresses and device */
		bool routed;
		bool with_init; /* the event came with the attributes for INIT */
		char text[256];
	} events[64];
};

extern sd_event *loop;
extern struct core *core;
extern struct record server, client;
extern struct failure why; /* the report of the last call that failed */
extern int sockets[2];

struct policy *load(const char *rules);
void pair_set_policy(const char *rules);
/* Runs the loop until nothing is due. */
void run_loop(void);
void pair_set_up(void);
/* Frees everything. account_done() and fabric_free() assert that nothing is left. */
void pair_tear_down(void);
/* Returns the address, in one of eight static buffers that are used in turn. */
const struct sockaddr *pair_addr(const char *ip, uint16_t port);
struct id *make(struct record *record, uint32_t handle);
/* Runs the loop, and checks event I of RECORD, counted from 0. */
void pair_expect(struct record *record, unsigned i, enum rdma_cm_event_type type, int status);
/* Returns the server's new id 1, which listens on PORT. */
struct id *pair_start_listening(uint16_t port);
/* Returns the client's new id HANDLE, whose address and route are resolved. */
struct id *pair_resolve(uint32_t handle, uint16_t port);
struct rdma_conn_param param(const char *data);
/* Creates the server's listener, its id 1, and connects the client's id 1 to it. */
void establish(struct id **ret_active, struct id **ret_passive);
/* Establishes and ends a connection. With timeout 31, the time wait of its ids does not end by itself. */
void pair_enter_time_wait(struct id **ret_active, struct id **ret_passive);
void pair_end_time_wait(struct id *active, struct id *passive);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Two programs that use the drop-in, a server and a client. The drop-in, the library and the daemon run in this
 * process, so the counts of packets and waits are exact.
 */

#include <check.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/hooks/hooks.h"

#define PORT 7471

/* One end of a connection: a program with its own event channel. */
struct end {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct hooks_traffic traffic; /* traffic of this program's calls */
};

extern struct end server, client;
extern struct rdma_cm_id *listener; /* the server's, on PORT */
extern struct broker *broker;

/* Evaluates CALL for the program END, and adds the traffic of CALL to END's. */
#define BY(end, call)                                                  \
	({                                                             \
		hooks_start_counting();                                \
		hooks_begin_call();                                    \
		__auto_type result_ = (call);                          \
		(end)->traffic.packets += hooks_get_traffic().packets; \
		(end)->traffic.waits += hooks_get_traffic().waits;     \
		(end)->traffic.looks += hooks_get_traffic().looks;     \
		result_;                                               \
	})
#define DO(end, call) ck_assert_msg(BY(end, call) == 0, "%s: %s", #call, strerror(errno))

#define COUNTS(end, n_packets, n_waits)                               \
	do {                                                          \
		ck_assert_uint_eq((end)->traffic.packets, n_packets); \
		ck_assert_uint_eq((end)->traffic.waits, n_waits);     \
	} while (0)

#define REFUSES(call, error)                                      \
	do {                                                      \
		ck_assert_int_lt(BY(&client, call), 0);           \
		ck_assert_str_eq(strerrorname_np(errno), #error); \
	} while (0)

/* The address 10.9.0.1 with PORT. Valid until the next call but one. */
struct sockaddr *addr(uint16_t port);
void forget_traffic(void);
bool is_readable(const struct rdma_event_channel *channel);
/* Lets the daemon do all that it has to do. */
void run_daemon(void);
/* Takes END's next event, which must be of TYPE, and returns the event's id. */
struct rdma_cm_id *await(struct end *end, enum rdma_cm_event_type type);
void set_up(void);
void tear_down(void);
void make_qp(struct end *end);
/* Gives client.id a route to the listener. FROM: the address to which it binds; NULL: none. */
void resolve(const struct sockaddr *from);
/* Connects client.id, whose route is resolved, to server.id. */
void connect_resolved(void);
/* Connects client.id to server.id. FROM: the address to which the client binds; NULL: none. */
void connect_ends(const struct sockaddr *from);
void end_connection(void);
/* Makes connections that are not counted, because the first ones have additional work, such as opening the device. */
void warm_up(void);

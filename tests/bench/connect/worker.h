/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The worker of rdmabroker-bench, the script, which starts a server and clients for each way to set up a connection,
 * sends them orders on their standard input, and gets the answers on their standard output.
 *
 *   worker.c             start, and what both ends do
 *   client.c, server.c   the two ends
 *   direct.c, library.c  the backends: librdmacm, or the drop-in, and librdmabroker
 */

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

/* The deadline of a wait for an event. */
#define DEADLINE_MS 120000
#define RESOLVE_MS 10000

struct event {
	enum rdma_cm_event_type type;
	int status;
	void *id;
};

/* The functions return 0 or a negative errno, unless stated otherwise. */
struct backend {
	/* Creates an id, binds it to ADDR, and keeps the id's device open. */
	int (*open)(struct sockaddr *addr, void **ret, struct ibv_context **ret_verbs);
	int (*listen)(void *id);
	int (*get_fd)(void);
	/* WAIT: waits for an event; otherwise returns -EAGAIN if there is none. */
	int (*get_event)(struct event *ret, bool wait);
	const char *(*get_failure)(void);
	void *(*get_context)(void *id);
	void (*set_context)(void *id, void *context);

	int (*create_id)(void **ret);
	int (*bind_addr)(void *id, struct sockaddr *addr);
	int (*resolve_addr)(void *id, struct sockaddr *addr);
	int (*resolve_route)(void *id);
	int (*init_qp_attr)(void *id, struct ibv_qp_attr *attr, int *mask);
	/* QP_NUM of connect and accept: 0 if the library made the QP. */
	int (*connect)(void *id, uint32_t qp_num);
	int (*establish)(void *id);
	int (*accept)(void *id, uint32_t qp_num);
	int (*disconnect)(void *id);
	int (*destroy_id)(void *id);
	/* The library makes the QP, and changes its states. */
	int (*create_qp)(void *id, struct ibv_qp_init_attr *attr);
	void (*destroy_qp)(void *id);
};

extern const struct backend direct_backend, library_backend;

struct worker {
	const struct backend *backend;
	struct sockaddr_in server, client;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* shared by all QPs */
	int barrier; /* of the client: a pipe, from which each client reads a byte before it begins */
	/*
	 * The program creates the QPs and changes their states, as cmtime does, so that all phases are measured. If
	 * false, the library does, and the client does not bind its id, as in most programs.
	 */
	bool moves_qps;
};

extern struct worker worker;

/* Prints what has failed, and exits. R: a negative errno; 0: there is none. */
void fail(int r, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* Reads an order, and sets worker.moves_qps if it has a word for that. Returns its verb. N: its number, if it has one. */
const char *read_order(unsigned *n);
uint64_t get_cpu_ns(void);
/* Moves a QP to STATE. TIMES: set to the time for the attributes and for the transition; NULL: not measured. */
void move_qp(void *id, struct ibv_qp *qp, enum ibv_qp_state state, uint64_t times[2]);
struct ibv_qp *make_qp(void);
void give_qp(void *id);

void run_client(void) __attribute__((noreturn));
void run_server(void) __attribute__((noreturn));

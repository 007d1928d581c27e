/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabroker-bench compares several ways to set up a connection (enum way). One process, the leader, starts workers.
 * A worker is a process that runs the client's or the server's end of one way.
 *
 *   main.c     options
 *   run.c      the rounds
 *   workers.c  starts the workers, and sends them orders
 *   result.c   writes the results
 *
 *   worker.c   in a worker: receives the orders
 *   client.c, server.c   the two ends
 *   data.c     data over an established connection
 *   direct.c, library.c  the backends: librdmacm and librdmabroker
 *
 * Leader and workers share memory: struct shared.
 */

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

#define MAX_CLIENTS 512
#define MAX_LEVELS 8
/* The deadline of a worker's wait for an event, for data or for a reply. */
#define DEADLINE_MS 120000
#define RESOLVE_MS 10000

enum way {
	WAY_DIRECT, /* librdmacm and the kernel's rdma_cm device */
	WAY_LIBRARY, /* librdmabroker */
	WAY_DROPIN, /* the program of WAY_DIRECT with the drop-in loaded before librdmacm */
	N_WAYS,
};

extern const char *const way_names[N_WAYS];

/* Who creates the QPs and changes their states, and whether the client binds its id. */
enum qps {
	QPS_PROGRAM, /* the program, as in cmtime, so that all phases are measured */
	QPS_MANAGED, /* the library, as in most programs: they only call rdma_create_qp() */
	QPS_UNBOUND, /* the library, and the client does not bind its id, like rping and UCX */
	N_QPS,
};

extern const char *const qps_names[N_QPS];

/* The phases of cmtime, with its names. Only DISCONNECT differs: it includes the peer's reply. */
enum phase {
	PHASE_FULL_CONNECT, /* from before CREATE_ID to after ESTABLISH */
	PHASE_CREATE_ID,
	PHASE_BIND_ADDR,
	PHASE_RESOLVE_ADDR,
	PHASE_RESOLVE_ROUTE,
	PHASE_CREATE_QP,
	PHASE_INIT_QP_ATTR,
	PHASE_INIT_QP,
	PHASE_RTR_QP_ATTR,
	PHASE_RTR_QP,
	PHASE_RTS_QP_ATTR,
	PHASE_RTS_QP,
	PHASE_CM_CONNECT, /* from the request to after ESTABLISH, with the QP's transitions to RTS */
	PHASE_ESTABLISH,
	PHASE_DISCONNECT, /* until the event DISCONNECTED */
	PHASE_DESTROY_ID,
	PHASE_DESTROY_QP,
	PHASE_TEARDOWN, /* PHASE_DISCONNECT, PHASE_DESTROY_ID and PHASE_DESTROY_QP together */
	N_PHASES,
};

extern const char *const phase_names[N_PHASES];

struct sample {
	uint64_t ns[N_PHASES];
};

/* The leader's orders to a worker, each with a number N. The worker answers once, unless stated here. */
enum order {
	ORDER_READY, /* answer when the worker is set up */
	ORDER_MARK, /* server: answer when no connection is left, and report the CPU time used */
	/* Client: answer, wait for the barrier, repeat the operation N times, and answer again. */
	ORDER_CONNECT,
	ORDER_RPC,
	ORDER_DATA, /* N pings, and then the writes that struct config specifies */
	ORDER_END, /* end without an answer */
};

struct command {
	enum order order;
	unsigned n;
};

enum {
	CONTROL_FD = 3, /* SEQPACKET socket to the leader */
	BARRIER_FD, /* eventfd as a semaphore, which is raised by one for each client */
	SHARED_FD,
};

struct config {
	struct sockaddr_storage server, client; /* each way's server listens on port + way */
	uint32_t write_size, n_writes, ping_size;
	uint32_t qps; /* enum qps of the next connections */
};

/* The report of one worker. */
struct report {
	uint64_t cpu_ns; /* server: until ORDER_MARK; client: for the last order */
	uint64_t ended_ns; /* CLOCK_MONOTONIC, the end of the last order */
	uint64_t write_ns; /* time for all writes */
	uint32_t n_accepted;
	char device[64];
	char error[256]; /* why the worker failed */
};

/* All ways write to the same array of samples: each way overwrites the samples of the way before. */
struct shared {
	struct config config;
	struct report server[N_WAYS];
	struct report clients[N_WAYS][MAX_CLIENTS];
	uint32_t max_samples; /* for each client */
	struct sample samples[];
};

static inline size_t shared_size(unsigned n_clients, unsigned n_samples)
{
	return sizeof(struct shared) + (size_t)n_clients * n_samples * sizeof(struct sample);
}

uint64_t now_ns(void);

struct worker {
	enum way way;
	bool is_server;
	unsigned number; /* the client's number */
	const struct backend *backend;
	struct shared *shared;
	struct report *report;
	struct sample *samples; /* ORDER_RPC and ORDER_DATA use only the first phase */
	struct sockaddr_storage server;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* shared by all QPs that transfer no data */
};

extern struct worker worker;

/* Reports the error to the leader, and exits. R: a negative errno; 0: there is none. */
void fail(int r, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
void answer(void);
void await_barrier(void);
uint64_t cpu_ns(void);

int worker_main(int argc, char **argv);
void client_order(const struct command *command);
void server_loop(void) __attribute__((noreturn));

/* The backends' functions return 0 or a negative errno, unless stated otherwise. */

struct event {
	enum rdma_cm_event_type type;
	int status;
	void *id;
	uint8_t data[64];
	uint8_t data_len;
};

struct backend {
	/* Creates an id, binds it to ADDR, and keeps the id's device open. */
	int (*open)(const struct sockaddr *addr, void **ret, struct ibv_context **ret_verbs);
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
	int (*connect)(void *id, const struct rdma_conn_param *param);
	int (*establish)(void *id);
	int (*accept)(void *id, const struct rdma_conn_param *param);
	int (*disconnect)(void *id);
	int (*destroy_id)(void *id);
	/* The cheapest request and its reply; NULL: the interface has none. */
	int (*rpc)(void *id);
	/* For QPS_MANAGED and QPS_UNBOUND. */
	int (*create_qp)(void *id, struct ibv_qp_init_attr *attr);
	void (*destroy_qp)(void *id);
};

extern const struct backend direct_backend, library_backend;

/*
 * Moves a QP to STATE. TIMES: set to the time for the attributes and the time for the transition; NULL: not measured.
 */
void move_qp(void *id, struct ibv_qp *qp, enum ibv_qp_state state, uint64_t times[2]);
struct ibv_qp *make_qp(struct ibv_cq *cq, unsigned n_wr);
/* The library creates a QP for the id, and changes the QP's states. */
void give_qp(void *id);
/* Fills RET with the parameters of a connect or accept. QP: NULL if the library made the QP. */
void describe_connection(struct rdma_conn_param *ret, const struct ibv_qp *qp);

/* The private data of a connect request, if the connection is to transfer data. */
struct data_request {
	char magic[8];
	uint32_t n_pings, ping_size, write_size;
};

/* The private data of the accept. */
struct data_answer {
	uint64_t addr;
	uint32_t rkey;
};

struct data_end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	size_t size;
	struct data_request request;
	cpu_set_t old_cpus;
	bool pinned;
};

/* Returns NULL if the connection transfers no data. */
const struct data_request *find_data_request(const void *data, size_t size);
struct data_end *data_open(const struct data_request *request);
void data_close(struct data_end *end);
/* If there are at least two CPUs, binds this process to one CPU until data_close(), because both ends poll. */
void data_begin(struct data_end *end);
void data_post_receive(struct data_end *end);
void data_echo(struct data_end *end);
void data_ping(struct data_end *end, struct sample *samples);
/* Returns the time for all N writes, in ns. */
uint64_t data_write(struct data_end *end, const struct data_answer *target, unsigned n);

struct options {
	struct sockaddr_storage server, client;
	const char *user; /* of the workers that use the broker; NULL: the caller */
	const char *output; /* NULL: standard output */
	const char *rdmabrokerctl;
	int daemon_pid; /* 0: none */
	bool ways[N_WAYS], qps[N_QPS];
	unsigned levels[MAX_LEVELS], n_levels; /* numbers of clients at a time */
	unsigned n_rounds, n_connects, deadline_s;
	unsigned n_data_rounds, n_pings, n_writes, n_rpcs; /* numbers for one client alone */
};

struct process {
	int pid;
	int control;
};

struct team {
	struct process server;
	struct process clients[MAX_CLIENTS];
};

extern struct shared *shared;
extern int barrier_fd;

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* workers.c: all workers end with the leader, and the leader ends if one of them fails */
void share_memory(const struct options *options, unsigned n_clients, unsigned n_samples);
void start_team(struct team *team, const struct options *options, enum way way, unsigned n_clients);
void end_team(struct team *team, enum way way, unsigned n_clients);
void ask_server(struct team *team, enum way way, enum order order);
/* Makes each client execute ORDER N times, and waits for them. Returns the time at which the barrier was opened. */
uint64_t ask_clients(struct team *team, enum way way, unsigned n_clients, enum order order,
		     unsigned n);

/* result.c: writes one JSON document */
struct result {
	unsigned round, place; /* the round, and the position of the way in it */
	enum way way;
	enum qps qps;
	unsigned n_clients, n_connects; /* each client makes N_CONNECTS */
	uint64_t elapsed_ns;
	uint64_t daemon_ns, server_ns, clients_ns, host_ns; /* CPU time */
};

int result_open(const struct options *options);
void result_connects(const struct result *result);
void result_rpc(const struct result *result);
void result_data(const struct result *result, uint64_t write_ns);
int result_close(void);
void result_abandon(void);

int run(const struct options *options);

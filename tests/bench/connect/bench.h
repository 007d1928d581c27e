/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabroker-bench: main.c takes the options, run.c leads the rounds, workers.c starts the workers and talks
 * to them, spares.c sets what spare ids the broker keeps, result.c writes down what was measured. A worker is
 * a process that runs one end of one way: worker.c listens to the leader, client.c and server.c are the two
 * ends, data.c is what they do over an established connection, direct.c and library.c are the two interfaces
 * that they do it through, and relay.c is direct.c with the messages of a broker.
 *
 * Leader and workers share a memory file, struct shared, in which the samples are.
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
/* How long anything that has to come is waited for. */
#define DEADLINE_MS 120000
#define RESOLVE_MS 10000

enum way {
	WAY_DIRECT, /* librdmacm and the kernel's rdma_cm device */
	WAY_LIBRARY, /* librdmabroker */
	WAY_DROPIN, /* the program of WAY_DIRECT with the drop-in loaded before it */
	WAY_ONE_GO, /* librdmabroker, the client with rdmabroker_connect_to_wait() */
	WAY_NO_SPARES, /* the same while the broker keeps no spare ids */
	WAY_RELAY, /* WAY_DIRECT, and the messages of WAY_ONE_GO to a process that does nothing else */
	N_WAYS,
};

extern const char *const way_names[N_WAYS];

static inline bool way_is_library(enum way way)
{
	return way == WAY_LIBRARY || way == WAY_ONE_GO || way == WAY_NO_SPARES;
}

static inline bool way_has_broker(enum way way)
{
	return way != WAY_DIRECT && way != WAY_RELAY;
}

static inline bool way_is_one_go(enum way way)
{
	return way == WAY_ONE_GO || way == WAY_NO_SPARES;
}

/* Who makes the QPs and moves them. */
enum qps {
	QPS_PROGRAM, /* as cmtime does, so that all phases are seen */
	QPS_MANAGED, /* as most programs have it: rdma_create_qp(), and the rest is the library's */
	N_QPS,
};

extern const char *const qps_names[N_QPS];

/* The names are cmtime's, and mean what they mean there but for DISCONNECT, which has the peer's answer in it. */
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
	PHASE_CM_CONNECT, /* from the request to after ESTABLISH, the QP's way to RTS with it */
	PHASE_ESTABLISH,
	PHASE_DISCONNECT, /* until DISCONNECTED came */
	PHASE_DESTROY_ID,
	PHASE_DESTROY_QP,
	PHASE_TEARDOWN, /* the last three */
	N_PHASES,
};

extern const char *const phase_names[N_PHASES];

struct sample {
	uint64_t ns[N_PHASES];
};

/* What a worker is asked for, in a packet with a number N. It answers each once. */
enum order {
	ORDER_READY, /* is it set up? */
	ORDER_MARK, /* server: once no connection is left, note the CPU time used */
	/* Client: say that it is ready, wait for the barrier, do it N times, say that it is done. */
	ORDER_CONNECT,
	ORDER_RPC,
	ORDER_DATA, /* N pings, then struct config's writes */
	ORDER_END,
};

struct command {
	enum order order;
	unsigned n;
};

enum {
	CONTROL_FD = 3, /* SEQPACKET, to the leader */
	BARRIER_FD, /* eventfd, a semaphore: one for each client */
	SHARED_FD,
};

struct config {
	struct sockaddr_storage server, client; /* the port is the server's, for each way one up */
	uint32_t write_size, n_writes, ping_size;
	uint32_t qps; /* enum qps, of the turn that begins */
};

/* Of one worker. */
struct report {
	uint64_t cpu_ns; /* server: up to MARK; client: of the last order */
	uint64_t ended_ns; /* CLOCK_MONOTONIC, of the last order */
	uint64_t write_ns; /* of all writes */
	uint32_t n_accepted;
	char device[64];
	char error[256]; /* why it failed */
};

/* The samples of a way are the next way's to overwrite. */
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

/* Of the worker */

struct worker {
	enum way way;
	bool is_server;
	unsigned number; /* of the client */
	const struct backend *backend;
	struct shared *shared;
	struct report *report;
	struct sample *samples; /* of ORDER_RPC and ORDER_DATA only the first phase */
	struct sockaddr_storage server;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* of all QPs that carry nothing */
};

extern struct worker worker;

/* Tell the leader why, and end. R: a negative errno; 0: there is none. */
void fail(int r, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
void answer(void);
void await_barrier(void);
uint64_t cpu_ns(void);

int worker_main(int argc, char **argv);
void client_order(const struct command *command);
void server_loop(void) __attribute__((noreturn));

/* What the two interfaces have in common. Calls return 0 or a negative errno. */

struct event {
	enum rdma_cm_event_type type;
	int status;
	void *id;
	uint8_t data[64];
	uint8_t data_len;
};

struct backend {
	/* An id bound to ADDR, which keeps its device open. */
	int (*open)(const struct sockaddr *addr, void **ret, struct ibv_context **ret_verbs);
	int (*listen)(void *id);
	int (*get_fd)(void);
	/* WAIT: until one comes; else -EAGAIN where none has. */
	int (*get_event)(struct event *ret, bool wait);
	/* Why the last call failed, in words; NULL: the errno says it all. */
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
	/* The cheapest request, and its answer; NULL: there is none. */
	int (*rpc)(void *id);
	/* All from a new id to an established connection, its QP with it; NULL: there is none. */
	int (*connect_to)(void *id, const struct sockaddr *src, const struct sockaddr *dst,
			  struct ibv_qp_init_attr *attr, const struct rdma_conn_param *param);
	/* For QPS_MANAGED. */
	int (*create_qp)(void *id, struct ibv_qp_init_attr *attr);
	void (*destroy_qp)(void *id);
};

extern const struct backend direct_backend, library_backend;
const struct backend *relay_backend(void);

/* A QP moved to STATE as the connection manager says; TIMES, if not NULL, gets what the two steps took. */
void move_qp(void *id, struct ibv_qp *qp, enum ibv_qp_state state, uint64_t times[2]);
struct ibv_qp_init_attr describe_qp(struct ibv_cq *cq, unsigned n_wr);
struct ibv_qp *make_qp(struct ibv_cq *cq, unsigned n_wr);
/* The same by the library, for an id. */
void give_qp(void *id);
/* QP: NULL where the library knows it. */
void describe_connection(struct rdma_conn_param *ret, const struct ibv_qp *qp);

/* data.c */

/* Goes in the private data of a connect request whose connection is to carry something. */
struct data_request {
	char magic[8];
	uint32_t n_pings, ping_size, write_size;
};

/* And in that of the answer. */
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

/* NULL: the connection carries nothing. */
const struct data_request *find_data_request(const void *data, size_t size);
struct data_end *data_open(const struct data_request *request);
void data_close(struct data_end *end);
/* From here on this process polls, so each end gets a CPU of its own; until data_close(). */
void data_begin(struct data_end *end);
void data_post_receive(struct data_end *end);
void data_echo(struct data_end *end);
void data_ping(struct data_end *end, struct sample *samples);
/* Returns the time for all. */
uint64_t data_write(struct data_end *end, const struct data_answer *target, unsigned n);

/* Of the leader */

struct options {
	struct sockaddr_storage server, client;
	const char *user; /* of the broker's ways; NULL: the caller */
	const char *output; /* NULL: standard output */
	const char *rdmabrokerctl;
	const char *spares_command; /* with `off' and `on'; NULL: without WAY_NO_SPARES */
	int daemon_pid; /* 0: none */
	bool ways[N_WAYS], qps[N_QPS];
	unsigned levels[MAX_LEVELS], n_levels; /* clients at a time */
	unsigned n_rounds, n_connects, deadline_s;
	unsigned n_data_rounds, n_pings, n_writes, n_rpcs; /* of one client alone */
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

/* workers.c: all of them end with the leader. A worker's failure is the leader's. */
void share_memory(const struct options *options, unsigned n_clients, unsigned n_samples);
void start_team(struct team *team, const struct options *options, enum way way, unsigned n_clients);
void end_team(struct team *team, enum way way, unsigned n_clients);
void ask_server(struct team *team, enum way way, enum order order);
/* Returns when the barrier fell. */
uint64_t ask_clients(struct team *team, enum way way, unsigned n_clients, enum order order,
		     unsigned n);

/* spares.c: the broker's spare ids, see SpareIds= in rdmabrokerd.conf(5) */
struct spare_uses {
	uint64_t taken, missed;
};

/* Since the broker's start. */
struct spare_uses spares_count(const struct options *options);
void spares_switch(const struct options *options, bool on);
/* For who gives up: on, where spares_switch() had them off. */
void spares_restore(void);

/* result.c: one JSON document */
struct result {
	unsigned round, place; /* of the way in its round */
	enum way way;
	enum qps qps;
	unsigned n_clients, n_connects; /* N_CONNECTS of each */
	uint64_t elapsed_ns;
	uint64_t daemon_ns, server_ns, clients_ns, host_ns; /* CPU time */
	struct spare_uses spares; /* of the ways that connect in one go */
};

int result_open(const struct options *options);
void result_connects(const struct result *result);
void result_rpc(const struct result *result);
void result_data(const struct result *result, uint64_t write_ns);
int result_close(void);
void result_abandon(void);

int run(const struct options *options);

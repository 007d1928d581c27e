/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The complete daemon with the fake fabric, without the cost of RDMA. Clients connect to it over a real socket. */

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdnoreturn.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "broker.h"
#include "client/rdmabroker.h"
#include "tests/patience.h"

#define DEADLINE_MS PATIENCE_MS /* of all waits except the wait for a daemon's end */
#define SERVICE_PORT 7471

noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* If R is negative, prints the library's error text, and exits. */
void must(int r, const char *what);

/* place.c: a directory with the socket, the configuration and the rules */
struct place {
	char dir[32];
	char socket[64], config[64], policy[64], rules[80];
};

void place_make(struct place *place);
void place_remove(struct place *place);
struct broker *place_start_broker(const struct place *place);
/* The loop of the broker that this process started last. */
sd_event *place_get_loop(void);

/* fakemem.c: memory of the fake fabric, which does not count as the daemon's */
struct fake_memory {
	int64_t bytes;
	unsigned long allocations; /* number since the start */
};

struct fake_memory fake_get_memory(void);

/* daemon.c: a daemon in a process of its own */
struct daemon {
	struct place place;
	pid_t pid;
	int control;
};

struct daemon_memory {
	int64_t heap; /* bytes in use, including the fake fabric's */
	int64_t fake;
};

struct daemon_work {
	uint64_t cpu_ns;
	unsigned long long wakeups; /* voluntary context switches */
	unsigned long long rss_kb;
};

void daemon_start(struct daemon *daemon);
void daemon_stop(struct daemon *daemon);
/* Sends a request to the daemon, which costs one turn of its loop. */
struct daemon_memory daemon_get_memory(const struct daemon *daemon);
/* daemon_get_work() and daemon_count_fds() cost the daemon no time: they read only /proc and clocks. */
void daemon_get_work(const struct daemon *daemon, struct daemon_work *ret);
unsigned daemon_count_fds(const struct daemon *daemon);

/* ends.c: a session that listens, and a session that connects */
struct ends {
	struct rdmabroker *server, *client;
	struct rdmabroker_id *listener;
	bool resolves_at_once; /* address and route in one request; false: separately */
	uint32_t last_qpn; /* each end of each connection gets a new number, because of timewait */
};

struct connection {
	struct rdmabroker_id *active, *passive;
};

/* Returns PORT at the address of the fake device. */
struct sockaddr_in service_addr(uint16_t port);
/* FLAGS: enum rdmabroker_flags */
struct rdmabroker *open_session(const char *socket, unsigned flags);
void ends_open(struct ends *ends, const char *socket);
void ends_close(struct ends *ends);
/* Makes the calls of both ends, and waits for their events. */
void ends_connect(struct ends *ends, struct connection *ret);
void ends_disconnect(struct ends *ends, const struct connection *connection);

/* traffic.c: the CPU time, packets and waits of one process */
struct traffic {
	unsigned packets; /* sent and received by the library */
	/* A call that receives several packets without sending between them counts one wait. */
	unsigned waits;
};

struct share {
	uint64_t cpu_ns;
	struct traffic traffic;
};

void share_begin(struct share *share);
/* Sets SHARE to this process's share since share_begin(). */
void share_end(struct share *share);

/* The next packet that the library receives begins another wait. */
void traffic_begin_call(void);
#define MUST(call) (traffic_begin_call(), must((call), #call))
/* Fails if the next event is not of TYPE. Returns its id. */
struct rdmabroker_id *traffic_await(struct rdmabroker *session, enum rdmabroker_event_type type);
/* Requests the attributes for STATE, as a program that moves its own QP. */
void traffic_get_qp_attr(struct rdmabroker_id *id, enum ibv_qp_state state);

/* server.c: a process that is the passive end of connections */
enum half {
	HALF_CONNECT,
	HALF_END,
	_HALF_MAX,
};

struct server {
	pid_t pid;
	int control;
};

void server_start(struct server *server, const char *socket, unsigned flags, uint16_t port);
void server_stop(struct server *server);
/* The server takes part in HALF of N connections. */
void server_begin(const struct server *server, enum half half, unsigned n);
/* Waits until the server and the daemon have finished. Returns the server's share. */
struct share server_finish(const struct server *server);

/* cpus.c: RET is set to the first two CPUs of ALL; RET[1]: -1 if there is only one */
void cpus_find(const cpu_set_t *all, int ret[2]);
/* PID 0: this process. */
void cpus_pin(pid_t pid, int cpu);

/* wire.c: requests without the library; each socket is a session */
struct message {
	uint8_t buf[256];
	size_t len;
};

int wire_open(const char *socket); /* the session has sent hello */
void wire_pack_get_option(struct message *ret, uint32_t serial, uint32_t id);
void wire_send(int fd, const struct message *request);
void wire_receive(int fd, struct message *ret);
void wire_exchange(int fd, const struct message *request, struct message *ret);
/* Exits unless REPLY answers the request SERIAL with success. */
void wire_check_reply(const struct message *reply, uint32_t serial);
void wire_create_id(int fd, uint32_t id);

/* result.c: figures with a value for each round, targets, and the JSON document */
#define ROUNDS_MAX 1000

struct figure {
	size_t n;
	double rounds[ROUNDS_MAX];
};

struct spread {
	double low, median, high; /* the quartiles */
};

uint64_t now_ns(void);
double median_of(double *values, size_t n); /* sorts VALUES */
struct spread spread_of(const struct figure *figure);
/* Divides FIGURE by BASE, round by round. */
struct spread ratio_of(const struct figure *figure, const struct figure *base);

void result_add(const char *name, const char *unit, double value);
/* MAX: the target. DETAIL can be NULL. */
void result_add_target(const char *name, const char *unit, double value, double max,
		       const char *detail);
void result_print_targets(void);

struct series {
	const char *name;
	double points[8][2];
	size_t n;
};

/* table.c: a table that is printed and written to the JSON document */
#define TABLE_ROWS_MAX 16
#define TABLE_COLUMNS_MAX 16

struct table {
	char title[96];
	const char *note;
	char cells[TABLE_ROWS_MAX][TABLE_COLUMNS_MAX][40]; /* the first row is the head */
	size_t n_rows, n_columns;
	size_t n_cells; /* cells in the incomplete last row */
};

void table_cell(struct table *table, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Completes the row. It must have as many cells as the first row. */
void table_end_row(struct table *table);
void table_print(const struct table *table);
void table_write(const struct table *table, FILE *f);

/* Copies TABLE to the JSON document. */
void result_add_table(const struct table *table);
/* Adds a plot to the JSON document. Does not copy the strings. */
void result_add_plot(const char *title, const char *x, const char *y, const char *note,
		     const struct series *series, size_t n_series);
void result_write(const char *path);

struct host_options {
	unsigned rounds;
	unsigned connections; /* the largest number of connections, and of idle sessions */
	unsigned idle_s;
};

void measure_rpc(const struct host_options *options);
void measure_cost(const struct host_options *options);
void measure_scale(const struct host_options *options);
void measure_crowd(const struct host_options *options);
void measure_memory(const struct host_options *options);
void measure_idle(const struct host_options *options);

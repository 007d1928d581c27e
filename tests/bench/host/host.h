/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The complete daemon with the fake fabric, without the cost of RDMA. Clients connect to it over a real socket. */

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "broker.h"
#include "client/rdmabroker.h"
#include "tests/patience.h"

#define DEADLINE_MS PATIENCE_MS
#define SERVICE_PORT 7471

/* common.c */
noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* If R is negative, prints the library's error text, and exits. */
void must(int r, const char *what);
/* Starts the daemon in this process, for rules and limits under which all is allowed. Its files go at place_remove(). */
struct broker *start_broker(void);
/* The loop of the daemon that this process started last. */
sd_event *get_loop(void);
/* Returns PORT at the address of the fake device. */
struct sockaddr_in service_addr(uint16_t port);
/* FLAGS: enum rdmabroker_flags */
struct rdmabroker *open_session(unsigned flags);
struct rdmabroker *open_session_apart(struct rdmabroker *replies, unsigned flags);
struct rdmabroker_id *listen_on(struct rdmabroker *session, uint16_t port);
struct rdmabroker_id *await(struct rdmabroker *session, enum rdmabroker_event_type type);

/* ends.c: a session that listens, and a session that connects */
struct ends {
	struct rdmabroker *server, *client;
	struct rdmabroker_id *listener;
	bool resolves_at_once; /* address and route in one request; false: separately */
	/*
	 * As the drop-in: replies come by a third session, and events are waited for in the socket. Set it before
	 * ends_open().
	 */
	bool apart;
	struct rdmabroker *replies;
	uint32_t last_qpn; /* each end of each connection gets a new number, because of timewait */
};

struct connection {
	struct rdmabroker_id *active, *passive;
};

/* ENDS begins all zero. After ends_close() it can be opened again, and its QP numbers go on. */
void ends_open(struct ends *ends);
void ends_close(struct ends *ends);
/* Makes the calls of both ends, and waits for their events. */
void ends_connect(struct ends *ends, struct connection *ret);
void ends_disconnect(struct ends *ends, const struct connection *connection);

/* fakemem.c: memory of the fake fabric, which does not count as the daemon's */
struct fake_memory {
	int64_t bytes;
	unsigned long allocations; /* number since the start */
};

struct fake_memory fake_get_memory(void);

/* process.c: a child with a control socket */
struct process {
	pid_t pid;
	int control;
};

/* RUN says that it is ready by a byte, and returns when CONTROL is closed. */
void process_start(struct process *ret, void (*run)(int control));
void process_stop(const struct process *process);
void process_send(int control, const void *message, size_t size);
void process_receive(int control, void *ret, size_t size);
/* The CPU time of the process, in us, read from outside. */
double process_get_cpu(const struct process *process);

/* The daemon in a process of its own. */
void daemon_start(struct process *ret);
void daemon_stop(const struct process *daemon);
/* The bytes of the daemon's heap that are in use, without those of the fake fabric. */
int64_t daemon_get_heap(const struct process *daemon);

/* traffic.c: packets and waits of this process, as the library's functions of libc are replaced */
struct traffic {
	unsigned packets; /* sent and received */
	/* A call that receives several packets without sending between them counts one wait. */
	unsigned waits;
};

struct traffic traffic_get(void);
/* The next packet that the library receives begins another wait. */
void traffic_begin_call(void);

#define ROUNDS_MAX 1000

void measure_cost(unsigned rounds);
void measure_memory(void);

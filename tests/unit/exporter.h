/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Shared by the tests of the real rdmabroker-exporter. The whole daemon runs on the fake fabric, in a process of its
 * own.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include "tests/unit/program.h"

#define MANY_RULES 10000 /* the metrics of this many rules do not fit into socket buffers */

extern struct service {
	char config[96], policy[96];
	char metrics[96]; /* a path to listen on */
	char settings[96]; /* the path of exporter.conf, which is empty at first */
	char log[96]; /* the exporter's stderr */
	char folder[128]; /* directory of the exporter and its library */
	pid_t broker, exporter; /* pids; 0: not started */
	/* sockets that receive sd_notify messages in place of systemd; [0]: the broker's, [1]: the exporter's */
	int notify[2];
} service;

extern struct answer {
	char text[8 << 20]; /* the whole response */
	size_t len;
	unsigned status;
	char *body;
	bool is_whole; /* the body is as long as Content-Length announces */
} answer;

void set_up_service(void);
void tear_down_service(void);
void write_text(const char *name, const char *text);
void write_rules(const char *name, const char *text); /* NAME: a file in the policy's directory */
void write_many_rules(const char *name);
void start_broker(void);
void reload_broker(void);
void stop_broker(void);
/* Starts the exporter with --socket, --config and then ARGUMENTS. */
void start_exporter_with(const char *const *arguments);
void start_exporter(const char *listen);
void stop_exporter(void);
void start(const char *listen); /* starts the broker and the exporter */
void stop(void);
/* Runs the exporter until it ends by itself, and returns its exit status. Its output is in GOT. */
int run_exporter(const char *const *arguments);
#define exporter(...) run_exporter((const char *const[]){ __VA_ARGS__, NULL })
void assert_logged(const char *part);
unsigned n_logged(const char *part); /* how often the exporter's log contains PART */

#define IDLE_SOCKETS 3 /* the one that listens, the session's, and the one to the manager */
/*
 * Makes a request, which opens the exporter's session. Waits until no other connection is left, and returns the
 * number of the exporter's sockets.
 */
unsigned idle_sockets(void);
void await_sockets(unsigned expected);
/* Checks that the broker serves an RDMA client. */
void assert_serves(void);
unsigned elapsed_ms(const struct timespec *since);

#define OPENMETRICS "Accept: application/openmetrics-text; version=1.0.0\r\n"
#define GET_1_0 "GET /metrics HTTP/1.0\r\n" OPENMETRICS "\r\n"
#define GET_1_1 "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" OPENMETRICS "\r\n"

socklen_t make_address(struct sockaddr_storage *ret, const char *address);
/* Returns HOST:PORT with a port on which nobody listens; "" if this host does not have the address family. */
const char *free_address(const char *host);
int dial(const char *address);
int dialled(const char *address); /* like dial(), but fails the test if it cannot connect */
void send_text(int fd, const char *text);
/* Reads the response until the connection ends, and closes FD. */
void read_answer(int fd);
void ask(const char *address, const char *request);
void assert_metrics(void); /* checks that the last response is OpenMetrics */
void assert_prometheus(void); /* checks that the last response has the older Prometheus format */
void assert_served_on(const char *address); /* checks that ADDRESS serves metrics of the broker */
void assert_refused_on(const char *address);
/* Returns the value of a sample without labels in the last response. */
unsigned long value_of(const char *name);
/* Waits longer than the one second for which the exporter gives all requests the same answer. */
void await_stale(void);
/* Repeats a request until rdmabroker_up has the value UP. */
void await_up(unsigned up);

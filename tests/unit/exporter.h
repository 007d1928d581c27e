/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A whole daemon, over the fake fabric and in a process of its own, the real rdmabroker-exporter beside it, and raw
 * HTTP.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include "tests/unit/program.h"

#define MANY_RULES 10000 /* their text is more than socket buffers hold */

extern struct service {
	char config[96], policy[96];
	char metrics[96]; /* a path to listen on */
	char settings[96]; /* exporter.conf, which is not there */
	char log[96]; /* the exporter's stderr */
	char folder[128]; /* of the program and its library */
	pid_t broker, exporter; /* 0: not started */
	int notify[2]; /* what systemd would listen on, for each */
} service;

extern struct answer {
	char text[8 << 20]; /* all that came */
	size_t len;
	unsigned status;
	char *body;
	bool is_whole; /* it is as long as its header says */
} answer;

/* The daemon and the exporter */

void set_up_service(void);
void tear_down_service(void);
void write_text(const char *name, const char *text);
void write_rules(const char *name, const char *text); /* NAME: in the policy's directory */
void write_many_rules(const char *name); /* MANY_RULES of them */
void start_broker(void);
void reload_broker(void);
void stop_broker(void);
/* With these arguments after --socket and --config. */
void start_exporter_with(const char *const *arguments);
void start_exporter(const char *listen);
void stop_exporter(void);
void start(const char *listen); /* both */
void stop(void);
/* Runs the exporter until it ends by itself: its exit status. What it prints is in GOT. */
int run_exporter(const char *const *arguments);
#define exporter(...) run_exporter((const char *const[]){ __VA_ARGS__, NULL })
void assert_logged(const char *part);
unsigned n_logged(const char *part); /* how often */

/* How many sockets the exporter has when it serves on one address, has a session and nobody is there. */
unsigned idle_sockets(void);
void await_sockets(unsigned expected);
/* A client of the daemon's proper trade. */
void assert_serves(void);
unsigned elapsed_ms(const struct timespec *since);

/* HTTP */

#define OPENMETRICS "Accept: application/openmetrics-text; version=1.0.0\r\n"
#define GET_1_0 "GET /metrics HTTP/1.0\r\n" OPENMETRICS "\r\n"
#define GET_1_1 "GET /metrics HTTP/1.1\r\nHost: localhost\r\n" OPENMETRICS "\r\n"

socklen_t make_address(struct sockaddr_storage *ret, const char *address);
/* "127.0.0.1:PORT" where nobody listens; "" where there is no such family. */
const char *free_address(const char *host);
int dial(const char *address);
int dialled(const char *address); /* likewise, where it must succeed */
void send_text(int fd, const char *text);
/* All until the end, which comes within MS for each piece. */
void read_answer(int fd, int ms);
void ask(const char *address, const char *request);
void assert_metrics(void); /* OpenMetrics, from a broker that is there or not */
void assert_prometheus(void); /* the older format */
void assert_served_on(const char *address); /* with the broker's metrics */
void assert_refused_on(const char *address);
/* The value of a sample without labels in the last answer. */
unsigned long value_of(const char *name);
/* Until no answer is shared any more, so that the next request asks the broker. */
void await_stale(void);
/* Asks until rdmabroker_up is this, which takes as long as an answer is shared. */
void await_up(unsigned up);

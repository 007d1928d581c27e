/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A whole daemon, over the fake fabric and in a process of its own, that serves metrics; and raw HTTP. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "tests/unit/program.h"

#define MANY_RULES 10000 /* their text is more than socket buffers hold */

extern struct http_daemon {
	char config[96], policy[96], metrics[96], log[96];
	pid_t pid;
	int notify; /* what systemd would listen on */
	char status[512]; /* the last that it was told */
} daemon_;

extern struct answer {
	char text[8 << 20]; /* all that came */
	size_t len;
	unsigned status;
	char *body; /* as it was before it was cut into chunks */
	bool is_whole; /* it ended as HTTP/1.1 wants it to */
} answer;

/* The daemon */

void set_up_daemon(void);
void tear_down_daemon(void);
void write_text(const char *name, const char *text);
void write_many_rules(void);
void start(const char *listen); /* with this MetricsListen= */
void reload(void);
void reload_with(const char *listen);
void stop(void);
void assert_logged(const char *part);
void await_fds(unsigned expected);
/* How many descriptors the daemon has when nobody is there, in its own words, which are not of a moment. */
unsigned idle_fds(void);
/* A client of the daemon's proper trade. */
void assert_serves(void);

/* HTTP */

#define GET_1_0 "GET /metrics HTTP/1.0\r\n\r\n"
#define GET_1_1 "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"

socklen_t make_address(struct sockaddr_storage *ret, const char *address);
/* "127.0.0.1:PORT" where nobody listens; "" where there is no such family. */
const char *free_address(const char *host);
int dial(const char *address);
int dialled(const char *address); /* likewise, where it must succeed */
void send_text(int fd, const char *text);
/* All until the end, which comes within MS for each piece. */
void read_answer(int fd, int ms);
void ask(const char *address, const char *request);
void assert_metrics(void);
void assert_served_on(const char *address);
void assert_refused_on(const char *address);

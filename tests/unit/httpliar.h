/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An HTTP server that answers as it is told, right or wrong. It runs in a thread of its own, and serves one connection
 * after the other, each for one request.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* The first lie that fits a request is told. */
struct lie {
	const char *path; /* that of the request begins with it */
	const char *part; /* the body of the request contains it; NULL: any */
	unsigned
		status; /* 0: there is no answer, and the connection stays open until the client closes it */
	const char *body;
	bool stays; /* the connection stays open after the body, as that of a watch */
	int pause_ms; /* the blanks with which the body begins are sent one at a time, after such pauses */
};

struct httpliar {
	char endpoint[64]; /* http://127.0.0.1:PORT */
	const struct lie *lies;
	size_t n_lies;
	int fd;
	int stop; /* an eventfd */
	pthread_t thread;
	unsigned n_requests; /* atomic */
};

void httpliar_start(struct httpliar *liar, const struct lie *lies, size_t n);
void httpliar_stop(struct httpliar *liar);

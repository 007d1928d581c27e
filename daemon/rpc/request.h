/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Requests: one table of what may be asked, by whom, and what answers it. What is not in the table is
 * refused. Here, and nowhere else, an int becomes a reply.
 */

#include "core/session.h"
#include "proto/rdmabroker.pb-c.h"

struct server;

enum request_outcome {
	REQUEST_GO_ON,
	REQUEST_CLOSE, /* send the reply, then end the connection */
};

/*
 * Carry REQUEST out for SESSION, which GREETED says whether it said Hello (and is updated). FD came with
 * it, or is -1; it stays the caller's. SEND gets the reply, and a descriptor that goes with it or -1; both
 * are valid only during that call.
 */
enum request_outcome request_dispatch(struct server *server, struct session *session, bool *greeted,
				      const Rdmabroker__Request *request, int fd,
				      void (*send)(void *userdata, const Rdmabroker__Frame *frame,
						   int fd),
				      void *userdata);
/* Whether REQUEST's operation takes a descriptor. */
bool request_takes_fd(const Rdmabroker__Request *request);

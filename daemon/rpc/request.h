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
 * Carry REQUEST out for SESSION, which GREETED says whether it said Hello (and is updated). SEND gets
 * the reply; it is valid only during that call.
 */
enum request_outcome request_dispatch(struct server *server, struct session *session, bool *greeted,
				      const Rdmabroker__Request *request,
				      void (*send)(void *userdata, const Rdmabroker__Frame *frame),
				      void *userdata);

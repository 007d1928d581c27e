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
	REQUEST_WAIT, /* something has to be found out first: no reply was sent, come again when told to */
};

/*
 * Carry REQUEST out for SESSION, which GREETED says whether it said Hello (and is updated). FD came with
 * it, or is -1; it stays the caller's. AGAIN: it was tried before, and ended in REQUEST_WAIT. SEND gets the reply, and a descriptor that goes with it or -1; both
 * are valid only during that call. It returns 0; or why the descriptor cannot go, a status with the session's
 * failure set or a negative errno: then it is called again, with the refusal.
 */
enum request_outcome request_dispatch(struct server *server, struct session *session, bool *greeted,
				      const Rdmabroker__Request *request, bool again, int fd,
				      int (*send)(void *userdata, const Rdmabroker__Frame *frame,
						  int fd),
				      void *userdata);
/* Whether REQUEST's operation takes a descriptor, of SESSION and now. */
bool request_takes_fd(const struct session *session, const Rdmabroker__Request *request);
/* The reply to the request SERIAL that failed with R, a negative errno. Returns its length, at most SIZE. */
size_t request_pack_refusal(uint64_t serial, int r, uint8_t *buf, size_t size);

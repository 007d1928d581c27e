/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Requests: one table with all operations, who may request them, and their handlers. What is not in the table
 * is refused. Only here is a handler's result turned into a reply.
 */

#include "core/session.h"
#include "proto/arena.h"
#include "proto/rdmabroker.pb-c.h"

struct control;

/*
 * The memory in which a packet is decoded: a fixed space on the stack. A packet that needs more cannot be decoded. So
 * a client cannot make the daemon allocate memory, and a request costs no malloc().
 */
#define REQUEST_SPACE 65536
union request_memory {
	struct arena_block block;
	uint8_t bytes[sizeof(struct arena_block) + REQUEST_SPACE];
};

/* What is kept of the requests of a session, from one to the next. */
struct request_progress {
	bool greeted; /* Hello was answered with success */
	bool makes_id; /* the request has to create its id first, and could not yet */
	uint64_t reload_ticket; /* of its reload request, see control_reload() */
};

enum request_outcome {
	REQUEST_GO_ON,
	REQUEST_CLOSE, /* send the reply, then end the connection */
	REQUEST_WAIT, /* no reply yet: dispatch it again after session_ops.resume */
};

/*
 * Processes REQUEST for SESSION. PROGRESS is updated. FD came with the request, or is -1; it stays the caller's. AGAIN: it was dispatched before, and ended in REQUEST_WAIT.
 * SEND gets the reply, and a descriptor that goes with it or -1; both are valid only during that call. It
 * returns 0, or why the descriptor cannot be sent: a status that FAILURE explains, or a negative errno. Then it is called again, with the refusal.
 */
enum request_outcome request_dispatch(struct control *control, struct session *session,
				      struct request_progress *progress,
				      const Rdmabroker__Request *request, bool again, int fd,
				      int (*send)(void *userdata, const Rdmabroker__Frame *frame,
						  int fd, struct failure *failure),
				      void *userdata);
/* Whether REQUEST may carry a descriptor, in the present state of SESSION. */
bool request_takes_fd(const struct session *session, const Rdmabroker__Request *request);
/* The reply to the request SERIAL that failed with R, a negative errno. Returns its length, at most SIZE. */
size_t request_pack_refusal(uint64_t serial, int r, uint8_t *buf, size_t size);

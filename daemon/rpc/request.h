/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Requests: one table has all operations, the permits that they require, and their handlers. A request that
 * is not in the table is refused. Only request.c turns a handler's result into a reply.
 */

#include "core/object/session.h"
#include "proto/arena.h"
#include "proto/rdmabroker.pb-c.h"

struct control;

/*
 * A packet is decoded into a fixed space on the stack. If a packet needs more, it cannot be decoded. So decoding
 * costs no malloc(), and no packet can make it use much memory.
 */
#define REQUEST_SPACE 65536
union request_memory {
	struct arena_block block;
	uint8_t bytes[sizeof(struct arena_block) + REQUEST_SPACE];
};

/* State of a session that is kept between its requests, and while a request waits. */
struct request_progress {
	bool greeted; /* Hello has succeeded */
	bool repeats; /* the request is the one that a previous process had received, see repeat.h */
	bool ends; /* the session ends after the reply, because it was adopted */
	bool makes_id; /* the request could not create its id (Request.first) yet */
	uint64_t reload_ticket; /* ticket of the session's reload request, see control_reload() */
};

enum request_outcome {
	REQUEST_GO_ON,
	REQUEST_CLOSE, /* send the reply, then end the connection */
	REQUEST_WAIT, /* no reply yet: dispatch the request again after session_ops.resume */
};

/*
 * Processes REQUEST for SESSION, and updates PROGRESS. AGAIN: the request was dispatched before, and ended in
 * REQUEST_WAIT. FD is the descriptor that came with the request, or -1; it stays the caller's.
 *
 * SEND is called with the reply and with the descriptor that goes with it, or -1; both are valid only during
 * the call. SEND returns 0, or the reason why the descriptor cannot be sent: a status that FAILURE explains,
 * or a negative errno. For such a reason SEND is called again, with a refusal as the reply. SEND is not called if the
 * request waits. It is also not called if a quiet request has succeeded and its reply has neither a descriptor nor a
 * demand for a proof.
 */
enum request_outcome request_dispatch(struct control *control, struct session *session,
				      struct request_progress *progress,
				      const Rdmabroker__Request *request, bool again, int fd,
				      int (*send)(void *userdata, const Rdmabroker__Frame *frame,
						  int fd, struct failure *failure),
				      void *userdata);
/* What REQUEST costs, in units of turns.h. */
unsigned request_work(const Rdmabroker__Request *request);
/* True if REQUEST is allowed to carry a descriptor, in the present state of SESSION. */
bool request_takes_fd(const struct session *session, const Rdmabroker__Request *request);
/*
 * Writes to BUF the reply to the request SERIAL, which failed with R, a negative errno. Returns the length of
 * the reply; 0: it is longer than SIZE.
 */
size_t request_pack_refusal(uint64_t serial, int r, uint8_t *buf, size_t size);
/* The same for a request that has succeeded, and whose reply has no contents. */
size_t request_pack_success(uint64_t serial, uint8_t *buf, size_t size);

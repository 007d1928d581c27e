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

enum request_stage {
	REQUEST_GREETING, /* Hello has not succeeded yet, or the session was released */
	REQUEST_SERVING,
	REQUEST_CLOSING, /* the session was adopted, and ends after the reply */
};

/* State of a session that is kept between its requests, and while a request waits. */
struct request_progress {
	enum request_stage stage;
	uint64_t reload_ticket; /* ticket of the session's reload request, see control_reload() */
};

/*
 * A request that had to wait is carried out again from its beginning, so that all that was checked before the wait is
 * checked again.
 */
enum request_attempt {
	REQUEST_FIRST,
	REQUEST_AGAIN, /* it was dispatched before, and ended in REQUEST_WAIT */
	/* the same, of a request that was set aside (kept.h): a refusal is an event, CONNECT_ERROR */
	REQUEST_ASIDE,
	REQUEST_REPEATED, /* a previous process of the daemon had received it, see repeat.h */
};

enum request_outcome {
	REQUEST_GO_ON,
	REQUEST_CLOSE, /* send the reply, then end the connection */
	REQUEST_WAIT, /* no reply yet: dispatch the request again after session_ops.resume */
};

/*
 * Processes REQUEST for SESSION, and updates PROGRESS. FD is the descriptor that came with the request, or -1; it stays
 * the caller's.
 *
 * SEND is called with the reply and with the descriptor that goes with it, or -1; both are valid only during
 * the call. SEND returns 0, or the reason why the descriptor cannot be sent: a status that FAILURE explains,
 * or a negative errno. For such a reason SEND is called again, with a refusal as the reply. SEND is not called if the
 * request waits. It is also not called if a quiet request has succeeded and its reply has neither a descriptor nor a
 * demand for a proof.
 */
enum request_outcome request_dispatch(struct control *control, struct session *session,
				      struct request_progress *progress,
				      const Rdmabroker__Request *request,
				      enum request_attempt attempt, int fd,
				      int (*send)(void *userdata, const Rdmabroker__Frame *frame,
						  int fd, struct failure *failure),
				      void *userdata);
/* The handle of the id that REQUEST is about, see OPERATIONS; 0: it is about none. */
uint32_t request_get_handle(const Rdmabroker__Request *request);
/* What REQUEST costs, in units of turns.h. */
unsigned request_work(const Rdmabroker__Request *request);
/* True if REQUEST is allowed to carry a descriptor, in the present state of SESSION. */
bool request_takes_fd(const struct session *session, const Rdmabroker__Request *request);
/*
 * Writes to BUF the reply to the request SERIAL, which has no contents if R is 0; otherwise R is a negative errno. N_SENT:
 * see Reply.n_sent; 0 if the request was not apart. Returns the length of the reply; 0: it is longer than SIZE.
 */
size_t request_pack_reply(uint64_t serial, uint32_t n_sent, int r, uint8_t *buf, size_t size);

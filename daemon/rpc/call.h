/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A request while it is processed. The handlers of requests are in the files do_*.c. */

#include <stddef.h>
#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"
#include "rpc/convert.h"
#include "rpc/operations.h"
#include "rpc/request.h"

#define TEXT_MAX 512
#define MAX_DEVICES 64 /* devices in a reply; rdmabroker.proto promises this number */
#define REPLY_SPACE 53248 /* enough for a page of sessions and ids, the largest result */

struct control;

/*
 * The space of CALL for a result: as TYPE, a struct or union of the handler's file with all that one reply can point
 * to. It is not cleared.
 */
#define SPACE(call, type)                                               \
	({                                                              \
		_Static_assert(sizeof(type) <= REPLY_SPACE, "it fits"); \
		(type *)(call)->space.bytes;                            \
	})

struct call {
	struct control *control;
	struct session *session;
	struct request_progress *progress;
	const Rdmabroker__Request *request;
	struct id *id; /* that the request is about, see OPERATIONS; otherwise not set */
	enum request_attempt attempt;
	int fd; /* descriptor that came with the request; -1: none */
	Rdmabroker__Reply *reply;
	struct failure failure; /* why the request is refused, if its handler returns a status */
	/* descriptor that goes with the reply; -1: none; closed once the reply is sent */
	int reply_fd;
	/* for the result that the reply points to, see SPACE() */
	union {
		max_align_t align;
		uint8_t bytes[REPLY_SPACE];
	} space;
};

/* Makes MESSAGE the result. Is 0. */
#define REPLY(call, name, NAME, message)                                       \
	({                                                                     \
		(call)->reply->result_case = RDMABROKER__REPLY__RESULT_##NAME; \
		(call)->reply->name = (message);                               \
		0;                                                             \
	})

static inline int bad_request(struct call *call, const char *what)
{
	return failure_set(&call->failure, STATUS_BAD_REQUEST, "%s", what);
}

/* The handlers, in do_*.c: each checks the fields of its request, and calls a verb. */
#define DECLARE(op, name, ...) int do_##name(struct call *call);
OPERATIONS(DECLARE, DECLARE)
#undef DECLARE

/* Creates an id and sets its options. M is the create_id request, or the field FIRST of another request. */
int do_client_create_id(struct call *call, const Rdmabroker__CreateId *m);

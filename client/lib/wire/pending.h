/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The calls that are pending: sent, or about to be, and not answered. All with the lock held. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"

struct rdmabroker_id;
struct wire;

/* Who gets the outcome of a call. */
enum call_answer {
	ANSWER_TO_THREAD, /* a thread waits for the reply, and owns the struct */
	ANSWER_FAILURE_TO_THREAD, /* likewise; success is another event, for which the thread waits */
	ANSWER_AS_EVENT, /* an event of the id, DONE on success; the receiver frees the struct */
	ANSWER_FAILURE_AS_EVENT, /* likewise; no DONE on success, because that is another event */
	ANSWER_DROPPED, /* nobody: no event, neither on success nor on failure */
};

enum call_state {
	CALL_IDLE, /* not sent yet, or ended without a failure */
	CALL_PENDING, /* in wire.calls: no answer came yet */
	CALL_REPLIED, /* FRAME is the reply, and the thread has not seen it */
	CALL_REFUSED, /* ANSWER_FAILURE_TO_THREAD: ended with a failure */
};

/* What the outcome does to the session's ids. */
enum call_effect {
	EFFECT_NONE,
	EFFECT_CREATES, /* the request also creates HANDLE's id, unless it fails */
	EFFECT_DESTROYS, /* any answer frees HANDLE's number */
	EFFECT_IMPORTS, /* the reply sets IMPORTED, or IMPORT_ERROR */
};

struct call {
	TAILQ_ENTRY(call) link; /* wire.calls */
	const char *name;
	uint32_t handle; /* of the id that it is about; 0: none */
	uint32_t serial;
	uint64_t order; /* of sending; 0: not sent yet */
	enum call_state state;
	enum call_answer answer;
	enum rdmabroker_event_type failure_type; /* of the event that reports a failure */
	enum call_effect effect;
	/*
	 * The broker replies only on failure. Success is known from the answer to a call that was sent later,
	 * or from an event.
	 */
	bool only_failure;
	bool must_reply; /* though nobody gets the outcome, the broker has to reply on success too */
	Rdmabroker__Frame *frame; /* CALL_REPLIED */
	const int *send_fd; /* sent with the request; NULL: none */
	int *ret_fd; /* gets the descriptor that comes with the reply; NULL: none is expected */
	struct rdmabroker_id *imported;
	int import_error; /* negative errno */
};

static inline bool pending_is_waited(const struct call *call)
{
	return call->answer == ANSWER_TO_THREAD || call->answer == ANSWER_FAILURE_TO_THREAD;
}

void pending_add(struct wire *wire, struct call *call);
void pending_remove(struct wire *wire, struct call *call);
/* The call that a reply with SERIAL answers; NULL: none. */
struct call *pending_find(struct wire *wire, uint32_t serial);
/* The broker replied to CALL. FRAME is handed over. */
int pending_answer(struct wire *wire, struct call *call, Rdmabroker__Frame *frame);
/* The broker uses HANDLE for a new id: so an unanswered destroy_id of the old one has succeeded. */
void pending_settle_handle(struct wire *wire, uint32_t handle);
/* The outcomes of calls about HANDLE become no events. */
void pending_silence_handle(struct wire *wire, uint32_t handle);
/* When the session is closed. */
void pending_free_all(struct wire *wire);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Pending calls: those that are sent, or about to be sent, and not answered. All functions need the lock. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"

struct rdmabroker_id;
struct wire;

/* The bit of a type of events. */
#define BIT(type) (1ULL << RDMABROKER_EVENT_##type)

/* How the outcome of a call is delivered. */
enum call_answer {
	ANSWER_TO_THREAD, /* a thread waits for the reply, and owns the struct */
	/* a thread waits for an event that means success, or for a reply that is a failure, and owns the struct */
	ANSWER_FAILURE_TO_THREAD,
	/* the reply becomes an event of the id, DONE on success; the struct is freed when the reply comes */
	ANSWER_AS_EVENT,
	/*
	 * a failure becomes an event of the id; another event reports success; the struct is freed when the call ends
	 */
	ANSWER_FAILURE_AS_EVENT,
	/* no event, neither on success nor on failure; the struct is freed when the call ends */
	ANSWER_DROPPED,
};

enum call_state {
	CALL_IDLE, /* not sent yet, or ended, but not CALL_REFUSED */
	CALL_PENDING, /* in wire.calls: no answer came yet */
	CALL_REPLIED, /* FRAME is the reply, which the thread has not taken yet */
	CALL_REFUSED, /* ANSWER_FAILURE_TO_THREAD: ended with a failure */
};

/* What the outcome does to the session's ids. */
enum call_effect {
	EFFECT_NONE,
	EFFECT_CREATES, /* the request also creates HANDLE's id, unless it fails */
	EFFECT_DESTROYS, /* any outcome frees the number HANDLE */
	EFFECT_IMPORTS, /* the reply sets IMPORTED, or IMPORT_ERROR */
};

struct call {
	TAILQ_ENTRY(call) link; /* wire.calls */
	pthread_cond_t *cond; /* of the thread that waits for the reply; NULL: none, or it reads */
	struct wire *of; /* by which the request is sent; its reply can come by another one */
	const char *name;
	uint32_t handle; /* the number of the id that the call is about; 0: none */
	uint32_t serial;
	uint64_t order; /* calls are numbered as they are sent, from 1; 0: not sent yet */
	enum call_state state;
	enum call_answer answer;
	enum rdmabroker_event_type failure_type; /* type of the event that reports a failure */
	enum call_effect effect;
	uint64_t
		outcomes; /* bits of the types of events that imply that the call has succeeded; 0: none */
	/*
	 * The broker replies only on failure. Success is known from the answer to a call that was sent later,
	 * or from an event.
	 */
	bool only_failure;
	bool must_reply; /* the broker has to reply on success too, even if the reply is dropped */
	Rdmabroker__Reply__ResultCase result; /* that a reply to a thread has to have; 0: any */
	Rdmabroker__Frame *frame; /* CALL_REPLIED: the reply */
	const int *send_fd; /* the descriptor to send with the request; NULL: none */
	int *ret_fd; /* gets the descriptor that comes with the reply; NULL: none is expected */
	bool holds; /* EFFECT_IMPORTS: the new id is held, see rdmabroker_id */
	struct rdmabroker_id *imported; /* EFFECT_IMPORTS: the new id; NULL: IMPORT_ERROR is set */
	int import_error; /* EFFECT_IMPORTS: negative errno */
};

static inline bool pending_is_waited(const struct call *call)
{
	return call->answer == ANSWER_TO_THREAD || call->answer == ANSWER_FAILURE_TO_THREAD;
}

/* WIRE: the one by which the reply to CALL comes. */
void pending_add(struct wire *wire, struct call *call);
void pending_remove(struct wire *wire, struct call *call);
/* A packet was received by WIRE, which is direct: completes the calls that it settles, see wire.settles. */
void pending_settle_received(struct wire *wire);
/* The call that a reply with SERIAL answers; NULL: none. */
struct call *pending_find(struct wire *wire, uint32_t serial);
/*
 * Completes CALL with the broker's reply FRAME, and takes ownership of FRAME. Also completes the earlier calls that the
 * broker answers only on failure: they have succeeded.
 */
int pending_answer(struct wire *wire, struct call *call, Rdmabroker__Frame *frame);
/* The broker uses HANDLE for a new id, which implies that a pending destroy_id of the old id has succeeded. */
void pending_settle_handle(struct wire *wire, uint32_t handle);
/* An event of TYPE came for HANDLE, which can imply that pending calls have succeeded. */
void pending_settle_outcome(struct wire *wire, uint32_t handle, uint32_t type);
/* Drop the outcomes of all calls about HANDLE that no thread waits for. */
void pending_silence_handle(struct wire *wire, uint32_t handle);
/* Free all calls, when the session is closed. */
void pending_free_all(struct wire *wire);

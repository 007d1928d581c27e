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

struct call {
	TAILQ_ENTRY(call) link; /* wire.calls */
	uint32_t serial;
	const char *name;
	uint32_t handle; /* of the id that it is about; 0: none */
	bool waited; /* a thread waits, and owns this struct; else the receiver frees it */
	bool quiet; /* not waited: no DONE on success, because the outcome is another event */
	bool silent; /* not waited: no event, neither on success nor on failure */
	bool destroys; /* the answer frees HANDLE's number */
	/*
	 * The broker replies only on failure. Success is known from the answer to a call that was sent later,
	 * or from an event.
	 */
	bool unanswered;
	bool answered; /* not waited: the broker has to reply on success too */
	bool refused; /* waited, and failed */
	bool creates; /* the request also creates HANDLE's id, unless it fails */
	bool listed; /* in wire.calls: no answer came yet */
	uint64_t order; /* of sending; 0: not sent yet */
	enum rdmabroker_event_type failure_type; /* not waited: the event that reports a failure */
	bool done;
	Rdmabroker__Frame *frame; /* the reply, once done */
	const int *send_fd; /* sent with the request; NULL: none */
	int *ret_fd; /* gets the descriptor that comes with the reply; NULL: none is expected */
	bool imports; /* an id: its reply sets IMPORTED, or NO_IMPORT to the error */
	struct rdmabroker_id *imported;
	int no_import; /* negative errno */
};

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

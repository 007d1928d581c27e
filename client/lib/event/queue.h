/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The queue of events that the program has not taken yet. All functions except queue_free_event() need the session's
 * lock, unless the session is being opened or closed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"

/* An event as received. It is applied to its id and QP only when the program takes it. */
struct raw_event {
	TAILQ_ENTRY(raw_event) link; /* queue.events */
	Rdmabroker__Frame *frame; /* NULL: made by the library, from the fields below */
	struct rdmabroker_id *id; /* NULL: REQUEST is an orphan, see n_orphans */
	enum rdmabroker_event_type type;
	struct rdmabroker_id *request; /* CONNECT_REQUEST: the new id, created on receipt */
	/* The members below are set only in an event that the library made as the outcome of a call. */
	const char *call; /* the call's name */
	int status; /* negative errno; 0: success */
	char *text; /* of the failure; NULL: none */
};

TAILQ_HEAD(raw_events, raw_event);

struct queue {
	struct raw_events events;
	size_t n_bytes; /* size of the frames in EVENTS */
	/* The connection requests in EVENTS whose listener was destroyed here, or migrated. */
	unsigned n_orphans;
	bool lost_taken; /* the program has taken LOST, which is never in EVENTS */
};

void queue_init(struct queue *queue);
void queue_done(struct queue *queue);
bool queue_has_room(const struct queue *queue, const struct raw_event *raw);
void queue_add(struct queue *queue, struct raw_event *raw);
/* Make RAW, which was removed, the next event again. */
void queue_put_back(struct queue *queue, struct raw_event *raw);
void queue_remove(struct queue *queue, struct raw_event *raw);
void queue_free_event(struct raw_event *raw);
/*
 * The first event of ID whose type is in TYPES (bits); with ID NULL the first event of any id. It stays in the queue.
 */
struct raw_event *queue_find(struct queue *queue, const struct rdmabroker_id *id, uint64_t types);
/* Remove the first orphan. NULL: there is none. */
struct raw_event *queue_take_orphan(struct queue *queue);
/*
 * Drop the events of ID up to the first CONNECT_REQUEST, and return the id of that request, which the caller has to
 * destroy. NULL: all events of ID were dropped. The caller repeats the call until then.
 */
struct rdmabroker_id *queue_forget(struct queue *queue, const struct rdmabroker_id *id);
/* Move the events of ID to RET, in their order. Connection requests stay, as orphans. */
void queue_collect(struct queue *queue, const struct rdmabroker_id *id, struct raw_events *ret);

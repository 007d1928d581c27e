/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The events that the program has not taken yet. The functions need the session's lock, except those that free,
 * and except while the session is opened or closed.
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
	uint64_t arg; /* of an event that the program has written */
	/* Only in an event that the library made as the outcome of a call, or the program has written: */
	const char *call;
	int status; /* negative errno; 0: success; written: any number */
	unsigned retry_after_ms; /* with -EBUSY: the time after which to retry; else 0 */
	char *text; /* of the failure; NULL: none */
};

TAILQ_HEAD(raw_events, raw_event);

struct queue {
	struct raw_events events;
	size_t n_bytes; /* size of the frames in EVENTS */
	unsigned n_events; /* in EVENTS, without the orphans */
	unsigned n_reserved; /* threads that are about to take one, see blocking.h */
	/*
	 * While ids are imported (N_IMPORTING calls): events of ids that are not known yet, because their numbers come by
	 * another socket, or that the program's own struct has not taken the place of yet. They are received again then.
	 */
	struct raw_events held;
	unsigned n_importing;
	/* The connection requests in EVENTS whose listener was destroyed here, or migrated. */
	unsigned n_orphans;
	bool lost_taken; /* the program has taken LOST, which is never in EVENTS */
};

void queue_init(struct queue *queue);
void queue_done(struct queue *queue);
bool queue_has_room(const struct queue *queue, const struct raw_event *raw);
void queue_add(struct queue *queue, struct raw_event *raw);
/* Add RAW, an event of an id that can be one that is being imported, to HELD. */
void queue_hold(struct queue *queue, struct raw_event *raw);
/* Remove the frame of the first held event of the id with the number HANDLE; 0: of any id. NULL: there is none. */
Rdmabroker__Frame *queue_release(struct queue *queue, uint32_t handle);
/* The events that no thread is about to take. */
static inline unsigned queue_count_free(const struct queue *queue)
{
	return queue->n_events > queue->n_reserved ? queue->n_events - queue->n_reserved : 0;
}
/* Insert RAW, which was removed, at the head. */
void queue_put_back(struct queue *queue, struct raw_event *raw);
void queue_remove(struct queue *queue, struct raw_event *raw);
void queue_free_event(struct raw_event *raw);
void queue_free_events(struct raw_events *events); /* all of the list */
/* The first event of ID whose type is in TYPES (bits); ID NULL: the first event of any id. The event stays queued. */
struct raw_event *queue_find(struct queue *queue, const struct rdmabroker_id *id, uint64_t types);
/* Remove the first orphan. NULL: there is none. */
struct raw_event *queue_take_orphan(struct queue *queue);
typedef bool queue_selects(const struct raw_event *raw, const void *userdata);
/*
 * Move the events of ID that SELECTS (NULL: all) to RET, in their order. Connection requests stay queued, as orphans.
 */
void queue_collect(struct queue *queue, const struct rdmabroker_id *id, queue_selects *selects,
		   const void *userdata, struct raw_events *ret);

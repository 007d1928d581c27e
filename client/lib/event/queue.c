/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "client/lib/event/queue.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/frame.h"

/* In bytes. The limit is needed because a hostile broker could send events without end. */
#define EVENTS_BYTES_MAX (256 << 20)

void queue_init(struct queue *queue)
{
	TAILQ_INIT(&queue->events);
	TAILQ_INIT(&queue->held);
}

void queue_done(struct queue *queue)
{
	queue_free_events(&queue->held);
	queue_free_events(
		&queue->events); /* their requests were freed with all ids of the session */
}

void queue_free_event(struct raw_event *raw)
{
	frame_free(raw->frame);
	free(raw->text);
	free(raw);
}

void queue_free_events(struct raw_events *events)
{
	struct raw_event *raw;

	while ((raw = TAILQ_FIRST(events))) {
		TAILQ_REMOVE(events, raw, link);
		queue_free_event(raw);
	}
}

static size_t raw_size(const struct raw_event *raw)
{
	return raw->frame ? frame_get_size(raw->frame) : 0;
}

bool queue_has_room(const struct queue *queue, const struct raw_event *raw)
{
	return queue->n_bytes + raw_size(raw) <= EVENTS_BYTES_MAX;
}

static void count(struct queue *queue, const struct raw_event *raw, int n)
{
	if (raw->id) {
		raw->id->n_queued += (unsigned)n;
		queue->n_events += (unsigned)n;
	} else {
		queue->n_orphans += (unsigned)n;
	}
}

void queue_add(struct queue *queue, struct raw_event *raw)
{
	count(queue, raw, 1);
	queue->n_bytes += raw_size(raw);
	TAILQ_INSERT_TAIL(&queue->events, raw, link);
}

void queue_hold(struct queue *queue, struct raw_event *raw)
{
	queue->n_bytes += raw_size(raw);
	TAILQ_INSERT_TAIL(&queue->held, raw, link);
}

Rdmabroker__Frame *queue_release(struct queue *queue, uint32_t handle)
{
	Rdmabroker__Frame *frame;
	struct raw_event *raw;

	TAILQ_FOREACH(raw, &queue->held, link)
		if (handle == 0 || raw->frame->event->id == handle)
			break;
	if (!raw)
		return NULL;
	queue->n_bytes -= raw_size(raw);
	TAILQ_REMOVE(&queue->held, raw, link);
	frame = raw->frame;
	free(raw);
	return frame;
}

void queue_put_back(struct queue *queue, struct raw_event *raw)
{
	count(queue, raw, 1);
	queue->n_bytes += raw_size(raw);
	TAILQ_INSERT_HEAD(&queue->events, raw, link);
}

void queue_remove(struct queue *queue, struct raw_event *raw)
{
	count(queue, raw, -1);
	queue->n_bytes -= raw_size(raw);
	TAILQ_REMOVE(&queue->events, raw, link);
}

struct raw_event *queue_find(struct queue *queue, const struct rdmabroker_id *id, uint64_t types)
{
	struct raw_event *raw;

	if (id && id->n_queued == 0)
		return NULL;
	TAILQ_FOREACH(raw, &queue->events, link)
		if (raw->id &&
		    (!id || (raw->id == id && raw->type < 64 && (types & (1ULL << raw->type)))))
			return raw;
	return NULL;
}

struct raw_event *queue_take_orphan(struct queue *queue)
{
	struct raw_event *raw;

	if (queue->n_orphans == 0)
		return NULL;
	TAILQ_FOREACH(raw, &queue->events, link)
		if (!raw->id)
			break;
	if (raw)
		queue_remove(queue, raw);
	return raw;
}

void queue_collect(struct queue *queue, const struct rdmabroker_id *id, queue_selects *selects,
		   const void *userdata, struct raw_events *ret)
{
	struct raw_event *raw, *next;

	for (raw = TAILQ_FIRST(&queue->events); raw && id->n_queued > 0; raw = next) {
		next = TAILQ_NEXT(raw, link);
		if (raw->id != id || (selects && !selects(raw, userdata)))
			continue;
		if (raw->request) {
			count(queue, raw, -1);
			raw->id = NULL;
			count(queue, raw, 1);
			continue;
		}
		queue_remove(queue, raw);
		TAILQ_INSERT_TAIL(ret, raw, link);
	}
}

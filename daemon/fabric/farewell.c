/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "fabric/internal.h"

/*
 * Ids whose user is gone, and whose peer has yet to hear of it. When an id is destroyed the kernel tells the
 * peer once, and does not look whether it was heard:
 *
 *   ESTABLISHED  A DREQ that is lost on the way is not repeated, and the peer believes in its connection
 *                for ever. It is repeated for rdma_disconnect(), while the id is there.
 *   ASKED        The peer's kernel handles what arrives on several CPUs. A REJ right behind its REQ may come
 *                first: then it is about nothing that is known, and the peer that accepts afterwards waits
 *                for more than a minute. So the id waits a moment for an answer, and rejects that.
 *
 * In all other states the peer knows of us, and what is lost the peer repeats. How long is waited is limited, and
 * so is for how many: for what is over the limits the kernel's one word has to do.
 */

#define FAREWELLS_MAX 1024
#define RESPONSE_USEC (300 * 1000ULL)
#define ANSWER_USEC (10 * 1000000ULL) /* the kernel repeats a DREQ after some 4 s */

static void part(struct fabric_id *id)
{
	struct fabric_channel *channel = id->channel;

	list_remove(&id->leaving);
	channel->fabric->n_farewells--;
	id->farewell = sd_event_source_disable_unref(id->farewell);
	fabric_id_free(id);
	if (--channel->n_leaving == 0 && channel->is_left)
		fabric_channel_free(channel);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	part(userdata);
	return 0;
}

static uint64_t patience_usec(const struct fabric_id *id)
{
	switch (id->stage) {
	case STAGE_ASKED:
		return RESPONSE_USEC;
	case STAGE_ESTABLISHED:
		return ANSWER_USEC;
	default:
		return 0;
	}
}

void fabric_id_abandon(struct fabric_id *id)
{
	struct fabric *fabric;

	if (!id)
		return;
	fabric = id->channel->fabric;
	if (patience_usec(id) == 0 || fabric->n_farewells >= FAREWELLS_MAX ||
	    sd_event_add_time_relative(fabric->loop, &id->farewell, CLOCK_MONOTONIC,
				       patience_usec(id), 1000, on_late, id) < 0) {
		fabric_id_free(id);
		return;
	}
	list_insert(&fabric->farewells, &id->leaving);
	fabric->n_farewells++;
	id->channel->n_leaving++;
	if (id->stage == STAGE_ESTABLISHED)
		fabric_id_disconnect(id);
}

/* The id's stage is what the event made of it. */
void fabric_farewell_on_event(struct fabric_id *id, enum rdma_cm_event_type type)
{
	if (type == RDMA_CM_EVENT_CONNECT_RESPONSE)
		fabric_id_reject(id, NULL, 0, /* ece= */ false);
	if (patience_usec(id) == 0)
		part(id);
}

void fabric_end_farewells(struct fabric *fabric)
{
	struct list *l;

	while ((l = list_first(&fabric->farewells)))
		part(container_of(l, struct fabric_id, leaving));
}

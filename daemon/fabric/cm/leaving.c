/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "fabric/cm/id.h"
#include "proto/timer.h"

/*
 * Ids whose client is gone, and whose peer has yet to be notified. When the kernel destroys an id, it sends
 * one message (DREQ or REJ) to the peer and does not repeat it. So the id is kept, depending on its stage:
 *
 *   ESTABLISHED      If the DREQ were lost, the peer would keep its connection for ever. So the id is
 *                    disconnected and kept for ANSWER_USEC, and the kernel repeats the DREQ.
 *   ASKED, ACCEPTED  The peer's kernel can handle a REJ before the REQ or REP that it follows closely, and then drops
 *                    the REJ. A peer that gets the REQ afterwards accepts and waits for more than a minute. A peer
 *                    that gets the REP keeps its connection for ever. So the id is kept until its next event, for
 *                    RESPONSE_USEC at most. If that event is ESTABLISHED, the id is disconnected and
 *                    kept as above. Otherwise the id is destroyed.
 *
 * In any other stage the id is destroyed at once. A REJ that is lost is not repeated in any case.
 */

#define IDS_MAX 16384
#define IDS_PER_USER 4096
#define RESPONSE_USEC (300 * 1000ULL)
/* the kernel repeats a DREQ after 4 to 6 s */
#define ANSWER_USEC (15 * 1000000ULL)

void fabric_init_leaving(struct fabric *fabric)
{
	list_init(&fabric->leaving);
	account_init(&fabric->kept);
	fabric->kept.limit[ACCOUNT_IDS] = IDS_MAX;
	fabric->kept.limit_per_user[ACCOUNT_IDS] = IDS_PER_USER;
}

static void give_back(struct fabric_id *id)
{
	id->leaving_timer = sd_event_source_disable_unref(id->leaving_timer);
	charge_done(&id->kept);
}

static void part(struct fabric_id *id)
{
	list_remove(&id->leaving);
	give_back(id);
	fabric_id_free(id);
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	part(userdata);
	return 0;
}

static uint64_t patience_usec(const struct fabric_id *id)
{
	switch (id->stage) {
	case STAGE_ASKED:
	case STAGE_ACCEPTED:
		return RESPONSE_USEC;
	case STAGE_ESTABLISHED:
		return ANSWER_USEC;
	default:
		return 0;
	}
}

static int keep(struct fabric_id *id)
{
	struct fabric *fabric = id->fabric;
	int r = account_charge(&fabric->kept, &id->kept, ACCOUNT_IDS, 1, id->owner);

	if (r == 0)
		r = timer_new(&id->leaving_timer, fabric->loop, 1000, on_late, id);
	if (r == 0)
		r = timer_start(id->leaving_timer, patience_usec(id));
	if (r >= 0 && id->stage == STAGE_ESTABLISHED)
		r = fabric_id_disconnect(id);
	if (r < 0) {
		give_back(id);
		return r;
	}
	id->on_event = NULL;
	list_insert(&fabric->leaving, &id->leaving);
	return 0;
}

void fabric_id_abandon(struct fabric_id *id)
{
	if (id && (patience_usec(id) == 0 || keep(id) < 0))
		fabric_id_free(id);
}

static int disconnect_now(struct fabric_id *id)
{
	int r = fabric_id_disconnect(id);

	return r < 0 ? r : timer_start(id->leaving_timer, ANSWER_USEC);
}

void fabric_leaving_on_event(struct fabric_id *id, enum rdma_cm_event_type type)
{
	int r = patience_usec(id) > 0 ? 0 : -ENOENT;

	if (type == RDMA_CM_EVENT_ESTABLISHED)
		r = disconnect_now(id);
	if (r < 0)
		part(id);
}

void fabric_end_leaving(struct fabric *fabric)
{
	struct list *l;

	while ((l = list_first(&fabric->leaving)))
		part(container_of(l, struct fabric_id, leaving));
	account_done(&fabric->kept);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/object/held.h"
#include "core/object/id.h"
#include "core/object/timewait.h"
#include "proto/addr.h"
#include "proto/text.h"
#include "proto/timer.h"
#include "util/util.h"

/* The timer that frees entries expires only at multiples of this, once for many entries. */
#define BATCH_USEC 50000

/* Connects and accepts that wait. */
struct waiters {
	struct list held; /* held.link */
	uint64_t until_usec;
	sd_event_source *timer; /* ends the wait at UNTIL_USEC; NULL: nothing has waited yet */
};

struct entry {
	struct list link; /* timewaits.buckets */
	struct timewaits *timewaits;
	char device[64];
	uint32_t qpn;
	uint8_t peer[ADDR_HOST_LEN];
	uid_t uid;
	/* NULL: the id was destroyed, so the kernel will not report the end, and timewaits.timer frees the entry */
	struct id *id;
	struct waiters own; /* of UID; the entry ends with it */
	struct waiters others; /* of other users */
	struct list due; /* timewaits.queues; empty: timewaits.timer has passed the entry */
};

static uint64_t now_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void entry_free(struct entry *entry)
{
	assert(list_is_empty(&entry->own.held) && list_is_empty(&entry->others.held));
	if (entry->id) {
		entry->id->handshake.timewait = NULL;
		entry->id->handshake.timewait_over = true;
	} else {
		entry->timewaits->n_orphans--;
	}
	list_remove(&entry->link);
	list_remove(&entry->due);
	sd_event_source_disable_unref(entry->own.timer);
	sd_event_source_disable_unref(entry->others.timer);
	entry->timewaits->n--;
	free(entry);
}

void timewaits_done(struct timewaits *timewaits)
{
	struct list *l;

	for (int i = 0; i < TIMEWAIT_BUCKETS; i++)
		while ((l = list_first(&timewaits->buckets[i])))
			entry_free(container_of(l, struct entry, link));
	timewaits->timer = sd_event_source_disable_unref(timewaits->timer);
}

static void move_held(struct list *to, struct waiters *from)
{
	struct list *l;

	while ((l = list_first(&from->held))) {
		list_remove(l);
		list_insert(to, l);
	}
}

static void resume_all(struct timewaits *timewaits, struct list *waiting)
{
	struct list *l;

	while ((l = list_first(waiting))) {
		list_remove(l);
		timewaits->resume(container_of(l, struct held, link)->id);
	}
}

/*
 * Ends an entry: frees it, and resumes what it held back. The entry is freed first, because timewaits.resume looks
 * for time waits of the QP number again.
 */
static void release(struct entry *entry)
{
	struct timewaits *timewaits = entry->timewaits;
	struct list waiting;

	list_init(&waiting);
	move_held(&waiting, &entry->own);
	move_held(&waiting, &entry->others);
	entry_free(entry);
	resume_all(timewaits, &waiting);
}

static struct entry *next_due(const struct list *queue)
{
	struct list *l = list_first(queue);

	return l ? container_of(l, struct entry, due) : NULL;
}

/* Makes the timer expire with the first batch after UNTIL_USEC, unless it is set to an earlier time. */
static void arm(struct timewaits *timewaits, uint64_t until_usec)
{
	uint64_t usec = (until_usec + BATCH_USEC - 1) / BATCH_USEC * BATCH_USEC;

	if (usec >= timewaits->armed_usec)
		return;
	timewaits->armed_usec = usec;
	timer_start_at(timewaits->timer, usec);
}

static void rearm(struct timewaits *timewaits)
{
	uint64_t usec = UINT64_MAX;

	for (int i = 0; i < TIMEWAIT_QUEUES; i++) {
		const struct entry *entry = next_due(&timewaits->queues[i]);

		if (entry && entry->own.until_usec < usec)
			usec = entry->own.until_usec;
	}
	timewaits->armed_usec = UINT64_MAX;
	if (timewaits->n_orphans > 0)
		arm(timewaits, usec);
}

/* Entries that have an id are not freed here, because the kernel will report their end. */
static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct timewaits *timewaits = userdata;
	uint64_t now = now_usec();
	struct entry *entry;

	for (int i = 0; i < TIMEWAIT_QUEUES; i++)
		while ((entry = next_due(&timewaits->queues[i])) && entry->own.until_usec <= now) {
			list_remove(&entry->due);
			if (!entry->id)
				release(entry);
		}
	rearm(timewaits);
	return 0;
}

static int on_end(sd_event_source *source, uint64_t usec, void *userdata)
{
	release(userdata);
	return 0;
}

/* The time wait goes on, but not for other users. */
static int on_end_for_others(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct entry *entry = userdata;
	struct list waiting;

	list_init(&waiting);
	move_held(&waiting, &entry->others);
	resume_all(entry->timewaits, &waiting);
	return 0;
}

int timewaits_init(struct timewaits *timewaits, sd_event *loop, void (*resume)(struct id *id))
{
	int r;

	timewaits->resume = resume;
	timewaits->armed_usec = UINT64_MAX;
	for (int i = 0; i < TIMEWAIT_BUCKETS; i++)
		list_init(&timewaits->buckets[i]);
	for (int i = 0; i < TIMEWAIT_QUEUES; i++)
		list_init(&timewaits->queues[i]);
	r = timer_new(&timewaits->timer, loop, 1, on_timer, timewaits);
	return r < 0 ? r : 0;
}

/*
 * The duration of the time waits in QUEUE. The kernel counts a QP timeout of n (4.096 us * 2^n) as 2^(n - 8) ms, so
 * QUEUE is n - 8.
 */
static uint64_t rest_usec(int queue)
{
	uint64_t usec = 1000ULL << queue;

	return usec < TIMEWAIT_MAX_USEC ? usec : TIMEWAIT_MAX_USEC;
}

static int queue_of(const struct id *id)
{
	int n = id->handshake.qp_timeout > 8 ? id->handshake.qp_timeout - 8 : 0;

	return n < TIMEWAIT_QUEUES ? n : TIMEWAIT_QUEUES - 1;
}

/* If memory runs out, there is no entry: at worst a peer rejects the next connection as stale. */
void timewait_enter(struct id *id)
{
	struct timewaits *timewaits = id->session->core->timewaits;
	struct fabric_id_info info;
	uint64_t now, rest;
	struct entry *entry;
	int queue;

	if (id->handshake.timewait || id->handshake.timewait_over || id->handshake.qpn == 0 ||
	    id_is_datagram(id))
		return;
	fabric_id_get_info(id->fabric, &info);
	if (!info.device)
		return;
	entry = malloc(sizeof(*entry));
	if (!entry)
		return;
	queue = queue_of(id);
	rest = rest_usec(queue);
	now = now_usec();
	*entry = (struct entry){
		.timewaits = timewaits,
		.qpn = id->handshake.qpn,
		.uid = id->session->identity.uid,
		.id = id,
		.own.until_usec = now + rest,
		.others.until_usec =
			now + (rest < TIMEWAIT_OTHERS_USEC ? rest : TIMEWAIT_OTHERS_USEC),
	};
	text_copy(entry->device, sizeof(entry->device), info.device);
	addr_host((const struct sockaddr *)&info.peer, entry->peer);
	list_insert(&timewaits->queues[queue], &entry->due);
	list_init(&entry->own.held);
	list_init(&entry->others.held);
	list_insert(&timewaits->buckets[entry->qpn % TIMEWAIT_BUCKETS], &entry->link);
	timewaits->n++;
	id->handshake.timewait = entry;
}

void timewait_exit(struct id *id)
{
	/* Needed if the id has no entry because memory ran out. */
	id->handshake.timewait_over = true;
	if (id->handshake.timewait)
		release(id->handshake.timewait);
}

void timewait_forget(struct id *id)
{
	struct entry *entry = id->handshake.timewait;

	held_free(id->handshake.held);
	if (!entry)
		return;
	entry->id = NULL;
	entry->timewaits->n_orphans++;
	id->handshake.timewait = NULL;
	if (entry->own.until_usec <= now_usec())
		release(entry);
	else
		arm(entry->timewaits, entry->own.until_usec);
}

void timewait_move(struct id *from, struct id *to)
{
	to->handshake.timewait = TAKE_PTR(from->handshake.timewait);
	if (to->handshake.timewait)
		to->handshake.timewait->id = to;
	to->handshake.timewait_over = from->handshake.timewait_over;
	to->handshake.held = TAKE_PTR(from->handshake.held);
	if (to->handshake.held)
		to->handshake.held->id = to;
}

static bool is_of(const struct entry *entry, const char *device, uint32_t qpn,
		  const uint8_t peer[ADDR_HOST_LEN])
{
	return entry->qpn == qpn && memcmp(entry->peer, peer, ADDR_HOST_LEN) == 0 &&
	       strcmp(entry->device, device) == 0;
}

/*
 * Finds what ID has to wait in. Releases entries of the bucket that are over but not freed yet, after which the bucket
 * can have other entries.
 */
static struct waiters *find(struct id *id, uint32_t qpn, struct entry **ret)
{
	struct timewaits *timewaits = id->session->core->timewaits;
	struct list *l, *bucket = &timewaits->buckets[qpn % TIMEWAIT_BUCKETS];
	uid_t uid = id->session->identity.uid;
	uint8_t peer[ADDR_HOST_LEN];
	struct fabric_id_info info;
	uint64_t now = now_usec();

	/* Datagrams have no connection that could end. */
	if (list_is_empty(bucket) || id_is_datagram(id))
		return NULL;
	fabric_id_get_info(id->fabric, &info);
	if (!info.device)
		return NULL;
	addr_host((const struct sockaddr *)&info.peer, peer);
again:
	list_for_each(l, bucket) {
		struct entry *entry = container_of(l, struct entry, link);
		struct waiters *waiters = entry->uid == uid ? &entry->own : &entry->others;

		if (!is_of(entry, info.device, qpn, peer))
			continue;
		if (entry->own.until_usec <= now) {
			release(entry);
			goto again;
		}
		if (waiters->until_usec <= now)
			continue;
		*ret = entry;
		return waiters;
	}
	return NULL;
}

/* Makes sure that WAITERS has its timer. Returns 0 or a negative errno. */
static int start_timer(struct entry *entry, struct waiters *waiters)
{
	int r;

	if (waiters->timer)
		return 0;
	r = timer_new(&waiters->timer, sd_event_source_get_event(entry->timewaits->timer), 1,
		      waiters == &entry->own ? on_end : on_end_for_others, entry);
	return r < 0 ? r : timer_start_at(waiters->timer, waiters->until_usec);
}

int timewait_hold(struct id *id, const struct rdma_conn_param *param, bool accept)
{
	struct entry *entry;
	struct waiters *waiters = find(id, param->qp_num, &entry);
	int r;

	if (!waiters)
		return 0;
	r = start_timer(entry, waiters);
	if (r >= 0)
		r = held_new(id, param, accept);
	if (r < 0)
		return r;
	list_insert(&waiters->held, &id->handshake.held->link);
	return 1;
}

int timewait_hold_again(struct id *id)
{
	struct held *held = id->handshake.held;
	struct entry *entry;
	struct waiters *waiters = find(id, held->param.qp_num, &entry);
	int r;

	if (!waiters)
		return 0;
	r = start_timer(entry, waiters);
	if (r < 0)
		return r;
	held->is_answered = false;
	list_insert(&waiters->held, &held->link);
	return 1;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/id.h"
#include "core/timewait.h"
#include "util/util.h"

/* The timer that frees entries expires only at multiples of this, once for many entries. */
#define BATCH_USEC 50000

struct entry {
	struct list link; /* timewaits.buckets */
	struct timewaits *timewaits;
	char device[64];
	uint32_t qpn;
	/* NULL: the id was destroyed, so the kernel will not report the end, and timewaits.timer frees the entry */
	struct id *id;
	uint64_t until_usec;
	struct list held; /* held.link */
	/* ends the entry at UNTIL_USEC; NULL: no connect or accept has been held back yet */
	sd_event_source *timer;
	struct list due; /* timewaits.queues; empty: timewaits.timer has passed the entry */
};

struct held {
	struct list link; /* entry.held */
	struct id *id;
	bool accept;
	/* the connection request, about which policy can have to decide again; NULL: a connect */
	struct fabric_event *request;
	struct rdma_conn_param param;
	uint8_t private_data[256];
};

static uint64_t now_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void entry_free(struct entry *entry)
{
	assert(list_is_empty(&entry->held));
	if (entry->id) {
		entry->id->timewait = NULL;
		entry->id->timewait_over = true;
	} else {
		entry->timewaits->n_orphans--;
	}
	list_remove(&entry->link);
	list_remove(&entry->due);
	sd_event_source_disable_unref(entry->timer);
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

static struct entry *find(struct timewaits *timewaits, const char *device, uint32_t qpn)
{
	struct list *l;

	list_for_each(l, &timewaits->buckets[qpn % TIMEWAIT_BUCKETS]) {
		struct entry *entry = container_of(l, struct entry, link);

		if (entry->qpn == qpn && strcmp(entry->device, device) == 0)
			return entry;
	}
	return NULL;
}

static void drop_held(struct held *held)
{
	list_remove(&held->link);
	held->id->held = NULL;
	free(held->request);
	free(held);
}

/*
 * Ends an entry: frees it, and resumes what it held back. The entry is freed first, because timewaits.resume looks
 * for time waits of the QP number again.
 */
static void release(struct entry *entry)
{
	struct timewaits *timewaits = entry->timewaits;
	struct list waiting, *l;

	list_init(&waiting);
	while ((l = list_first(&entry->held))) {
		list_remove(l);
		list_insert(&waiting, l);
	}
	entry_free(entry);
	while ((l = list_first(&waiting))) {
		struct held *held = container_of(l, struct held, link);
		struct id *id = held->id;
		struct rdma_conn_param param = held->param;
		uint8_t data[sizeof(held->private_data)];
		bool accept = held->accept;

		memcpy(data, held->private_data, sizeof(data));
		if (param.private_data)
			param.private_data = data;
		id->request = TAKE_PTR(held->request);
		drop_held(held);
		timewaits->resume(id, &param, accept);
	}
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
	sd_event_source_set_time(timewaits->timer, usec);
	sd_event_source_set_enabled(timewaits->timer, SD_EVENT_ONESHOT);
}

static void rearm(struct timewaits *timewaits)
{
	uint64_t usec = UINT64_MAX;

	for (int i = 0; i < TIMEWAIT_QUEUES; i++) {
		const struct entry *entry = next_due(&timewaits->queues[i]);

		if (entry && entry->until_usec < usec)
			usec = entry->until_usec;
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

	(void)source;
	(void)usec;
	for (int i = 0; i < TIMEWAIT_QUEUES; i++)
		while ((entry = next_due(&timewaits->queues[i])) && entry->until_usec <= now) {
			list_remove(&entry->due);
			if (!entry->id)
				release(entry);
		}
	rearm(timewaits);
	return 0;
}

static int on_end(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	release(userdata);
	return 0;
}

int timewaits_init(struct timewaits *timewaits, sd_event *loop,
		   void (*resume)(struct id *id, const struct rdma_conn_param *param, bool accept))
{
	int r;

	timewaits->resume = resume;
	timewaits->armed_usec = UINT64_MAX;
	for (int i = 0; i < TIMEWAIT_BUCKETS; i++)
		list_init(&timewaits->buckets[i]);
	for (int i = 0; i < TIMEWAIT_QUEUES; i++)
		list_init(&timewaits->queues[i]);
	r = sd_event_add_time(loop, &timewaits->timer, CLOCK_MONOTONIC, 0, 1, on_timer, timewaits);
	if (r >= 0)
		r = sd_event_source_set_enabled(timewaits->timer, SD_EVENT_OFF);
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
	int n = id->qp_timeout > 8 ? id->qp_timeout - 8 : 0;

	return n < TIMEWAIT_QUEUES ? n : TIMEWAIT_QUEUES - 1;
}

/* If memory runs out, there is no entry: at worst a peer rejects the next connection as stale. */
void timewait_enter(struct id *id)
{
	struct timewaits *timewaits = &id->session->core->timewaits;
	struct fabric_id_info info;
	struct entry *entry;
	int queue;

	if (id->timewait || id->timewait_over || id->qpn == 0 || id_is_datagram(id))
		return;
	fabric_id_get_info(id->fabric, &info);
	if (!info.device)
		return;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return;
	snprintf(entry->device, sizeof(entry->device), "%s", info.device);
	entry->timewaits = timewaits;
	entry->qpn = id->qpn;
	entry->id = id;
	queue = queue_of(id);
	entry->until_usec = now_usec() + rest_usec(queue);
	list_insert(&timewaits->queues[queue], &entry->due);
	list_init(&entry->held);
	list_insert(&timewaits->buckets[entry->qpn % TIMEWAIT_BUCKETS], &entry->link);
	timewaits->n++;
	id->timewait = entry;
}

void timewait_exit(struct id *id)
{
	/* Needed if the id has no entry because memory ran out. */
	id->timewait_over = true;
	if (id->timewait)
		release(id->timewait);
}

void timewait_forget(struct id *id)
{
	struct entry *entry = id->timewait;

	if (id->held)
		drop_held(id->held);
	if (!entry)
		return;
	entry->id = NULL;
	entry->timewaits->n_orphans++;
	id->timewait = NULL;
	if (entry->until_usec <= now_usec())
		release(entry);
	else
		arm(entry->timewaits, entry->until_usec);
}

void timewait_move(struct id *from, struct id *to)
{
	to->timewait = TAKE_PTR(from->timewait);
	if (to->timewait)
		to->timewait->id = to;
	to->timewait_over = from->timewait_over;
	to->held = TAKE_PTR(from->held);
	if (to->held)
		to->held->id = to;
}

/*
 * Finds the time wait of QPN. Releases entries of QPN that are over but not freed yet, because another one can
 * follow.
 */
static struct entry *find_current(struct timewaits *timewaits, const char *device, uint32_t qpn)
{
	uint64_t now = now_usec();
	struct entry *entry;

	while ((entry = find(timewaits, device, qpn)) && entry->until_usec <= now)
		release(entry);
	return entry;
}

int timewait_hold(struct id *id, const struct rdma_conn_param *param, bool accept)
{
	struct timewaits *timewaits = &id->session->core->timewaits;
	struct fabric_id_info info;
	struct entry *entry;
	struct held *held;
	int r;

	fabric_id_get_info(id->fabric, &info);
	entry = info.device ? find_current(timewaits, info.device, param->qp_num) : NULL;
	if (!entry)
		return 0;
	if (!entry->timer) {
		r = sd_event_add_time(sd_event_source_get_event(timewaits->timer), &entry->timer,
				      CLOCK_MONOTONIC, entry->until_usec, 1, on_end, entry);
		if (r < 0)
			return r;
	}
	held = calloc(1, sizeof(*held));
	if (!held)
		return -ENOMEM;
	held->id = id;
	held->accept = accept;
	held->request = TAKE_PTR(id->request);
	held->param = *param;
	if (param->private_data) {
		memcpy(held->private_data, param->private_data, param->private_data_len);
		held->param.private_data = held->private_data;
	}
	list_insert(&entry->held, &held->link);
	id->held = held;
	return 1;
}

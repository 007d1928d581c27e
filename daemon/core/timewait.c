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

struct entry {
	struct list link; /* in one of the lists timewaits.buckets */
	struct timewaits *timewaits;
	char device[64];
	uint32_t qpn;
	struct id *id; /* NULL: the id was destroyed before its time wait was over */
	uint64_t until_usec;
	/* held.link: the connects and accepts that wait for the end of the entry */
	struct list held;
	/* ends the entry; NULL: not started yet, because no connect or accept waits and the id still exists */
	sd_event_source *timer;
};

struct held {
	struct list link; /* entry.held */
	struct id *id;
	bool accept;
	/*
	 * the connection request that is accepted, because policy can have to decide about it again; NULL: a connect
	 */
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

void timewaits_init(struct timewaits *timewaits,
		    void (*resume)(struct id *id, const struct rdma_conn_param *param, bool accept))
{
	timewaits->resume = resume;
	timewaits->n = 0;
	for (int i = 0; i < TIMEWAIT_BUCKETS; i++)
		list_init(&timewaits->buckets[i]);
}

static void entry_free(struct entry *entry)
{
	assert(list_is_empty(&entry->held));
	if (entry->id) {
		entry->id->timewait = NULL;
		entry->id->timewait_over = true;
	}
	list_remove(&entry->link);
	entry->timewaits->n--;
	sd_event_source_disable_unref(entry->timer);
	free(entry);
}

void timewaits_done(struct timewaits *timewaits)
{
	struct list *l;

	for (int i = 0; i < TIMEWAIT_BUCKETS; i++)
		while ((l = list_first(&timewaits->buckets[i])))
			entry_free(container_of(l, struct entry, link));
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
 * Ends an entry: frees it, and calls timewaits.resume for the connects and accepts that it held back. The entry is
 * freed first, because timewaits.resume can hold a connect or accept back again, for another entry.
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

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	release(userdata);
	return 0;
}

static int start_timer(struct entry *entry, sd_event *loop)
{
	if (entry->timer)
		return 0;
	return sd_event_add_time(loop, &entry->timer, CLOCK_MONOTONIC, entry->until_usec, 1,
				 on_timer, entry);
}

/*
 * The duration of the time wait, as the kernel calculates it: 4.096 us * 2^n is about 2^(n - 8) ms. At most
 * TIMEWAIT_MAX_USEC.
 */
static uint64_t rest_usec(const struct id *id)
{
	uint64_t usec = id->qp_timeout > 8 ? 1000ULL << (id->qp_timeout - 8) : 1000;

	return usec < TIMEWAIT_MAX_USEC ? usec : TIMEWAIT_MAX_USEC;
}

/* If memory runs out, there is no entry; at worst a peer rejects the next connection as stale. */
void timewait_enter(struct id *id)
{
	struct timewaits *timewaits = &id->session->core->timewaits;
	struct fabric_id_info info;
	struct entry *entry;

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
	entry->until_usec = now_usec() + rest_usec(id);
	list_init(&entry->held);
	list_insert(&timewaits->buckets[entry->qpn % TIMEWAIT_BUCKETS], &entry->link);
	timewaits->n++;
	id->timewait = entry;
}

void timewait_exit(struct id *id)
{
	/* Set this here too, because the id has no entry if memory ran out. */
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
	id->timewait = NULL;
	if (start_timer(entry, id->session->core->loop) < 0)
		release(entry);
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

int timewait_hold(struct id *id, const struct rdma_conn_param *param, bool accept)
{
	struct core *core = id->session->core;
	struct fabric_id_info info;
	struct entry *entry;
	struct held *held;
	int r;

	fabric_id_get_info(id->fabric, &info);
	entry = info.device ? find(&core->timewaits, info.device, param->qp_num) : NULL;
	if (!entry)
		return 0;
	if (entry->until_usec <= now_usec()) {
		release(entry);
		return 0;
	}
	r = start_timer(entry, core->loop);
	if (r < 0)
		return r;
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

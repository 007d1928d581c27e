/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/owner/qpscan.h"
#include "proto/text.h"
#include "proto/timer.h"
#include "util/clock.h"
#include "util/offload.h"
#include "util/util.h"

/*
 *   a device:  idle ── a look-up that may ──> scanning, in a thread ── done ──> resting ── timer ──> idle, or scanning
 *
 * The running scan may have passed a QP already, so look-ups that come meanwhile wait for the next scan.
 */

#define THREADS 4
#define REST_FACTOR 9
/* An owner alone gets one part in 25 of the time, and can be this far ahead. */
#define OWNER_FACTOR 24
#define AHEAD_NS (20 * 1000000000ULL)
/* What a device owes that has hung for a minute has an end. */
#define OWED_MAX_NS (120 * 1000000000ULL)

/* An owner whose look-ups wait for a scan of a device, or have caused one that is not paid for yet. */
struct payer {
	struct list link; /* scanned.payers */
	uint64_t group;
	uint64_t paid_ns; /* the time at which the scans are paid for */
	struct list waiting; /* qpscan_wait.link: for the next scan */
	bool is_served; /* by the scan that runs */
};

/* A device whose QPs are scanned, or were not long ago. */
struct scanned {
	struct list link; /* qpscan.devices */
	struct qpscan *qpscan;
	char name[64];
	sd_event_source *timer; /* starts the next scan, or ends this object */
	uint64_t rested_ns; /* the end of the rest */
	struct list
		payers; /* payer.link; they are users, or ranges of containers, so there are few */
	struct list running; /* qpscan_wait.link: for the scan that runs */

	/* A lane for each device. KEEP is never submitted: it keeps the lane allocated, so offload_prepare() cannot fail. */
	struct offload_job job, keep;
	bool runs;
	uint64_t begun_ns;
	struct nldev_device device; /* while a scan runs, only its thread uses it */
};

struct qpscan {
	sd_event *loop;
	struct list devices; /* scanned.link */
	struct offload *threads;
	bool ends;
};

static int compare(const void *a, const void *b)
{
	const struct qpowner_want *const *x = a, *const *y = b;

	return ((*x)->qpn > (*y)->qpn) - ((*x)->qpn < (*y)->qpn);
}

static size_t count(const struct list *head)
{
	struct list *l;
	size_t n = 0;

	list_for_each(l, head)
		n++;
	return n;
}

static void run(struct offload_job *job)
{
	struct scanned *scanned = container_of(job, struct scanned, job);
	_cleanup_free_ struct qpowner_want **wants = NULL;
	struct list *l;
	size_t n = 0;

	/* Without memory all keep the answer that they had at first. */
	wants = calloc(count(&scanned->running), sizeof(*wants));
	if (!wants)
		return;
	list_for_each(l, &scanned->running)
		wants[n++] = &container_of(l, struct qpscan_wait, link)->want;
	qsort(wants, n, sizeof(*wants), compare);
	qpowner_scan(scanned->name, &scanned->device, wants, n);
}

static void answer_all(struct list *waits)
{
	struct list *l;

	while ((l = list_first(waits))) {
		struct qpscan_wait *wait = container_of(l, struct qpscan_wait, link);

		list_remove(l);
		wait->done(wait, wait->want.answer);
	}
}

static struct scanned *scanned_free(struct scanned *scanned)
{
	struct list *l;

	list_remove(&scanned->link);
	while ((l = list_first(&scanned->payers))) {
		struct payer *payer = container_of(l, struct payer, link);

		list_remove(l);
		answer_all(&payer->waiting);
		free(payer);
	}
	sd_event_source_disable_unref(scanned->timer);
	offload_release(&scanned->keep);
	free(scanned);
	return NULL;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * The time at which there is something to do: a look-up may cause a scan; or, if none waits, all is paid for. Payers of whom
 * nothing is left to know are freed.
 */
static uint64_t next_time(struct scanned *scanned, uint64_t now, bool *ret_wanted)
{
	uint64_t scan = UINT64_MAX, end = scanned->rested_ns;
	struct list *l, *next;

	list_for_each_safe(l, next, &scanned->payers) {
		struct payer *payer = container_of(l, struct payer, link);
		uint64_t ahead = payer->paid_ns > AHEAD_NS ? payer->paid_ns - AHEAD_NS : 0;

		end = later(end, payer->paid_ns);
		if (!list_is_empty(&payer->waiting)) {
			scan = scan < ahead ? scan : ahead;
		} else if (payer->paid_ns <= now) {
			list_remove(l);
			free(payer);
		}
	}
	*ret_wanted = scan < UINT64_MAX;
	return *ret_wanted ? later(scan, scanned->rested_ns) : end;
}

/* All who wait share the scan, also those who must not cause one yet. */
static void start(struct scanned *scanned)
{
	struct list *l;

	list_for_each(l, &scanned->payers) {
		struct payer *payer = container_of(l, struct payer, link);

		payer->is_served = !list_is_empty(&payer->waiting);
		list_move_all(&scanned->running, &payer->waiting);
	}
	scanned->runs = true;
	scanned->begun_ns = clock_ns();
	offload_prepare(scanned->qpscan->threads, &scanned->job, (uintptr_t)scanned);
	offload_submit(scanned->qpscan->threads, &scanned->job);
}

/* Frees SCANNED if nothing is left to do. */
static void go_on(struct scanned *scanned)
{
	uint64_t now = clock_ns(), at;
	bool wanted;

	if (scanned->runs || scanned->qpscan->ends)
		return;
	at = next_time(scanned, now, &wanted);
	/* Without the timer nothing would end the wait. */
	if (at > now && timer_start(scanned->timer, (at - now) / 1000 + 1) == 0)
		return;
	if (wanted)
		start(scanned);
	else
		scanned_free(scanned);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	go_on(userdata);
	return 0;
}

static uint64_t owe(uint64_t from, uint64_t cost, uint64_t now)
{
	return from + cost < now + OWED_MAX_NS ? from + cost : now + OWED_MAX_NS;
}

/* Those who have shared the scan share what it has cost. */
static void charge(struct scanned *scanned, uint64_t now)
{
	uint64_t cost = now - scanned->begun_ns, n = 0;
	struct list *l;

	scanned->rested_ns = owe(now, cost * REST_FACTOR, now);
	list_for_each(l, &scanned->payers)
		n += container_of(l, struct payer, link)->is_served;
	list_for_each(l, &scanned->payers) {
		struct payer *payer = container_of(l, struct payer, link);

		if (payer->is_served)
			payer->paid_ns =
				owe(later(payer->paid_ns, now), cost / n * OWNER_FACTOR, now);
		payer->is_served = false;
	}
}

static void on_done(struct offload_job *job)
{
	struct scanned *scanned = container_of(job, struct scanned, job);

	charge(scanned, clock_ns());
	answer_all(&scanned->running);
	/* Only now, so that nothing frees SCANNED before. */
	scanned->runs = false;
	go_on(scanned);
}

static struct scanned *find(const struct qpscan *scan, const char *name)
{
	struct list *l;

	list_for_each(l, &scan->devices)
		if (strcmp(container_of(l, struct scanned, link)->name, name) == 0)
			return container_of(l, struct scanned, link);
	return NULL;
}

static struct scanned *scanned_new(struct qpscan *scan, const char *name)
{
	struct scanned *scanned = calloc(1, sizeof(*scanned));

	if (!scanned)
		return NULL;
	scanned->qpscan = scan;
	text_copy(scanned->name, sizeof(scanned->name), name);
	scanned->job.run = run;
	scanned->job.done = on_done;
	list_init(&scanned->payers);
	list_init(&scanned->running);
	list_insert(&scan->devices, &scanned->link);
	if (offload_prepare(scan->threads, &scanned->keep, (uintptr_t)scanned) == 0 &&
	    timer_new(&scanned->timer, scan->loop, 1, on_time, scanned) == 0)
		return scanned;
	return scanned_free(scanned);
}

/* NULL without memory. */
static struct payer *get_payer(struct scanned *scanned, uint64_t group)
{
	struct payer *payer;
	struct list *l;

	list_for_each(l, &scanned->payers)
		if (container_of(l, struct payer, link)->group == group)
			return container_of(l, struct payer, link);
	payer = calloc(1, sizeof(*payer));
	if (!payer)
		return NULL;
	payer->group = group;
	list_init(&payer->waiting);
	list_insert(&scanned->payers, &payer->link);
	return payer;
}

int qpscan_ask(struct qpscan *scan, struct qpscan_wait *wait)
{
	struct scanned *scanned = find(scan, wait->device);
	struct payer *payer;

	if (scan->ends)
		return -ESHUTDOWN;
	if (!scanned)
		scanned = scanned_new(scan, wait->device);
	payer = scanned ? get_payer(scanned, wait->group) : NULL;
	if (payer)
		list_insert(&payer->waiting, &wait->link);
	if (scanned)
		go_on(scanned);
	return payer ? 0 : -ENOMEM;
}

DEFINE_CLEANUP(struct qpscan *, qpscan_free)

int qpscan_new(struct qpscan **ret, sd_event *loop)
{
	_cleanup_(qpscan_freep) struct qpscan *scan = calloc(1, sizeof(*scan));
	int r;

	if (!scan)
		return -ENOMEM;
	scan->loop = loop;
	list_init(&scan->devices);
	r = offload_new(&scan->threads, loop, THREADS);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(scan);
	return 0;
}

struct qpscan *qpscan_free(struct qpscan *scan)
{
	struct list *l;

	if (!scan)
		return NULL;
	scan->ends = true;
	list_for_each(l, &scan->devices)
		offload_release(&container_of(l, struct scanned, link)->keep);
	scan->threads = offload_free(scan->threads);
	if (scan->threads)
		return scan;
	while ((l = list_first(&scan->devices)))
		scanned_free(container_of(l, struct scanned, link));
	free(scan);
	return NULL;
}

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
 *   idle ── qpscan_ask() ──> scanning, in a thread ── done ──> resting ── timer ──> idle, or scanning
 *
 * The running scan may have passed a QP already, so look-ups that come meanwhile wait for the next scan.
 */

#define REST_FACTOR 9

struct qpscan {
	sd_event_source *rest; /* ends the rest; NULL: qpscan_free() was called */
	bool rests;
	struct list waiting; /* qpscan_wait.link: for the next scan */

	struct offload *thread;
	struct offload_job job;
	/* never submitted: it keeps the lane allocated, so that offload_prepare() cannot fail */
	struct offload_job keep;
	bool runs;
	uint64_t begun_ns;
	struct list running; /* qpscan_wait.link: for the scan that runs */
	/* While a scan runs, only the thread uses these: */
	struct nldev *nldev;
	struct nldev_device device;
	char name[64]; /* name of DEVICE */
	int r;
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

static int holderscan(struct qpscan *scan)
{
	_cleanup_free_ struct qpowner_want **wants = NULL;
	size_t n = 0;
	struct list *l;
	int r;

	wants = calloc(count(&scan->running), sizeof(struct qpowner_want *));
	if (!wants)
		return -ENOMEM;
	list_for_each(l, &scan->running)
		wants[n++] = &container_of(l, struct qpscan_wait, link)->want;
	qsort(wants, n, sizeof(struct qpowner_want *), compare);
	r = scan->nldev ? 0 : nldev_new(&scan->nldev);
	if (r == 0)
		r = qpowner_scan(scan->nldev, scan->name, &scan->device, wants, n);
	/* The socket may still contain a part of the dump. */
	if (r < 0)
		scan->nldev = nldev_free(scan->nldev);
	return r;
}

static void run(struct offload_job *job)
{
	struct qpscan *scan = container_of(job, struct qpscan, job);

	scan->r = holderscan(scan);
}

static void answer_all(struct list *waits, int r)
{
	struct list *l;

	while ((l = list_first(waits))) {
		struct qpscan_wait *wait = container_of(l, struct qpscan_wait, link);

		list_remove(l);
		wait->done(wait, r < 0 ? r : wait->want.answer);
	}
}

static void start(struct qpscan *scan)
{
	const char *name;
	struct list *l, *next;

	if (scan->runs || scan->rests || !scan->rest || list_is_empty(&scan->waiting))
		return;
	name = container_of(list_first(&scan->waiting), struct qpscan_wait, link)->device;
	if (strcmp(scan->name, name) != 0) {
		text_copy(scan->name, sizeof(scan->name), name);
		scan->device.n_ports = 0;
	}
	list_for_each_safe(l, next, &scan->waiting)
		if (strcmp(container_of(l, struct qpscan_wait, link)->device, scan->name) == 0) {
			list_remove(l);
			list_insert(&scan->running, l);
		}
	scan->runs = true;
	scan->begun_ns = clock_ns();
	offload_prepare(scan->thread, &scan->job, 0);
	offload_submit(scan->thread, &scan->job);
}

static int on_rest(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct qpscan *scan = userdata;

	scan->rests = false;
	start(scan);
	return 0;
}

static void begin_rest(struct qpscan *scan)
{
	uint64_t usec = (clock_ns() - scan->begun_ns) * REST_FACTOR / 1000;

	/* Without the timer, nothing would end the rest. */
	scan->rests = timer_start(scan->rest, usec) == 0;
}

static void on_done(struct offload_job *job)
{
	struct qpscan *scan = container_of(job, struct qpscan, job);

	scan->runs = false;
	if (scan->rest)
		begin_rest(scan);
	answer_all(&scan->running, scan->r);
	start(scan);
}

void qpscan_ask(struct qpscan *scan, struct qpscan_wait *wait)
{
	list_insert(&scan->waiting, &wait->link);
	start(scan);
}

DEFINE_CLEANUP(struct qpscan *, qpscan_free)

int qpscan_new(struct qpscan **ret, sd_event *loop)
{
	_cleanup_(qpscan_freep) struct qpscan *scan = calloc(1, sizeof(*scan));
	int r;

	if (!scan)
		return -ENOMEM;
	list_init(&scan->waiting);
	list_init(&scan->running);
	scan->job.run = run;
	scan->job.done = on_done;
	r = offload_new(&scan->thread, loop, 1);
	if (r == 0)
		r = offload_prepare(scan->thread, &scan->keep, 0);
	if (r == 0)
		r = timer_new(&scan->rest, loop, 1, on_rest, scan);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(scan);
	return 0;
}

struct qpscan *qpscan_free(struct qpscan *scan)
{
	if (!scan)
		return NULL;
	scan->rest = sd_event_source_disable_unref(scan->rest);
	offload_release(&scan->keep);
	scan->thread = offload_free(scan->thread);
	if (scan->thread)
		return scan;
	answer_all(&scan->waiting, -ESHUTDOWN);
	nldev_free(scan->nldev);
	free(scan);
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/device/opener.h"
#include "fabric/device/shown.h"
#include "proto/text.h"
#include "proto/timer.h"
#include "util/clock.h"
#include "util/crowd.h"
#include "util/log.h"
#include "util/offload.h"
#include "util/util.h"

#define THREADS 8 /* so many devices are opened or released at the same time */
#define PATIENCE_MS 1000
#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS (5 * 60 * 1000)
#define EVENTS_MAX 64 /* of a device in one turn */

/* A list of libibverbs keeps its devices in memory. A context keeps its own. */
struct listing {
	struct ibv_device **all;
	unsigned n_refs;
};

struct entry {
	struct list link; /* opener.entries */
	struct opener *opener;
	struct ibv_device *device;
	char name[64];
	struct listing *listing; /* NULL: OPEN once */
	uint64_t lane; /* of OPENERS */
	struct offload_job job; /* opens the device, or releases it */
	struct offload_job keep; /* never submitted: it keeps the lane */
	bool works; /* JOB is submitted */
	bool is_queried_again; /* an event came while the LMCs were queried */
	bool is_gone;
	struct opener_status status;
	uint64_t next_ms; /* FAILED: time of the next try */
	unsigned pause_ms;
	struct shown shown;

	/* While a job runs, only the thread changes these: */
	struct ibv_context *verbs; /* NULL: not open */
	int error;
	uint8_t lmc[OPENER_PORTS];
};

struct opener {
	struct offload *lister; /* has one thread */
	struct offload_job job;
	/* never submitted: it keeps the lane allocated, so that offload_prepare() cannot fail */
	struct offload_job keep;
	struct offload *openers;
	uint64_t n_lanes; /* that ever were */
	struct list entries;
	struct listing *listing; /* the newest; NULL: none yet */
	struct crowd events; /* entry: its asynchronous events */
	sd_event_source *timer; /* for the next try, and the end of the patience */
	void (*changed)(void *userdata);
	void *userdata;
	bool runs;
	bool again; /* opener_look() was called while the lister ran */
	uint64_t busy_since_ms; /* 0: it is not busy */
	int null_fd;

	/* While the lister runs, only its thread uses this: */
	struct ibv_device **all;
};

static struct listing *listing_unref(struct listing *listing)
{
	if (listing && --listing->n_refs == 0) {
		shown_free_list(listing->all);
		free(listing);
	}
	return NULL;
}

static bool is_busy(const struct opener *opener)
{
	struct list *l;

	if (opener->runs)
		return true;
	list_for_each(l, &opener->entries) {
		const struct entry *entry = container_of(l, struct entry, link);

		if (entry->status.state == OPENER_OPENING && !entry->is_gone)
			return true;
	}
	return false;
}

/* To be called after each change. */
static void rearm(struct opener *opener)
{
	uint64_t now = clock_ms(), next = UINT64_MAX;
	struct list *l;

	if (!is_busy(opener))
		opener->busy_since_ms = 0;
	else if (opener->busy_since_ms == 0)
		opener->busy_since_ms = now;
	if (opener_is_new(opener))
		next = opener->busy_since_ms + PATIENCE_MS;
	list_for_each(l, &opener->entries) {
		const struct entry *entry = container_of(l, struct entry, link);

		if (entry->status.state == OPENER_FAILED && !entry->works && entry->next_ms < next)
			next = entry->next_ms;
	}
	if (next == UINT64_MAX)
		timer_stop(opener->timer);
	else
		timer_start(opener->timer, next > now ? (next - now) * 1000 : 0);
}

static void tell(struct opener *opener)
{
	rearm(opener);
	if (opener->changed)
		opener->changed(opener->userdata);
}

static void entry_free(struct entry *entry)
{
	list_remove(&entry->link);
	offload_release(&entry->keep);
	shown_end(&entry->shown);
	listing_unref(entry->listing);
	free(entry);
}

/* ---- threads ---- */

static void run_list(struct offload_job *job)
{
	struct opener *opener = container_of(job, struct opener, job);

	opener->all = shown_list_all();
}

/* Only InfiniBand has LMCs. Beyond the last port the query fails. */
static void run_query(struct offload_job *job)
{
	struct entry *entry = container_of(job, struct entry, job);
	struct ibv_port_attr attr;

	memset(entry->lmc, 0, sizeof(entry->lmc));
	for (uint8_t i = 0; i < OPENER_PORTS && !entry->status.is_iwarp; i++) {
		if (ibv_query_port(entry->verbs, (uint8_t)(i + 1), &attr) != 0)
			return;
		if (attr.link_layer != IBV_LINK_LAYER_ETHERNET)
			entry->lmc[i] = attr.lmc;
	}
}

static void run_open(struct offload_job *job)
{
	struct entry *entry = container_of(job, struct entry, job);

	errno = 0;
	entry->verbs = shown_open(entry->device);
	entry->error = entry->verbs ? 0 : errno ?: EIO;
	if (!entry->verbs)
		return;
	fcntl(entry->verbs->async_fd, F_SETFL, fcntl(entry->verbs->async_fd, F_GETFL) | O_NONBLOCK);
	run_query(job);
}

/* The device of ENTRY is gone. */
static void run_release(struct offload_job *job)
{
	struct entry *entry = container_of(job, struct entry, job);
	int null_fd = entry->opener->null_fd;

	if (!shown_is_lent(&entry->shown)) {
		/* First: a new context can get the address of this one. */
		shown_end(&entry->shown);
		shown_close(entry->verbs);
		entry->verbs = NULL;
		return;
	}
	/* ASYNC_FD holds a reference to the file of CMD_FD. */
	dup3(null_fd, entry->verbs->async_fd, O_CLOEXEC);
	dup3(null_fd, entry->verbs->cmd_fd, O_CLOEXEC);
}

/* ---- the loop ---- */

static void work(struct entry *entry, void (*run)(struct offload_job *job),
		 void (*done)(struct offload_job *job))
{
	entry->job.run = run;
	entry->job.done = done;
	entry->works = true;
	/* Cannot fail, see ENTRY->keep. */
	offload_prepare(entry->opener->openers, &entry->job, entry->lane);
	offload_submit(entry->opener->openers, &entry->job);
}

static void on_released(struct offload_job *job)
{
	struct entry *entry = container_of(job, struct entry, job);

	entry->works = false;
	/* What is lent waits until it is given back, see let_go(). */
	if (!entry->verbs)
		entry_free(entry);
}

/* The device of ENTRY is gone. Call again when its context was perhaps given back. */
static void let_go(struct entry *entry)
{
	bool first = entry->status.state != OPENER_ABSENT;

	/* If the opener ends, end() does the rest. */
	if (entry->works || !entry->opener->changed)
		return;
	entry->status = (struct opener_status){ .state = OPENER_ABSENT };
	if (!entry->verbs) {
		entry_free(entry);
		return;
	}
	if (first) {
		crowd_remove(&entry->opener->events, entry->verbs->async_fd);
		shown_hide(&entry->shown);
	}
	if (first || !shown_is_lent(&entry->shown))
		work(entry, run_release, on_released);
}

static void note_failure(struct entry *entry)
{
	struct opener_status *status = &entry->status;

	if (status->state != OPENER_FAILED)
		status->since_ms = clock_ms();
	status->state = OPENER_FAILED;
	status->error = entry->error;
	entry->next_ms = clock_ms() + entry->pause_ms;
	entry->pause_ms = entry->pause_ms * 2 < PAUSE_MAX_MS ? entry->pause_ms * 2 : PAUSE_MAX_MS;
}

static void query(struct entry *entry);

static void on_queried(struct offload_job *job)
{
	struct entry *entry = container_of(job, struct entry, job);
	bool again = entry->is_queried_again;

	entry->works = entry->is_queried_again = false;
	memcpy(entry->status.lmc, entry->lmc, sizeof(entry->lmc));
	if (entry->is_gone)
		let_go(entry);
	else if (again)
		query(entry);
}

static void query(struct entry *entry)
{
	if (entry->works)
		entry->is_queried_again = true;
	else if (entry->opener->changed)
		work(entry, run_query, on_queried);
}

static void on_opened(struct offload_job *job)
{
	struct entry *entry = container_of(job, struct entry, job);
	struct opener *opener = entry->opener;

	entry->works = false;
	entry->status.n_tries++;
	if (entry->verbs) {
		entry->listing = listing_unref(entry->listing);
		entry->status.state = OPENER_OPEN;
		memcpy(entry->status.lmc, entry->lmc, sizeof(entry->lmc));
		shown_begin(&entry->shown, entry->verbs);
		/* Without memory the kernel keeps the events. */
		crowd_add(&opener->events, entry->verbs->async_fd, EPOLLIN, entry);
	} else {
		note_failure(entry);
	}
	if (entry->is_gone)
		let_go(entry);
	tell(opener);
}

static int entry_new(struct opener *opener, struct ibv_device *device)
{
	struct entry *entry = calloc(1, sizeof(*entry));
	int r;

	if (!entry)
		return -ENOMEM;
	entry->lane = opener->n_lanes;
	r = offload_prepare(opener->openers, &entry->keep, entry->lane);
	if (r < 0) {
		free(entry);
		return r;
	}
	opener->n_lanes++;
	entry->opener = opener;
	entry->device = device;
	text_copy(entry->name, sizeof(entry->name), device->dev_name);
	entry->listing = opener->listing;
	entry->listing->n_refs++;
	entry->pause_ms = PAUSE_MIN_MS;
	entry->status.state = OPENER_OPENING;
	entry->status.is_iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
	list_insert(&opener->entries, &entry->link);
	work(entry, run_open, on_opened);
	return 0;
}

static bool has(struct ibv_device *const *all, const struct ibv_device *device)
{
	for (; *all; all++)
		if (*all == device)
			return true;
	return false;
}

static struct entry *find_device(const struct opener *opener, const struct ibv_device *device)
{
	struct list *l;

	list_for_each(l, &opener->entries) {
		struct entry *entry = container_of(l, struct entry, link);

		if (entry->device == device && !entry->is_gone)
			return entry;
	}
	return NULL;
}

static int compare(struct opener *opener, struct ibv_device **all)
{
	struct listing *listing = calloc(1, sizeof(*listing)), *old = opener->listing;
	struct list *l, *n;
	int r = 0;

	if (!listing) {
		shown_free_list(all);
		return -ENOMEM;
	}
	*listing = (struct listing){ .all = all, .n_refs = 1 };
	opener->listing = listing;
	list_for_each_safe(l, n, &opener->entries) {
		struct entry *entry = container_of(l, struct entry, link);

		entry->is_gone = entry->is_gone || !has(all, entry->device);
		if (entry->is_gone)
			let_go(entry);
	}
	for (struct ibv_device **device = all; *device && r == 0; device++)
		if (!find_device(opener, *device))
			r = entry_new(opener, *device);
	listing_unref(old);
	return r;
}

static void list_devices(struct opener *opener)
{
	opener->runs = true;
	/* Cannot fail, see OPENER->keep. */
	offload_prepare(opener->lister, &opener->job, 0);
	offload_submit(opener->lister, &opener->job);
}

static void on_listed(struct offload_job *job)
{
	struct opener *opener = container_of(job, struct opener, job);
	int r = opener->all ? compare(opener, TAKE_PTR(opener->all)) : -ENOMEM;

	opener->runs = false;
	if (r < 0)
		log_warning("Cannot list the RDMA devices: %s. Devices that are new cannot be used "
			    "until the next one appears or goes.",
			    strerror(-r));
	if (opener->again) {
		opener->again = false;
		list_devices(opener);
	}
	tell(opener);
}

void opener_look(struct opener *opener)
{
	if (opener->runs)
		opener->again = true;
	else
		list_devices(opener);
	rearm(opener);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct opener *opener = userdata;
	uint64_t now = clock_ms();
	struct list *l;

	list_for_each(l, &opener->entries) {
		struct entry *entry = container_of(l, struct entry, link);

		if (entry->status.state == OPENER_FAILED && !entry->works && entry->next_ms <= now)
			work(entry, run_open, on_opened);
	}
	tell(opener);
	return 0;
}

static bool is_about_lid(uint32_t event)
{
	return event == IBV_EVENT_PORT_ACTIVE || event == IBV_EVENT_LID_CHANGE ||
	       event == IBV_EVENT_SM_CHANGE || event == IBV_EVENT_CLIENT_REREGISTER;
}

static bool on_event(void *object, uint32_t events)
{
	struct entry *entry = object;
	struct ib_uverbs_async_event_desc event;
	bool is_stale = false;
	ssize_t n = 0;

	for (int i = 0; i < EVENTS_MAX && n >= 0; i++) {
		n = read(entry->verbs->async_fd, &event, sizeof(event));
		is_stale = is_stale || (n == sizeof(event) && is_about_lid(event.event_type));
	}
	/* The driver has taken the context away. */
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		crowd_remove(&entry->opener->events, entry->verbs->async_fd);
	else if (is_stale)
		query(entry);
	return true;
}

bool opener_is_new(const struct opener *opener)
{
	return opener->busy_since_ms > 0 && clock_ms() < opener->busy_since_ms + PATIENCE_MS;
}

bool opener_is_busy(const struct opener *opener)
{
	return opener->busy_since_ms > 0;
}

bool opener_has_iwarp(const struct opener *opener)
{
	struct list *l;

	list_for_each(l, &opener->entries) {
		const struct entry *entry = container_of(l, struct entry, link);

		if (!entry->is_gone && entry->status.is_iwarp)
			return true;
	}
	return false;
}

void opener_get_status(const struct opener *opener, const char *name, struct opener_status *ret)
{
	struct list *l;

	*ret = (struct opener_status){ .state = OPENER_ABSENT };
	list_for_each(l, &opener->entries) {
		const struct entry *entry = container_of(l, struct entry, link);

		if (!entry->is_gone && strcmp(entry->name, name) == 0)
			*ret = entry->status;
	}
}

DEFINE_CLEANUP(struct opener *, opener_free)

int opener_new(struct opener **ret, sd_event *loop, void (*changed)(void *userdata), void *userdata)
{
	_cleanup_(opener_freep) struct opener *opener = calloc(1, sizeof(*opener));
	int r;

	if (!opener)
		return -ENOMEM;
	list_init(&opener->entries);
	opener->changed = changed;
	opener->userdata = userdata;
	opener->job.run = run_list;
	opener->job.done = on_listed;
	opener->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (opener->null_fd < 0)
		return -errno;
	r = timer_new(&opener->timer, loop, 0, on_timer, opener);
	if (r >= 0)
		r = crowd_init(&opener->events, loop, CROWD_MAX, on_event);
	if (r >= 0)
		r = offload_new(&opener->lister, loop, 1);
	if (r >= 0)
		r = offload_prepare(opener->lister, &opener->keep, 0);
	if (r >= 0)
		r = offload_new(&opener->openers, loop, THREADS);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(opener);
	return 0;
}

static void end(struct entry *entry)
{
	bool is_lent = shown_is_lent(&entry->shown);

	shown_end(&entry->shown);
	if (entry->verbs && !is_lent)
		shown_close(entry->verbs);
	entry_free(entry);
}

struct opener *opener_free(struct opener *opener)
{
	struct list *l;

	if (!opener)
		return NULL;
	opener->changed = NULL;
	opener->again = false;
	offload_release(&opener->keep);
	opener->lister = offload_free(opener->lister);
	list_for_each(l, &opener->entries)
		offload_release(&container_of(l, struct entry, link)->keep);
	opener->openers = offload_free(opener->openers);
	/* A stuck thread still uses these objects, so they stay allocated until the process ends. */
	if (opener->lister || opener->openers)
		return NULL;
	while ((l = list_first(&opener->entries)))
		end(container_of(l, struct entry, link));
	listing_unref(opener->listing);
	crowd_done(&opener->events);
	sd_event_source_disable_unref(opener->timer);
	closep(&opener->null_fd);
	free(opener);
	return NULL;
}

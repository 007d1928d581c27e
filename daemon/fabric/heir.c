/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/heir.h"
#include "fabric/ucm.h"
#include "proto/addr.h"
#include "util/log.h"
#include "util/util.h"

/*
 * Ids have small numbers, because the kernel gives a new one the lowest free number of the host. Which of them belong
 * to a file can only be found by trying. The search ends after this many numbers in a row that belong to none of the
 * files; earlier, if as many ids were found as are expected.
 */
#define MISSES_MAX 65536
#define MISSES_MAX_IF_COMPLETE 1024
#define BATCH 64 /* most events in one turn of the loop */

struct heir {
	struct heirs *heirs;
	uint32_t number; /* the kernel's number of the id */
	bool free; /* it was destroyed */
	struct ucm_addresses addresses;
	struct fabric_id *id; /* NULL: nobody has claimed it */
};

struct heirs {
	int file;
	struct heir *heirs; /* sorted by NUMBER */
	size_t n, n_allocated;
	/* events that were read before their heirs were claimed */
	struct ucm_event *early;
	size_t n_early, n_early_allocated;
	sd_event_source *io;
	heir_event_fn on_event;
	void *userdata;
};

static int add(struct heirs *heirs, uint32_t number)
{
	struct heir *heir;

	if (heirs->n == heirs->n_allocated) {
		size_t n = heirs->n_allocated ? 2 * heirs->n_allocated : 256;
		struct heir *more = realloc(heirs->heirs, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		heirs->heirs = more;
		heirs->n_allocated = n;
	}
	heir = &heirs->heirs[heirs->n++];
	*heir = (struct heir){ .heirs = heirs, .number = number };
	return ucm_query_addresses(heirs->file, number, &heir->addresses);
}

static int move_all(struct heirs *heirs, const int *files, size_t n_files, size_t n_expected)
{
	unsigned misses = 0;

	for (uint32_t number = 0;
	     misses < (heirs->n < n_expected ? MISSES_MAX : MISSES_MAX_IF_COMPLETE); number++) {
		bool moved = false;
		int r = 0;

		for (size_t i = 0; i < n_files && !moved; i++)
			moved = ucm_move(heirs->file, files[i], number) == 0;
		misses = moved ? 0 : misses + 1;
		if (moved)
			r = add(heirs, number);
		if (r < 0)
			return r;
	}
	return 0;
}

static int keep_event(struct heirs *heirs, const struct ucm_event *event)
{
	if (heirs->n_early == heirs->n_early_allocated) {
		size_t n = heirs->n_early_allocated ? 2 * heirs->n_early_allocated : 64;
		struct ucm_event *more = realloc(heirs->early, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		heirs->early = more;
		heirs->n_early_allocated = n;
	}
	heirs->early[heirs->n_early++] = *event;
	return 0;
}

static void turn_away(struct heirs *heirs, uint32_t request, const void *busy, size_t busy_len)
{
	ucm_reject(heirs->file, request, busy, busy_len);
	ucm_destroy(heirs->file, request);
}

/*
 * Reads the events that wait. Those of a listener have to be read before it is destroyed, because the kernel destroys
 * the requests that wait together with it, and their peers get no private data.
 */
static int read_early(struct heirs *heirs, const void *busy, size_t busy_len)
{
	struct ucm_event event;
	int r;

	while ((r = ucm_get_event(heirs->file, &event)) == 0) {
		if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			turn_away(heirs, event.id, busy, busy_len);
		else
			r = keep_event(heirs, &event);
		if (r < 0)
			return r;
	}
	return r == -EAGAIN ? 0 : r;
}

DEFINE_CLEANUP(struct heirs *, heirs_free)

int heirs_take(struct heirs **ret, const int *files, size_t n_files, size_t n_expected,
	       const void *busy, size_t busy_len)
{
	_cleanup_(heirs_freep) struct heirs *heirs = NULL;
	int r;

	heirs = calloc(1, sizeof(*heirs));
	if (!heirs)
		return -ENOMEM;
	heirs->file = ucm_open();
	if (heirs->file < 0)
		return heirs->file;
	r = move_all(heirs, files, n_files, n_expected);
	if (r == 0)
		r = read_early(heirs, busy, busy_len);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(heirs);
	return 0;
}

struct heirs *heirs_free(struct heirs *heirs)
{
	if (!heirs)
		return NULL;
	sd_event_source_disable_unref(heirs->io);
	closep(&heirs->file);
	free(heirs->heirs);
	free(heirs->early);
	free(heirs);
	return NULL;
}

int heirs_get_file(const struct heirs *heirs)
{
	return heirs->file;
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr *x = (const struct sockaddr *)a, *y = (const struct sockaddr *)b;

	if (a->ss_family != b->ss_family)
		return false;
	return a->ss_family == AF_UNSPEC ||
	       (addr_is_same_host(x, y) && addr_port(x) == addr_port(y));
}

struct heir *heirs_claim(struct heirs *heirs, const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer, struct fabric_id *id)
{
	for (size_t i = 0; i < heirs->n; i++) {
		struct heir *heir = &heirs->heirs[i];

		if (heir->id || heir->free || !same_address(&heir->addresses.local, local) ||
		    !same_address(&heir->addresses.peer, peer))
			continue;
		heir->id = id;
		return heir;
	}
	return NULL;
}

static struct heir *find(struct heirs *heirs, uint32_t number)
{
	size_t low = 0, high = heirs->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (heirs->heirs[mid].number < number)
			low = mid + 1;
		else
			high = mid;
	}
	return low < heirs->n && heirs->heirs[low].number == number ? &heirs->heirs[low] : NULL;
}

/* What nobody has claimed has no events: it was ended. */
static void deliver(struct heirs *heirs, const struct ucm_event *event)
{
	struct heir *heir = find(heirs, event->id);
	struct fabric_event out = {
		.type = (enum rdma_cm_event_type)event->type,
		.status = event->status,
	};

	if (heir && heir->id)
		heirs->on_event(heirs->userdata, heir->id, &out);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct heirs *heirs = userdata;
	struct ucm_event event;
	int r = 0;

	(void)fd;
	(void)events;
	for (unsigned i = 0; i < BATCH && r == 0; i++) {
		r = ucm_get_event(heirs->file, &event);
		if (r == 0)
			deliver(heirs, &event);
	}
	if (r == 0 || r == -EAGAIN || r == -EINTR)
		return 0;
	log_error("Cannot read the events of connections that were taken over: %s. They are no "
		  "longer reported.",
		  strerror(-r));
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

/* Rejects HEIR if it is a connection request, else disconnects it, and destroys it. */
static void end(struct heir *heir, const void *busy, size_t busy_len)
{
	if (ucm_reject(heir->heirs->file, heir->number, busy, busy_len) < 0)
		heir_disconnect(heir);
	heir_destroy(heir);
	heir_forget(heir);
}

int heirs_start(struct heirs *heirs, sd_event *loop, const void *busy, size_t busy_len,
		heir_event_fn on_event, void *userdata)
{
	for (size_t i = 0; i < heirs->n; i++)
		if (!heirs->heirs[i].id && !heirs->heirs[i].free)
			end(&heirs->heirs[i], busy, busy_len);
	heirs->on_event = on_event;
	heirs->userdata = userdata;
	for (size_t i = 0; i < heirs->n_early; i++)
		deliver(heirs, &heirs->early[i]);
	heirs->n_early = 0;
	return sd_event_add_io(loop, &heirs->io, heirs->file, EPOLLIN, on_io, heirs);
}

struct fabric_id *heirs_next(const struct heirs *heirs, size_t *position)
{
	while (*position < heirs->n) {
		struct fabric_id *id = heirs->heirs[(*position)++].id;

		if (id)
			return id;
	}
	return NULL;
}

bool heir_is_connected(const struct heir *heir)
{
	return ucm_is_connected(heir->heirs->file, heir->number);
}

int heir_establish(const struct heir *heir)
{
	return ucm_establish(heir->heirs->file, heir->number);
}

int heir_reject(const struct heir *heir, const void *data, size_t len)
{
	return ucm_reject(heir->heirs->file, heir->number, data, len);
}

int heir_disconnect(const struct heir *heir)
{
	return ucm_disconnect(heir->heirs->file, heir->number);
}

void heir_destroy(const struct heir *heir)
{
	ucm_destroy(heir->heirs->file, heir->number);
}

void heir_forget(struct heir *heir)
{
	heir->free = true;
	heir->id = NULL;
}

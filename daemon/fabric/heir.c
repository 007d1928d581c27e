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
	enum rdma_port_space listener_ps; /* of a listener that heirs_end() has ended; else 0 */
	struct fabric_id *id; /* NULL: nobody has claimed it */
};

struct heirs {
	int file;
	uint32_t *reading; /* see fabric_note_reading() */
	struct heir **heirs; /* sorted by NUMBER */
	size_t n, n_allocated;
	/* events that were read before heirs_start() */
	struct ucm_event *early;
	size_t n_early, n_early_allocated;
	sd_event_source *io;
	heir_event_fn on_event;
	void *userdata;
};

/* The position of the first heir whose number is not less than NUMBER. */
static size_t position(const struct heirs *heirs, uint32_t number)
{
	return LOWER_BOUND(i, heirs->n, heirs->heirs[i]->number < number);
}

static struct heir *find(const struct heirs *heirs, uint32_t number)
{
	size_t i = position(heirs, number);

	return i < heirs->n && heirs->heirs[i]->number == number ? heirs->heirs[i] : NULL;
}

static int add(struct heirs *heirs, uint32_t number)
{
	size_t i = position(heirs, number);
	struct heir *heir;

	if (heirs->n == heirs->n_allocated) {
		size_t n = heirs->n_allocated ? 2 * heirs->n_allocated : 256;
		struct heir **more = realloc(heirs->heirs, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		heirs->heirs = more;
		heirs->n_allocated = n;
	}
	heir = calloc(1, sizeof(*heir));
	if (!heir)
		return -ENOMEM;
	heir->heirs = heirs;
	heir->number = number;
	memmove(&heirs->heirs[i + 1], &heirs->heirs[i], (heirs->n - i) * sizeof(*heirs->heirs));
	heirs->heirs[i] = heir;
	heirs->n++;
	/* If its device is gone, it has no addresses, nobody claims it, and it is ended. */
	ucm_query_addresses(heirs->file, number, &heir->addresses);
	return 0;
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

/*
 * Reads the events that wait. Those of a listener have to be read before it is destroyed, because the kernel destroys
 * the requests that wait together with it.
 */
static int read_early(struct heirs *heirs)
{
	struct ucm_event event;
	int r;

	while ((r = ucm_get_event(heirs->file, &event)) == 0) {
		if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST && !find(heirs, event.id))
			r = add(heirs, event.id);
		if (r == 0)
			r = keep_event(heirs, &event);
		if (r < 0)
			return r;
	}
	return r == -EAGAIN ? 0 : r;
}

DEFINE_CLEANUP(struct heirs *, heirs_free)

int heirs_new(struct heirs **ret, uint32_t *reading)
{
	_cleanup_(heirs_freep) struct heirs *heirs = calloc(1, sizeof(*heirs));

	if (!heirs)
		return -ENOMEM;
	heirs->reading = reading;
	heirs->file = ucm_open();
	if (heirs->file < 0)
		return heirs->file;
	*ret = TAKE_PTR(heirs);
	return 0;
}

int heirs_take(struct heirs *heirs, const int *files, size_t n_files, size_t n_expected)
{
	int r = move_all(heirs, files, n_files, n_expected);

	return r < 0 ? r : read_early(heirs);
}

struct heirs *heirs_free(struct heirs *heirs)
{
	if (!heirs)
		return NULL;
	sd_event_source_disable_unref(heirs->io);
	closep(&heirs->file);
	for (size_t i = 0; i < heirs->n; i++)
		free(heirs->heirs[i]);
	free(heirs->heirs);
	free(heirs->early);
	free(heirs);
	return NULL;
}

int heirs_get_file(const struct heirs *heirs)
{
	return heirs->file;
}

/* The kernel gives an id that is bound, but has no peer, the peer address 0 of the same family. */
static bool is_none(const struct sockaddr_storage *a)
{
	const struct sockaddr *x = (const struct sockaddr *)a;

	return a->ss_family == AF_UNSPEC || (addr_is_wildcard(x) && addr_port(x) == 0);
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr *x = (const struct sockaddr *)a, *y = (const struct sockaddr *)b;

	if (is_none(a) || is_none(b))
		return is_none(a) && is_none(b);
	return a->ss_family == b->ss_family && addr_is_same_host(x, y) &&
	       addr_port(x) == addr_port(y);
}

static bool is_unclaimed(const struct heir *heir, const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer)
{
	return !heir->id && !heir->free && same_address(&heir->addresses.local, local) &&
	       same_address(&heir->addresses.peer, peer);
}

static struct heir *find_unclaimed(const struct heirs *heirs, const struct sockaddr_storage *local,
				   const struct sockaddr_storage *peer)
{
	for (size_t i = 0; i < heirs->n; i++)
		if (is_unclaimed(heirs->heirs[i], local, peer))
			return heirs->heirs[i];
	return NULL;
}

static unsigned count_unclaimed(const struct heirs *heirs, const struct sockaddr_storage *local,
				const struct sockaddr_storage *peer)
{
	unsigned ret = 0;

	for (size_t i = 0; i < heirs->n; i++)
		ret += is_unclaimed(heirs->heirs[i], local, peer);
	return ret;
}

static bool has_event(struct heirs *heirs, const struct heir *heir)
{
	read_early(heirs);
	for (size_t i = 0; i < heirs->n_early; i++)
		if (heirs->early[i].id == heir->number &&
		    heirs->early[i].type != RDMA_CM_EVENT_CONNECT_REQUEST)
			return true;
	return false;
}

bool heirs_has_begun(struct heirs *heirs, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *peer)
{
	const struct heir *heir = find_unclaimed(heirs, local, peer);
	struct ibv_qp_attr attr;
	int mask;

	return heir && count_unclaimed(heirs, local, peer) == 1 &&
	       (ucm_qp_attr(heirs->file, heir->number, IBV_QPS_RTS, &attr, &mask) == 0 ||
		has_event(heirs, heir));
}

struct heir *heirs_claim(struct heirs *heirs, const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer, struct fabric_id *id)
{
	struct heir *heir = find_unclaimed(heirs, local, peer);

	if (heir)
		heir->id = id;
	return heir;
}

void heirs_end(struct heirs *heirs, enum rdma_port_space ps, const struct sockaddr_storage *local)
{
	const struct sockaddr_storage none = { .ss_family = AF_UNSPEC };
	struct heir *heir = find_unclaimed(heirs, local, &none);

	if (!heir)
		return;
	heir->listener_ps = ps;
	read_early(heirs);
	/* The kernel destroys a listener without waiting for a peer, and the address has to be free afterwards. */
	ucm_destroy(heirs->file, heir->number);
	heir_forget(heir);
}

struct heir *heirs_next_request(struct heirs *heirs, struct ucm_event *ret)
{
	for (size_t i = 0; i < heirs->n_early; i++) {
		struct ucm_event *event = &heirs->early[i];
		struct heir *heir;

		if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		*ret = *event;
		event->type = -1;
		heir = find(heirs, ret->id);
		if (heir && !heir->free)
			return heir;
	}
	return NULL;
}

/* What nobody has claimed has no events: it was ended. */
static void deliver(struct heirs *heirs, const struct ucm_event *event)
{
	struct heir *heir = find(heirs, event->id);

	if (event->type >= 0 && heir && heir->id)
		heirs->on_event(heirs->userdata, heir->id, event);
}

int heirs_poll(struct heirs *heirs)
{
	struct ucm_event event;
	int r = 0;

	for (unsigned i = 0; i < BATCH && r == 0; i++) {
		*heirs->reading = 1;
		r = ucm_get_event(heirs->file, &event);
		if (r == 0)
			deliver(heirs, &event);
		*heirs->reading = 0;
	}
	return r;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	int r = heirs_poll(userdata);

	(void)fd;
	(void)events;
	if (r == 0 || r == -EAGAIN || r == -EINTR)
		return 0;
	log_error("Cannot read the events of connections that were taken over: %s. They are no "
		  "longer reported.",
		  strerror(-r));
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

struct heir *heirs_next_unclaimed(const struct heirs *heirs, size_t *position)
{
	while (*position < heirs->n) {
		struct heir *heir = heirs->heirs[(*position)++];

		if (!heir->id && !heir->free)
			return heir;
	}
	return NULL;
}

int heirs_start(struct heirs *heirs, sd_event *loop, heir_event_fn on_event, void *userdata)
{
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
		struct fabric_id *id = heirs->heirs[(*position)++]->id;

		if (id)
			return id;
	}
	return NULL;
}

void heir_claim(struct heir *heir, struct fabric_id *id)
{
	heir->id = id;
}

static bool listens_at(const struct heir *heir, const struct sockaddr_storage *address)
{
	const struct sockaddr *local = (const struct sockaddr *)&heir->addresses.local;
	const struct sockaddr *other = (const struct sockaddr *)address;

	return heir->listener_ps != 0 && addr_port(local) == addr_port(other) &&
	       (addr_is_wildcard(local) || addr_is_same_host(local, other));
}

enum rdma_port_space heir_get_listener_ps(const struct heir *heir)
{
	const struct heirs *heirs = heir->heirs;
	enum rdma_port_space ps = 0;

	for (size_t i = 0; i < heirs->n; i++) {
		const struct heir *listener = heirs->heirs[i];

		if (!listens_at(listener, &heir->addresses.local))
			continue;
		if (ps != 0 && ps != listener->listener_ps)
			return 0;
		ps = listener->listener_ps;
	}
	return ps;
}

const struct ucm_addresses *heir_get_addresses(const struct heir *heir)
{
	return &heir->addresses;
}

int heir_get_file(const struct heir *heir)
{
	return heir->heirs->file;
}

uint32_t heir_get_number(const struct heir *heir)
{
	return heir->number;
}

void heir_forget(struct heir *heir)
{
	heir->free = true;
	heir->id = NULL;
}

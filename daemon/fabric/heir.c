/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/heir.h"
#include "fabric/heirplace.h"
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
	struct list unclaimed; /* of heirs.unclaimed */
	struct list listener; /* of heirs.listeners */
	uint32_t number; /* the kernel's number of the id */
	bool free; /* it was destroyed */
	bool has_event; /* other than a connection request, read before heirs_start() */
	struct ucm_addresses addresses;
	enum rdma_port_space listener_ps; /* of a listener that heirs_end() has ended; else 0 */
	struct fabric_id *id; /* NULL: nobody has claimed it */
};

struct heirs {
	int file;
	uint32_t *reading; /* see fabric_note_reading() */
	struct heir **heirs; /* sorted by NUMBER */
	size_t n, n_allocated;
	struct heir_places unclaimed; /* by their addresses */
	struct heir_places listeners; /* that heirs_end() has ended, by port */
	/* events that were read before heirs_start() */
	struct ucm_event *early;
	size_t n_early, n_early_allocated;
	size_t next_request; /* the events before this one have no connection request any more */
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
	list_init(&heir->unclaimed);
	list_init(&heir->listener);
	memmove(&heirs->heirs[i + 1], &heirs->heirs[i], (heirs->n - i) * sizeof(*heirs->heirs));
	heirs->heirs[i] = heir;
	heirs->n++;
	/* If its device is gone, it has no addresses, nobody claims it, and it is ended. */
	ucm_query_addresses(heirs->file, number, &heir->addresses);
	return heir_places_add(&heirs->unclaimed, &heir->addresses.local, &heir->addresses.peer,
			       &heir->unclaimed);
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
	struct heir *heir;

	if (heirs->n_early == heirs->n_early_allocated) {
		size_t n = heirs->n_early_allocated ? 2 * heirs->n_early_allocated : 64;
		struct ucm_event *more = realloc(heirs->early, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		heirs->early = more;
		heirs->n_early_allocated = n;
	}
	heirs->early[heirs->n_early++] = *event;
	if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) {
		heir = find(heirs, event->id);
		if (heir)
			heir->has_event = true;
	}
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
	heir_places_done(&heirs->unclaimed);
	heir_places_done(&heirs->listeners);
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

/* The first one of those that nobody has claimed. *RET_ONLY: there is no other one. */
static struct heir *find_unclaimed(const struct heirs *heirs, const struct sockaddr_storage *local,
				   const struct sockaddr_storage *peer, bool *ret_only)
{
	const struct list *head = heir_places_find(&heirs->unclaimed, local, peer);

	if (!head || list_is_empty(head))
		return NULL;
	if (ret_only)
		*ret_only = head->next == head->prev;
	return container_of(list_first(head), struct heir, unclaimed);
}

static bool has_event(struct heirs *heirs, const struct heir *heir)
{
	read_early(heirs);
	return heir->has_event;
}

bool heirs_has_begun(struct heirs *heirs, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *peer)
{
	bool only = false;
	const struct heir *heir = find_unclaimed(heirs, local, peer, &only);
	struct ibv_qp_attr attr;
	int mask;

	return heir && only &&
	       (ucm_qp_attr(heirs->file, heir->number, IBV_QPS_RTS, &attr, &mask) == 0 ||
		has_event(heirs, heir));
}

struct heir *heirs_claim(struct heirs *heirs, const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer, struct fabric_id *id)
{
	struct heir *heir = find_unclaimed(heirs, local, peer, NULL);

	if (heir)
		heir_claim(heir, id);
	return heir;
}

void heirs_end(struct heirs *heirs, enum rdma_port_space ps, const struct sockaddr_storage *local)
{
	const struct sockaddr_storage none = { .ss_family = AF_UNSPEC };
	struct heir *heir = find_unclaimed(heirs, local, &none, NULL);

	if (!heir)
		return;
	/* Without memory, its requests are of no known listener, and end. */
	if (heir_places_add_port(&heirs->listeners, &heir->addresses.local, &heir->listener) == 0)
		heir->listener_ps = ps;
	read_early(heirs);
	/* The kernel destroys a listener without waiting for a peer, and the address has to be free afterwards. */
	ucm_destroy(heirs->file, heir->number);
	heir_forget(heir);
}

struct heir *heirs_next_request(struct heirs *heirs, struct ucm_event *ret)
{
	while (heirs->next_request < heirs->n_early) {
		struct ucm_event *event = &heirs->early[heirs->next_request++];
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
	list_remove(&heir->unclaimed);
}

static bool listens_at(const struct heir *heir, const struct sockaddr_storage *address)
{
	const struct sockaddr *local = (const struct sockaddr *)&heir->addresses.local;
	const struct sockaddr *other = (const struct sockaddr *)address;

	return addr_is_wildcard(local) || addr_is_same_host(local, other);
}

enum rdma_port_space heir_get_listener_ps(const struct heir *heir)
{
	const struct list *l,
		*listeners = heir_places_find_port(&heir->heirs->listeners, &heir->addresses.local);
	enum rdma_port_space ps = 0;

	if (!listeners)
		return 0;
	list_for_each(l, listeners) {
		const struct heir *listener = container_of(l, struct heir, listener);

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
	list_remove(&heir->unclaimed);
}

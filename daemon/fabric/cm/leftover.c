/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/cm/leftover.h"
#include "fabric/cm/leftover_places.h"
#include "fabric/cm/ucm.h"
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

struct leftover {
	struct leftovers *leftovers;
	struct list unclaimed; /* of leftovers.unclaimed */
	struct list listener; /* of leftovers.listeners */
	uint32_t number; /* the kernel's number of the id */
	bool free; /* it was destroyed */
	bool has_event; /* other than a connection request, read before leftovers_start() */
	struct ucm_addresses addresses;
	enum rdma_port_space listener_ps; /* of a listener that leftovers_end() has ended; else 0 */
	struct fabric_id *id; /* NULL: nobody has claimed it */
};

struct leftovers {
	int file;
	uint32_t *reading; /* see fabric_note_reading() */
	struct leftover **leftovers; /* sorted by NUMBER */
	size_t n, n_allocated;
	struct leftover_places unclaimed; /* by their addresses */
	struct leftover_places listeners; /* that leftovers_end() has ended, by port */
	/* events that were read before leftovers_start() */
	struct ucm_event *early;
	size_t n_early, n_early_allocated;
	size_t next_request; /* the events before this one have no connection request any more */
	sd_event_source *io;
	leftover_event_fn on_event;
	void *userdata;
};

/* The position of the first leftover id whose number is not less than NUMBER. */
static size_t position(const struct leftovers *leftovers, uint32_t number)
{
	return LOWER_BOUND(i, leftovers->n, leftovers->leftovers[i]->number < number);
}

static struct leftover *find(const struct leftovers *leftovers, uint32_t number)
{
	size_t i = position(leftovers, number);

	return i < leftovers->n && leftovers->leftovers[i]->number == number ?
		       leftovers->leftovers[i] :
		       NULL;
}

static int add(struct leftovers *leftovers, uint32_t number)
{
	size_t i = position(leftovers, number);
	struct leftover *leftover;

	if (leftovers->n == leftovers->n_allocated) {
		size_t n = leftovers->n_allocated ? 2 * leftovers->n_allocated : 256;
		struct leftover **more = realloc(leftovers->leftovers, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		leftovers->leftovers = more;
		leftovers->n_allocated = n;
	}
	leftover = calloc(1, sizeof(*leftover));
	if (!leftover)
		return -ENOMEM;
	leftover->leftovers = leftovers;
	leftover->number = number;
	list_init(&leftover->unclaimed);
	list_init(&leftover->listener);
	memmove(&leftovers->leftovers[i + 1], &leftovers->leftovers[i],
		(leftovers->n - i) * sizeof(*leftovers->leftovers));
	leftovers->leftovers[i] = leftover;
	leftovers->n++;
	/* If its device is gone, it has no addresses, nobody claims it, and it is ended. */
	ucm_query_addresses(leftovers->file, number, &leftover->addresses);
	return leftover_places_add(&leftovers->unclaimed, &leftover->addresses.local,
				   &leftover->addresses.peer, &leftover->unclaimed);
}

static int move_all(struct leftovers *leftovers, const int *files, size_t n_files,
		    size_t n_expected)
{
	unsigned misses = 0;

	for (uint32_t number = 0;
	     misses < (leftovers->n < n_expected ? MISSES_MAX : MISSES_MAX_IF_COMPLETE); number++) {
		bool moved = false;
		int r = 0;

		for (size_t i = 0; i < n_files && !moved; i++)
			moved = ucm_move(leftovers->file, files[i], number) == 0;
		misses = moved ? 0 : misses + 1;
		if (moved)
			r = add(leftovers, number);
		if (r < 0)
			return r;
	}
	return 0;
}

static int keep_event(struct leftovers *leftovers, const struct ucm_event *event)
{
	struct leftover *leftover;

	if (leftovers->n_early == leftovers->n_early_allocated) {
		size_t n = leftovers->n_early_allocated ? 2 * leftovers->n_early_allocated : 64;
		struct ucm_event *more = realloc(leftovers->early, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		leftovers->early = more;
		leftovers->n_early_allocated = n;
	}
	leftovers->early[leftovers->n_early++] = *event;
	if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) {
		leftover = find(leftovers, event->id);
		if (leftover)
			leftover->has_event = true;
	}
	return 0;
}

/*
 * Reads the events that wait. Those of a listener have to be read before it is destroyed, because the kernel destroys
 * the requests that wait together with it.
 */
static int read_early(struct leftovers *leftovers)
{
	struct ucm_event event;
	int r;

	while ((r = ucm_get_event(leftovers->file, &event)) == 0) {
		if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST && !find(leftovers, event.id))
			r = add(leftovers, event.id);
		if (r == 0)
			r = keep_event(leftovers, &event);
		if (r < 0)
			return r;
	}
	return r == -EAGAIN ? 0 : r;
}

DEFINE_CLEANUP(struct leftovers *, leftovers_free)

int leftovers_new(struct leftovers **ret, uint32_t *reading)
{
	_cleanup_(leftovers_freep) struct leftovers *leftovers = calloc(1, sizeof(*leftovers));

	if (!leftovers)
		return -ENOMEM;
	leftovers->reading = reading;
	leftovers->file = ucm_open();
	if (leftovers->file < 0)
		return leftovers->file;
	*ret = TAKE_PTR(leftovers);
	return 0;
}

int leftovers_take(struct leftovers *leftovers, const int *files, size_t n_files, size_t n_expected)
{
	int r = move_all(leftovers, files, n_files, n_expected);

	return r < 0 ? r : read_early(leftovers);
}

struct leftovers *leftovers_free(struct leftovers *leftovers)
{
	if (!leftovers)
		return NULL;
	sd_event_source_disable_unref(leftovers->io);
	closep(&leftovers->file);
	leftover_places_done(&leftovers->unclaimed);
	leftover_places_done(&leftovers->listeners);
	for (size_t i = 0; i < leftovers->n; i++)
		free(leftovers->leftovers[i]);
	free(leftovers->leftovers);
	free(leftovers->early);
	free(leftovers);
	return NULL;
}

int leftovers_get_file(const struct leftovers *leftovers)
{
	return leftovers->file;
}

/* The first one of those that nobody has claimed. *RET_ONLY: there is no other one. */
static struct leftover *find_unclaimed(const struct leftovers *leftovers,
				       const struct sockaddr_storage *local,
				       const struct sockaddr_storage *peer, bool *ret_only)
{
	const struct list *head = leftover_places_find(&leftovers->unclaimed, local, peer);

	if (!head || list_is_empty(head))
		return NULL;
	if (ret_only)
		*ret_only = head->next == head->prev;
	return container_of(list_first(head), struct leftover, unclaimed);
}

static bool has_event(struct leftovers *leftovers, const struct leftover *leftover)
{
	read_early(leftovers);
	return leftover->has_event;
}

bool leftovers_has_begun(struct leftovers *leftovers, const struct sockaddr_storage *local,
			 const struct sockaddr_storage *peer)
{
	bool only = false;
	const struct leftover *leftover = find_unclaimed(leftovers, local, peer, &only);
	struct ibv_qp_attr attr;
	int mask;

	return leftover && only &&
	       (ucm_qp_attr(leftovers->file, leftover->number, IBV_QPS_RTS, &attr, &mask) == 0 ||
		has_event(leftovers, leftover));
}

struct leftover *leftovers_claim(struct leftovers *leftovers, const struct sockaddr_storage *local,
				 const struct sockaddr_storage *peer, struct fabric_id *id)
{
	struct leftover *leftover = find_unclaimed(leftovers, local, peer, NULL);

	if (leftover)
		leftover_claim(leftover, id);
	return leftover;
}

void leftovers_end(struct leftovers *leftovers, enum rdma_port_space ps,
		   const struct sockaddr_storage *local)
{
	const struct sockaddr_storage none = { .ss_family = AF_UNSPEC };
	struct leftover *leftover = find_unclaimed(leftovers, local, &none, NULL);

	if (!leftover)
		return;
	/* Without memory, its requests are of no known listener, and end. */
	if (leftover_places_add_port(&leftovers->listeners, &leftover->addresses.local,
				     &leftover->listener) == 0)
		leftover->listener_ps = ps;
	read_early(leftovers);
	/* The kernel destroys a listener without waiting for a peer, and the address has to be free afterwards. */
	ucm_destroy(leftovers->file, leftover->number);
	leftover_forget(leftover);
}

struct leftover *leftovers_next_request(struct leftovers *leftovers, struct ucm_event *ret)
{
	while (leftovers->next_request < leftovers->n_early) {
		struct ucm_event *event = &leftovers->early[leftovers->next_request++];
		struct leftover *leftover;

		if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		*ret = *event;
		event->type = -1;
		leftover = find(leftovers, ret->id);
		if (leftover && !leftover->free)
			return leftover;
	}
	return NULL;
}

/* What nobody has claimed has no events: it was ended. */
static void deliver(struct leftovers *leftovers, const struct ucm_event *event)
{
	struct leftover *leftover = find(leftovers, event->id);

	if (event->type >= 0 && leftover && leftover->id)
		leftovers->on_event(leftovers->userdata, leftover->id, event);
}

int leftovers_poll(struct leftovers *leftovers)
{
	struct ucm_event event;
	int r = 0;

	for (unsigned i = 0; i < BATCH && r == 0; i++) {
		*leftovers->reading = 1;
		r = ucm_get_event(leftovers->file, &event);
		if (r == 0)
			deliver(leftovers, &event);
		*leftovers->reading = 0;
	}
	return r;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	int r = leftovers_poll(userdata);

	if (r == 0 || r == -EAGAIN || r == -EINTR)
		return 0;
	log_error("Cannot read the events of connections that were taken over: %s. They are no "
		  "longer reported.",
		  strerror(-r));
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

struct leftover *leftovers_next_unclaimed(const struct leftovers *leftovers, size_t *position)
{
	while (*position < leftovers->n) {
		struct leftover *leftover = leftovers->leftovers[(*position)++];

		if (!leftover->id && !leftover->free)
			return leftover;
	}
	return NULL;
}

int leftovers_start(struct leftovers *leftovers, sd_event *loop, leftover_event_fn on_event,
		    void *userdata)
{
	leftovers->on_event = on_event;
	leftovers->userdata = userdata;
	for (size_t i = 0; i < leftovers->n_early; i++)
		deliver(leftovers, &leftovers->early[i]);
	leftovers->n_early = 0;
	return sd_event_add_io(loop, &leftovers->io, leftovers->file, EPOLLIN, on_io, leftovers);
}

struct fabric_id *leftovers_next(const struct leftovers *leftovers, size_t *position)
{
	while (*position < leftovers->n) {
		struct fabric_id *id = leftovers->leftovers[(*position)++]->id;

		if (id)
			return id;
	}
	return NULL;
}

void leftover_claim(struct leftover *leftover, struct fabric_id *id)
{
	leftover->id = id;
	list_remove(&leftover->unclaimed);
}

static bool listens_at(const struct leftover *leftover, const struct sockaddr_storage *address)
{
	const struct sockaddr *local = (const struct sockaddr *)&leftover->addresses.local;
	const struct sockaddr *other = (const struct sockaddr *)address;

	return addr_is_wildcard(local) || addr_is_same_host(local, other);
}

enum rdma_port_space leftover_get_listener_ps(const struct leftover *leftover)
{
	const struct list *l, *listeners = leftover_places_find_port(
				      &leftover->leftovers->listeners, &leftover->addresses.local);
	enum rdma_port_space ps = 0;

	if (!listeners)
		return 0;
	list_for_each(l, listeners) {
		const struct leftover *listener = container_of(l, struct leftover, listener);

		if (!listens_at(listener, &leftover->addresses.local))
			continue;
		if (ps != 0 && ps != listener->listener_ps)
			return 0;
		ps = listener->listener_ps;
	}
	return ps;
}

const struct ucm_addresses *leftover_get_addresses(const struct leftover *leftover)
{
	return &leftover->addresses;
}

int leftover_get_file(const struct leftover *leftover)
{
	return leftover->leftovers->file;
}

uint32_t leftover_get_number(const struct leftover *leftover)
{
	return leftover->number;
}

void leftover_forget(struct leftover *leftover)
{
	leftover->free = true;
	leftover->id = NULL;
	list_remove(&leftover->unclaimed);
}

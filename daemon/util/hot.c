/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "proto/timer.h"
#include "util/hot.h"
#include "util/list.h"
#include "util/util.h"

#define LATER_MS 1

struct hot {
	struct list link; /* all */
	unsigned n_refs;
	sd_event *loop;
	int epoll;
	sd_event_source *guest; /* NULL: the set is the host */
	uint64_t turn;
	struct list later; /* hot_later.link */
	uint64_t later_turn; /* the turn in which they are called at the latest */
	/* what is handled in this turn: removed ones become NULL */
	struct epoll_event ready[HOT_MAX];
	int n_ready;
};

static struct list all = { &all, &all };

/* Returns whether the loop is ready. It has its turn even if the others wait for the next one. */
static bool handle(struct hot *hot)
{
	bool loop = false, go_on = true;

	hot->turn++;
	for (int i = 0; i < hot->n_ready; i++) {
		struct hot_io *io = hot->ready[i].data.ptr;

		if (io == (struct hot_io *)hot)
			loop = true;
		else if (io && (go_on || io->is_edge))
			go_on = io->on_ready(io, hot->ready[i].events) && go_on;
	}
	hot->n_ready = 0;
	return loop;
}

static int on_guest(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct hot *hot = userdata;

	hot->n_ready = epoll_wait(hot->epoll, hot->ready, HOT_MAX, 0);
	handle(hot);
	return 0;
}

static struct hot *hot_free(struct hot *hot)
{
	list_remove(&hot->link);
	sd_event_source_disable_unref(hot->guest);
	closep(&hot->epoll);
	sd_event_unref(hot->loop);
	free(hot);
	return NULL;
}

DEFINE_CLEANUP(struct hot *, hot_unref)

static struct hot *hot_new(sd_event *loop)
{
	_cleanup_(hot_unrefp) struct hot *hot = calloc(1, sizeof(*hot));

	if (!hot)
		return NULL;
	list_init(&hot->link);
	hot->n_refs = 1;
	hot->loop = sd_event_ref(loop);
	hot->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (hot->epoll < 0 ||
	    sd_event_add_io(loop, &hot->guest, hot->epoll, EPOLLIN, on_guest, hot) < 0)
		return NULL;
	list_insert(&all, &hot->link);
	list_init(&hot->later);
	return TAKE_PTR(hot);
}

struct hot *hot_ref(sd_event *loop)
{
	struct list *l;

	list_for_each(l, &all) {
		struct hot *hot = container_of(l, struct hot, link);

		if (hot->loop == loop) {
			hot->n_refs++;
			return hot;
		}
	}
	return hot_new(loop);
}

struct hot *hot_unref(struct hot *hot)
{
	return hot && --hot->n_refs == 0 ? hot_free(hot) : NULL;
}

static int control(const struct hot *hot, int op, int fd, uint32_t events, void *object)
{
	struct epoll_event event = { .events = events, .data.ptr = object };

	return epoll_ctl(hot->epoll, op, fd, &event) < 0 ? -errno : 0;
}

int hot_add(struct hot *hot, struct hot_io *io, int fd, uint32_t events, hot_fn on_ready)
{
	int r = control(hot, EPOLL_CTL_ADD, fd, events, io);

	if (r == 0)
		*io = (struct hot_io){
			.hot = hot,
			.fd = fd,
			.on_ready = on_ready,
			.is_edge = events & EPOLLET,
		};
	return r;
}

int hot_change(struct hot_io *io, uint32_t events)
{
	return control(io->hot, EPOLL_CTL_MOD, io->fd, events, io);
}

void hot_remove(struct hot_io *io)
{
	struct hot *hot = io->hot;

	if (!hot)
		return;
	io->hot = NULL;
	control(hot, EPOLL_CTL_DEL, io->fd, 0, NULL);
	for (int i = 0; i < hot->n_ready; i++)
		if (hot->ready[i].data.ptr == io)
			hot->ready[i].data.ptr = NULL;
}

uint64_t hot_get_turn(const struct hot *hot)
{
	return hot->turn;
}

void hot_next_turn(struct hot *hot)
{
	hot->turn++;
}

/* Of a host, the loop can be what is ready. That is not told apart, and does no harm: who asks only waits one turn longer. */
bool hot_is_ready(const struct hot *hot)
{
	struct pollfd p = { .fd = hot->epoll, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

void hot_later(struct hot *hot, struct hot_later *later)
{
	if (hot->guest) {
		later->call(later);
		return;
	}
	if (!list_is_empty(&later->link))
		return;
	if (list_is_empty(&hot->later))
		hot->later_turn = hot->turn + HOT_LATER_TURNS;
	list_insert(&hot->later, &later->link);
}

void hot_not_later(struct hot_later *later)
{
	list_remove(&later->link);
}

static void call_later(struct hot *hot)
{
	struct list *l;

	while ((l = list_first(&hot->later))) {
		struct hot_later *later = container_of(l, struct hot_later, link);

		list_remove(l);
		later->call(later);
	}
}

int hot_be_host(struct hot *hot)
{
	hot->guest = sd_event_source_disable_unref(hot->guest);
	timer_be_exact();
	return control(hot, EPOLL_CTL_ADD, sd_event_get_fd(hot->loop), EPOLLIN, hot);
}

/* Gives sd-event one turn, in which it handles one source. Returns whether there was one. */
static int run_loop(struct hot *hot)
{
	int r = sd_event_wait(hot->loop, 0);

	return r > 0 ? sd_event_dispatch(hot->loop) : r;
}

/*
 * sd-event stays armed over any number of turns of the set: it is told of nothing that happens there but of timers. After
 * its own turn it is armed anew.
 */
int hot_run(struct hot *hot, int timeout_ms)
{
	bool loop, any;
	int r;

	if (sd_event_get_state(hot->loop) != SD_EVENT_ARMED) {
		r = sd_event_prepare(hot->loop);
		if (r < 0)
			return r;
		/*
		 * A source is pending, without a descriptor or a time. The set has its turn all the same: such a source
		 * can be pending again and again until nothing of the set is ready.
		 */
		if (r > 0) {
			hot->n_ready = epoll_wait(hot->epoll, hot->ready, HOT_MAX, 0);
			handle(hot);
			return sd_event_dispatch(hot->loop);
		}
		timer_was_started();
	}
	if (!list_is_empty(&hot->later) && timeout_ms != 0)
		timeout_ms = LATER_MS;
	hot->n_ready = epoll_wait(hot->epoll, hot->ready, HOT_MAX, timeout_ms);
	if (hot->n_ready < 0)
		return errno == EINTR ? 0 : -errno;
	any = hot->n_ready > 0;
	if (!any || hot->turn >= hot->later_turn)
		call_later(hot);
	loop = handle(hot);
	if (!loop && !timer_was_started())
		return any;
	r = run_loop(hot);
	return r < 0 ? r : 1;
}

int hot_get_fd(const struct hot *hot)
{
	return hot->epoll;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sys/epoll.h>

#include "core/core.h"
#include "proto/packet.h"
#include "rpc/peer.h"
#include "rpc/peers.h"
#include "util/util.h"

#define BATCH 64 /* at most this many events of clients are handled in one turn of the loop */
#define REAPED_A_TURN 16 /* at most this many ending sessions are handled in one turn */
#define IDS_A_TURN 256 /* at most this many ids of one ending session are freed in one turn */

#define NOBODY ((uid_t)-1)

void peers_refuse(struct closing *closing, int sock)
{
	/* This cannot fail, because peers.refused is bound to the same user and class. */
	closing_bind(closing, NOBODY, CLOSER_STRANGER);
	closing_add(closing, sock);
	closing_go(closing);
}

int peers_make_closings(struct peers *peers)
{
	int r = 0;

	if (!peers->next)
		r = closing_new(&peers->next, core_get_closer(peers->core), 1);
	if (r == 0 && !peers->room)
		r = closing_new(&peers->room, core_get_closer(peers->core), PACKET_ALL_FDS);
	return r;
}

void peers_resume_all(struct peers *peers)
{
	struct list *l;

	peers->has_no_room = false;
	list_for_each(l, &peers->list)
		peers->ops->resume(container_of(l, struct peer, link));
}

/*
 * One source of the loop, an epoll descriptor, serves all clients. If each client had a source, sd-event
 * would process all ready sources in each turn, but dispatch only one of them: with many clients each turn
 * would be long. No peer in READY has been freed, because a peer that ends is freed in a turn of its own.
 */
static int on_peers(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	const struct peers *peers = userdata;
	struct epoll_event ready[BATCH];
	int n;

	(void)source;
	(void)events;
	n = epoll_wait(fd, ready, BATCH, 0);
	for (int i = 0; i < n; i++)
		peers->ops->on_io(ready[i].data.ptr, ready[i].events);
	return 0;
}

static void run_soon(sd_event_source *source)
{
	sd_event_source_set_time_relative(source, 0);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/*
 * Frees the peers that end, in slices, because a session can have thousands of ids. The source is a timer
 * that is due at once: the loop dispatches a timer after the clients that are ready already, but would dispatch a
 * deferred source before them again and again.
 */
static int on_reaper(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct peers *peers = userdata;
	struct list *l;

	(void)usec;
	for (unsigned i = 0; i < REAPED_A_TURN && (l = list_first(&peers->reaping)); i++)
		if (!peers->ops->reap(container_of(l, struct peer, reaping), IDS_A_TURN)) {
			list_remove(l);
			list_insert(&peers->reaping, l);
			break;
		}
	if (!list_is_empty(&peers->reaping))
		run_soon(source);
	return 0;
}

void peers_reap(struct peers *peers, struct peer *peer)
{
	list_remove(&peer->reaping);
	list_insert(&peers->reaping, &peer->reaping);
	if (sd_event_source_get_enabled(peers->reaper, NULL) == 0)
		run_soon(peers->reaper);
}

/* Resumes one peer per turn, because each one processes a request. */
static int on_resumed(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct peers *peers = userdata;
	struct list *l = list_first(&peers->resumed);

	(void)usec;
	if (l) {
		list_remove(l);
		peers->ops->go_on(container_of(l, struct peer, resumed));
	}
	if (!list_is_empty(&peers->resumed))
		run_soon(source);
	return 0;
}

void peers_resume(struct peers *peers, struct peer *peer)
{
	list_remove(&peer->resumed);
	list_insert(&peers->resumed, &peer->resumed);
	if (sd_event_source_get_enabled(peers->resumer, NULL) == 0)
		run_soon(peers->resumer);
}

int peers_await(struct peers *peers, struct peer *peer, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = peer };
	int op = !peer->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (peer->events == events)
		return 0;
	if (epoll_ctl(peers->epoll, op, peer->sock, &event) < 0)
		return -errno;
	peer->events = events;
	return 0;
}

int peers_add(struct peers *peers, struct peer *peer, uid_t uid)
{
	list_insert(&peers->list, &peer->link);
	return lobby_enter(&peers->lobby, &peer->place, uid);
}

void peers_remove(struct peers *peers, struct peer *peer)
{
	lobby_leave(&peer->place);
	list_remove(&peer->link);
	/* Accept clients again: the descriptors and the memory of PEER are free now, or will be soon. */
	peers->ops->set_accepting(peers->userdata, true);
	if (peers->has_no_room)
		peers_resume_all(peers);
}

struct closing *peers_get_room(struct peers *peers)
{
	if (peers_make_closings(peers) == 0)
		return TAKE_PTR(peers->room);
	/* The peers that cannot be read now are read again after a second, or when another peer was freed. */
	peers->has_no_room = true;
	peers->ops->set_accepting(peers->userdata, false);
	return NULL;
}

void peers_put_room(struct peers *peers, struct closing *room)
{
	if (peers->room)
		closing_free(room);
	else
		peers->room = room;
}

int peers_init(struct peers *peers, sd_event *loop, struct core *core, struct control *control,
	       const struct peers_ops *ops, void *userdata)
{
	struct closer *closer = core_get_closer(core);
	int r;

	peers->core = core;
	peers->control = control;
	peers->ops = ops;
	peers->userdata = userdata;
	peers->epoll = -1;
	list_init(&peers->list);
	list_init(&peers->resumed);
	list_init(&peers->reaping);
	lobby_init(&peers->lobby);
	r = flights_init(&peers->flights, loop);
	if (r < 0)
		return r;
	r = closing_new(&peers->refused, closer, 0);
	if (r == 0)
		r = closing_bind(peers->refused, NOBODY, CLOSER_STRANGER);
	if (r < 0)
		return r;

	peers->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (peers->epoll < 0)
		return -errno;
	r = sd_event_add_io(loop, &peers->io, peers->epoll, EPOLLIN, on_peers, peers);
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &peers->reaper, CLOCK_MONOTONIC, 0, 1,
					       on_reaper, peers);
	if (r >= 0)
		r = sd_event_source_set_enabled(peers->reaper, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &peers->resumer, CLOCK_MONOTONIC, 0, 1,
					       on_resumed, peers);
	if (r >= 0)
		r = sd_event_source_set_enabled(peers->resumer, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

void peers_done(struct peers *peers)
{
	flights_done(&peers->flights);
	lobby_done(&peers->lobby);
	closing_free(peers->next);
	closing_free(peers->room);
	closing_free(peers->refused);
	sd_event_source_disable_unref(peers->io);
	sd_event_source_disable_unref(peers->resumer);
	sd_event_source_disable_unref(peers->reaper);
	closep(&peers->epoll);
}

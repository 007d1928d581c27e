/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/epoll.h>

#include "core/object/core.h"
#include "proto/packet.h"
#include "proto/timer.h"
#include "rpc/peer.h"
#include "rpc/peers.h"
#include "util/hot.h"
#include "util/util.h"

#define PACKETS_A_TURN 8 /* at most this many packets of one client are read in one turn */
#define SINGLES 32 /* packets that are read one in a turn after a second one was missing */
#define UNPAUSED_A_TURN 64 /* at most this many clients are read again in one turn */
#define UNREAD_MAX 512 /* by default the kernel queues some 280 small packets */

static const struct owner nobody = { .uid = (uid_t)-1, .range = OWNER_ALONE };

void peers_refuse(struct closing *closing, int sock)
{
	/* This cannot fail, because peers.refused is bound to the same user and class. */
	closing_bind(closing, nobody, CLOSER_STRANGER);
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

static int select_events(struct peer *peer, uint32_t events)
{
	int r = peer->selected == events ? 0 : hot_change(&peer->io, events);

	if (r == 0)
		peer->selected = events;
	return r;
}

/*
 * A client that was ready in the turn before, too, may have sent several packets; to read them now costs no epoll_wait() for
 * each. But most clients ask and wait, and a second read finds nothing: then it is not tried again for a while. The packets
 * count in the owner's budget as any others.
 */
static void serve_ready(struct peer *peer, uint32_t events)
{
	uint64_t turn = hot_get_turn(peer->peers->hot);
	bool is_busy = turn - peer->read_in <= 1;
	unsigned n = 0;

	peer->read_in = turn;
	if (!peer_on_io(peer, events) || !is_busy)
		return;
	if (peer->n_singles > 0) {
		peer->n_singles--;
		return;
	}
	while (++n < PACKETS_A_TURN && peer->events == EPOLLIN && turns_may_go(&peer->turn) &&
	       !turns_is_used_up(&peer->turn))
		if (!peer_on_io(peer, EPOLLIN)) {
			peer->n_singles = n == 1 ? SINGLES : 0;
			return;
		}
}

/* No other peer that is ready is freed by this, because a peer that ends is freed in a turn of its own. */
static bool on_ready(struct hot_io *io, uint32_t events)
{
	struct peer *peer = container_of(io, struct peer, io);

	if (turns_is_put_off(&peer->turn))
		return true;
	if (peer->selected != peer->events) {
		select_events(peer, peer->events);
		return true;
	}
	if (!turns_may_go(&peer->turn)) {
		/* It is not reported again before its turn. */
		select_events(peer, EPOLLET);
		peer->ready = events;
		turns_put_off(&peer->turn);
		return true;
	}
	serve_ready(peer, events);
	return !turns_is_used_up(&peer->turn);
}

static void serve(struct turn *turn)
{
	struct peer *peer = container_of(turn, struct peer, turn);
	uint32_t ready = peer->ready;

	if (peer->ending) {
		if (!peer_reap(peer))
			turns_put_off(turn);
		return;
	}
	peer->ready = 0;
	if (ready && peer->events) {
		select_events(peer, peer->events);
		peer_on_io(peer, ready);
	}
	if (peer->goes_on) {
		peer->goes_on = false;
		peer_go_on(peer);
	}
	turns_charge(turn, 1);
}

static int on_unpaused(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct peers *peers = userdata;
	struct list *l;

	for (unsigned i = 0; i < UNPAUSED_A_TURN && (l = list_first(&peers->unpaused)); i++) {
		peer_resume(container_of(l, struct peer, pausing));
	}
	if (!list_is_empty(&peers->unpaused))
		timer_start(source, 0);
	return 0;
}

void peers_resume_list(struct peers *peers, struct list *paused)
{
	if (list_is_empty(paused))
		return;
	list_move_all(&peers->unpaused, paused);
	timer_start(peers->unpauser, 0);
}

void peers_resume_all(struct peers *peers)
{
	peers->has_no_room = false;
	peers_resume_list(peers, &peers->paused);
}

int peers_await(struct peers *peers, struct peer *peer, uint32_t events)
{
	int r = 0;

	if (peer->events == events)
		return 0;
	if (!events)
		hot_remove(&peer->io);
	else if (peer->ready)
		r = 0; /* serve() selects them */
	else if (!peer->events)
		r = hot_add(peers->hot, &peer->io, peer->sock, events, on_ready);
	/* Few clients send more while their request waits; on_ready() selects other events when one does. */
	else if (events != EPOLLRDHUP || peer->selected != EPOLLIN)
		r = select_events(peer, events);
	if (r == 0 && (!events || !peer->events))
		peer->selected = events;
	if (r == 0)
		peer->events = events;
	return r;
}

int peers_add(struct peers *peers, struct peer *peer, struct owner owner)
{
	int r = turns_join(&peers->turns, &peer->turn, owner);

	list_insert(&peers->list, &peer->link);
	return r < 0 ? r : newcomers_enter(&peers->newcomers, &peer->place, owner);
}

void peers_remove(struct peers *peers, struct peer *peer)
{
	newcomers_leave(&peer->place);
	turns_leave(&peer->turn);
	list_remove(&peer->link);
	/* Accept clients again: the descriptors and the memory of PEER are free now, or will be soon. */
	peers->set_accepting(peers->userdata, true);
	if (peers->has_no_room)
		peers_resume_all(peers);
}

struct closing *peers_get_room(struct peers *peers)
{
	if (peers_make_closings(peers) == 0)
		return TAKE_PTR(peers->room);
	/* The peers that cannot be read now are read again after a second, or when another peer was freed. */
	peers->has_no_room = true;
	peers->set_accepting(peers->userdata, false);
	return NULL;
}

void peers_put_room(struct peers *peers, struct closing *room)
{
	if (peers->room)
		closing_free(room);
	else
		peers->room = room;
}

bool peers_discard_unread(struct peers *peers, int sock, struct owner owner,
			  enum closer_class class)
{
	for (unsigned i = 0; i < UNREAD_MAX; i++) {
		struct closing *room = NULL;
		int fds[PACKET_ALL_FDS];
		size_t n_fds;
		int r;

		if (!closer_is_behind(core_get_closer(peers->core), owner) &&
		    !account_is_full(core_get_account(peers->core), ACCOUNT_FDS))
			room = peers_get_room(peers);
		if (!room)
			return false;
		r = packet_discard(sock, fds, &n_fds);
		if (n_fds == 0) {
			peers_put_room(peers, room);
		} else {
			closing_bind(room, owner, class);
			for (size_t k = 0; k < n_fds; k++)
				closing_add(room, fds[k]);
			closing_go(room);
		}
		if (r <= 0)
			return r == 0;
	}
	return false;
}

int peers_init(struct peers *peers, struct core *core, struct control *control,
	       size_t max_queued_bytes, void (*set_accepting)(void *userdata, bool accepting),
	       void *userdata)
{
	struct closer *closer = core_get_closer(core);
	int r;

	peers->core = core;
	peers->control = control;
	peers->max_queued_bytes = max_queued_bytes;
	peers->set_accepting = set_accepting;
	peers->userdata = userdata;
	list_init(&peers->list);
	list_init(&peers->paused);
	list_init(&peers->unpaused);
	newcomers_init(&peers->newcomers);
	r = sent_fds_list_init(&peers->sent_fds_list, core_get_loop(core));
	if (r < 0)
		return r;
	r = closing_new(&peers->refused, closer, 0);
	if (r == 0)
		r = closing_bind(peers->refused, nobody, CLOSER_STRANGER);
	if (r < 0)
		return r;

	peers->hot = hot_ref(core_get_loop(core));
	r = peers->hot ? 0 : -ENOMEM;
	if (r >= 0)
		r = turns_init(&peers->turns, core_get_loop(core), serve);
	if (r >= 0)
		r = timer_new(&peers->unpauser, core_get_loop(core), 1, on_unpaused, peers);
	return r;
}

void peers_done(struct peers *peers)
{
	sent_fds_list_done(&peers->sent_fds_list);
	newcomers_done(&peers->newcomers);
	closing_free(peers->next);
	closing_free(peers->room);
	closing_free(peers->refused);
	peers->hot = hot_unref(peers->hot);
	turns_done(&peers->turns);
	sd_event_source_disable_unref(peers->unpauser);
}

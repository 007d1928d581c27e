/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/object/id.h"
#include "core/object/table.h"
#include "core/rule/restore.h"
#include "core/verbs/conn.h"
#include "core/verbs/linger.h"
#include "core/verbs/session_life.h"
#include "proto/arena.h"
#include "proto/codec.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "proto/timer.h"
#include "rpc/outbox.h"
#include "rpc/peer.h"
#include "rpc/peers.h"
#include "rpc/published.h"
#include "rpc/request.h"
#include "rpc/sending.h"
#include "rpc/sent_fds.h"
#include "takeover/ledger.h"
#include "takeover/socketstore.h"
#include "util/log.h"
#include "util/util.h"

#define HELLO_USEC (10 * 1000000ULL)
/* What is done in one go, and how much of it is one unit of work (turns.h). */
#define FLUSHED_AT_ONCE 32
#define PACKETS_OF_WORK 4
#define REAPED_AT_ONCE 16
#define GO_ON_AT_ONCE 8
#define WORK_OF_A_SESSION 4 /* its end */

void peer_close(struct peer *peer)
{
	if (peer->ending)
		return;
	peer->ending = true;
	peers_await(peer->peers, peer, 0);
	/* Shut down now, so that the client sees the end before its ids are freed and its socket is closed. */
	shutdown(peer->sock, SHUT_RDWR);
	/* It is freed when its turn has come: no caller uses it any more then. */
	turns_put_off(&peer->turn);
}

void peer_hang_up(struct peer *peer)
{
	if (!peer->ending)
		peer->hung_up = true;
	peer_close(peer);
}

void peer_drop(struct peer *peer, const char *why)
{
	struct session *session = peer->session;

	if (!peer->ending) {
		log_limited(session_log_limit(session), LOG_WARNING,
			    "Session %llu, uid %u, pid %d is dropped: %s.",
			    (unsigned long long)session_get_number(session),
			    session_get_uid(session), session_get_pid(session), why);
		session_set_end_reason(session, why);
	}
	peer_close(peer);
}

/* Called when the session is charged, that is, when Hello waits or has succeeded. Idempotent. */
static void leave_newcomers(struct peer *peer)
{
	peer->deadline = sd_event_source_disable_unref(peer->deadline);
	newcomers_leave(&peer->place);
}

/*
 * Called when Hello has succeeded: the peer's class becomes CLOSER_ADMITTED. From Linux 6.16 on, the client can now
 * send descriptors (for ImportId) only if its session has the permit CLIENT, or can get it.
 */
static void let_in(struct peer *peer)
{
	const struct session *session = peer->session;

	peer->is_in = true;
	leave_newcomers(peer);
	/* If memory runs out, the class stays CLOSER_STRANGER. */
	if (closing_bind(peer->closing, peer->owner, CLOSER_ADMITTED) == 0)
		peer->class = CLOSER_ADMITTED;
	packet_pass_fds(peer->sock, session_get_permits(session) &
					    (SESSION_PERMIT_CLIENT | SESSION_PERMIT_CLIENT_LATER));
}

static int send_reply(void *userdata, const Rdmabroker__Frame *frame, int fd,
		      struct failure *failure)
{
	struct peer *peer = userdata;

	/* Do this before the client gets the reply, because its next packet may carry a descriptor. */
	if (!peer->ending && !peer->is_in && peer->progress.stage == REQUEST_SERVING)
		let_in(peer);
	return sending_reply(peer, frame, fd, failure);
}

static void on_session_end(void *userdata, const char *why)
{
	peer_drop(userdata, why);
}

/* Receiving */

/*
 * Makes a thread close the descriptors that came with the last packet. If the packet's request waits and the peer
 * does not end, they stay open. To be called after the request was processed, because the request can change the
 * peer's class: Hello can admit the client by the proof that came with it. closing_bind() cannot fail, because the
 * peer's own closing is bound to the same user and class.
 */
static void close_received(struct peer *peer)
{
	if (!peer->received || ((peer->waiting || peer->behind) && !peer->ending))
		return;
	closing_bind(peer->received, peer->owner, peer->class);
	peer->received = closing_go(peer->received);
}

/* The request that was received is answered, or kept in another place. */
static void record_answered(struct peer *peer)
{
	struct ledger_session *row = session_get_row(peer->session);

	if (!row)
		return;
	ledger_note_set(&row->received, 0);
	ledger_note_set(&row->sent, 0);
	row->repeated = 0;
}

/* The session was released. Whoever adopts it sends a socket. */
static void await_adoption(struct peer *peer)
{
	peer->is_in = false;
	packet_pass_fds(peer->sock, true);
}

/* Only a look-up has no other part of the session's state, so only that can go on beside other requests. */
static bool waits_for_lookup(struct peer *peer, const Rdmabroker__Request *request)
{
	struct failure ignored;
	struct id *id;

	if (!request->quiet || request->first ||
	    (request->op_case != RDMABROKER__REQUEST__OP_CONNECT &&
	     request->op_case != RDMABROKER__REQUEST__OP_ACCEPT))
		return false;
	return table_find(peer->session, request_get_handle(request), &id, &ignored) == 0 &&
	       conn_is_looked_up(id);
}

/* KEPT: REQUEST is carried out again, and was kept; NULL: it was just received, in the packet DATA. */
static void keep(struct peer *peer, const Rdmabroker__Request *request, const uint8_t *data,
		 size_t len, struct kept *kept)
{
	struct session *session = peer->session;
	const struct ledger_session *row = session_get_row(session);
	bool was_received = !kept || !kept->was_aside;

	if (!kept) {
		kept = kept_new(data, len, request_get_handle(request),
				session_get_request(session));
		if (!kept) {
			peer_drop(peer, strerror(ENOMEM));
			return;
		}
		kept->repeated = row && row->repeated;
	}
	if (!waits_for_lookup(peer, request) ||
	    !kept_set_aside(kept, &peer->asides, core_get_ledger(session_get_core(session)),
			    session_get_number(session)))
		peer->waiting = kept;
	else if (was_received)
		record_answered(peer);
	sending_update(peer);
}

static void stay_behind(struct peer *peer, const uint8_t *data, size_t len, bool repeated)
{
	peer->behind = kept_new(data, len, 0, 0);
	if (!peer->behind) {
		peer_drop(peer, strerror(ENOMEM));
		return;
	}
	peer->behind->repeated = repeated;
	sending_update(peer);
}

/* KEPT: it was kept, and is taken over; NULL: it was not. */
static void on_frame(struct peer *peer, const uint8_t *data, size_t len, const int *fds,
		     size_t n_fds, enum request_attempt attempt, struct kept *kept)
{
	enum request_outcome what_next;
	union request_memory memory;
	struct arena arena;
	Rdmabroker__Frame *frame;

	arena_init(&arena, &memory.block, REQUEST_SPACE, /* more_max= */ 0);
	frame = codec_unpack(&arena, data, len);
	if (!frame || frame->body_case != RDMABROKER__FRAME__BODY_REQUEST) {
		kept_free(kept);
		peer_drop(peer, frame ? "it sent a packet that is not a request" :
					"it sent a packet that cannot be decoded");
		return;
	}
	if (n_fds > request_takes_fd(peer->session, frame->request)) {
		peer_drop(peer,
			  "it sent file descriptors with a request that takes none or only one");
		return;
	}
	if (!kept && !list_is_empty(&peer->asides) && kept_blocks(&peer->asides, frame->request)) {
		stay_behind(peer, data, len, attempt == REQUEST_REPEATED);
		return;
	}
	peer->apart = frame->request->apart && session_is_apart(peer->session);
	turns_charge(&peer->turn, request_work(frame->request));
	what_next = request_dispatch(peer->peers->control, peer->session, &peer->progress,
				     frame->request, attempt, n_fds > 0 ? fds[0] : -1, send_reply,
				     peer);
	turns_charge(&peer->turn, session_take_examined(peer->session) / TURNS_RULES);
	switch (what_next) {
	case REQUEST_WAIT:
		leave_newcomers(peer);
		keep(peer, frame->request, data, len, kept);
		return;
	case REQUEST_CLOSE:
		peer_close(peer);
		break;
	case REQUEST_GO_ON:
		/* A quiet Hello gets no reply, so send_reply() has not called let_in(). */
		if (!peer->is_in && peer->progress.stage == REQUEST_SERVING)
			let_in(peer);
		else if (peer->is_in && peer->progress.stage != REQUEST_SERVING)
			await_adoption(peer);
		break;
	}
	/* What was set aside is not the packet that was received last. */
	if (!kept || !kept->was_aside)
		record_answered(peer);
	if (kept)
		kept_free(kept);
}

static void go_on(struct peer *peer)
{
	peer->goes_on = true;
	turns_put_off(&peer->turn);
}

static void on_session_resume(void *userdata, uint32_t handle)
{
	struct peer *peer = userdata;
	struct kept *kept = handle ? kept_find(&peer->asides, handle) : NULL;

	kept = kept ?: peer->waiting;
	if (!kept || peer->ending)
		return;
	kept->goes_on = true;
	go_on(peer);
}

/* The QPs of those that could go on are looked up again, because they have had to wait for another request. */
static void forget_answers(struct list *asides)
{
	struct list *l;

	list_for_each(l, asides) {
		struct kept *kept = container_of(l, struct kept, link);

		if (kept->goes_on)
			kept->number = 0;
	}
}

/* The one that waits comes first: while there is one, no other request of the session has begun. */
static struct kept *take_next(struct peer *peer)
{
	struct kept *kept = peer->waiting ?: kept_next(&peer->asides);

	if (!kept || !kept->goes_on)
		return NULL;
	if (peer->waiting)
		forget_answers(&peer->asides);
	peer->waiting = NULL;
	list_remove(&kept->link);
	kept->goes_on = false;
	return kept;
}

/* The request that has stayed behind is treated as if it were just received. */
static void catch_up(struct peer *peer)
{
	struct kept *kept = TAKE_PTR(peer->behind);

	on_frame(peer, kept->data, kept->len, NULL, 0,
		 kept->repeated ? REQUEST_REPEATED : REQUEST_FIRST, NULL);
	kept_free(kept);
}

void peer_go_on(struct peer *peer)
{
	struct kept *kept = NULL;

	for (unsigned i = 0; i < GO_ON_AT_ONCE && !peer->ending && (kept = take_next(peer)); i++) {
		if (kept->number > 0)
			session_go_on_with(peer->session, kept->number);
		else
			kept->number = session_begin_request(peer->session);
		on_frame(peer, kept->data, kept->len, NULL, 0,
			 kept->was_aside ? REQUEST_ASIDE : REQUEST_AGAIN, kept);
	}
	if (peer->behind && !peer->waiting && !peer->ending)
		catch_up(peer);
	if (!peer->waiting && kept_next(&peer->asides))
		go_on(peer);
	close_received(peer);
	sending_update(peer);
}

static const struct session_ops session_ops = {
	.event = sending_event,
	.wake = sending_wake,
	.forget = sending_forget,
	.end = on_session_end,
	.resume = on_session_resume,
	.notice = sending_notice,
};

/* UNTIL: the list of those who are read again at the same time. */
static void stop_reading(struct peer *peer, struct list *until)
{
	list_remove(&peer->pausing);
	list_insert(until, &peer->pausing);
	sending_update(peer);
}

void peer_resume(struct peer *peer)
{
	list_remove(&peer->pausing);
	sending_update(peer);
}

/* Into the ledger, as far as there is room, and from there into BUF. */
static ssize_t receive_packet(struct peer *peer, uint8_t buf[PACKET_MAX], int *fds,
			      size_t *ret_n_fds)
{
	struct ledger_session *row = session_get_row(peer->session);
	const size_t first = LEDGER_PACKET;
	ssize_t n;

	if (!row)
		return packet_recv(peer->sock, buf, fds, PACKET_ALL_FDS, ret_n_fds);
	n = packet_recv_noted(peer->sock, row->packet, first, buf + first, fds, PACKET_ALL_FDS,
			      ret_n_fds, ledger_note_header(&row->received));
	if (n > 0)
		memcpy(buf, row->packet, (size_t)n < first ? (size_t)n : first);
	else
		record_answered(peer);
	return n;
}

/* Returns whether there was a packet. */
static bool receive(struct peer *peer, struct closing *room)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_ALL_FDS];
	size_t n_fds;
	ssize_t n = receive_packet(peer, buf, fds, &n_fds);

	if (n_fds == 0) {
		peers_put_room(peer->peers, room);
	} else {
		peer->received = room;
		closing_bind(room, peer->owner, peer->class);
	}
	for (size_t i = 0; i < n_fds; i++)
		closing_add(room, fds[i]);
	if (n == -EBADMSG)
		peer_drop(peer, "it sent more file descriptors than can be received");
	else if (n == -EMSGSIZE)
		peer_drop(peer, "it sent a packet of more than 16384 bytes");
	else if (n > 0)
		on_frame(peer, buf, (size_t)n, fds, n_fds, REQUEST_FIRST, NULL);
	else if (n != -EAGAIN)
		peer_hang_up(peer);
	close_received(peer);
	return n > 0;
}

static void flush(struct peer *peer)
{
	int r = outbox_flush(&peer->outbox, peer->sock, FLUSHED_AT_ONCE);

	turns_charge(&peer->turn, r > 0 ? (unsigned)r / PACKETS_OF_WORK : 0);
	sending_changed(peer);
	if (r >= 0)
		r = sending_tell_lost(peer);
	if (r < 0)
		peer_close(peer);
}

bool peer_on_io(struct peer *peer, uint32_t events)
{
	struct closing *room;
	struct peer *full;

	if (peer->ending)
		return false;
	if (events & EPOLLOUT) {
		flush(peer);
		return false;
	}
	if (!(sending_wants(peer) & EPOLLIN)) {
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			peer_hang_up(peer);
		return false;
	}
	full = sending_find_full(peer);
	if (full) {
		stop_reading(peer, &full->unread);
		return false;
	}
	room = closer_is_behind(core_get_closer(session_get_core(peer->session)), peer->owner) ?
		       NULL :
		       peers_get_room(peer->peers);
	if (room)
		return receive(peer, room);
	stop_reading(peer, &peer->peers->paused);
	return false;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	peer_drop(userdata, "it did not send a hello within 10 s");
	return 0;
}

bool peer_reap(struct peer *peer)
{
	unsigned left = session_end(peer->session, REAPED_AT_ONCE),
		 packets = left * PACKETS_OF_WORK;

	if (packets > 0)
		packets = outbox_clear(&peer->outbox, packets);
	turns_charge(&peer->turn, REAPED_AT_ONCE - packets / PACKETS_OF_WORK);
	if (packets == 0)
		return false;
	turns_charge(&peer->turn, WORK_OF_A_SESSION);
	peer_free(peer);
	return true;
}

DEFINE_CLEANUP(struct peer *, peer_free)

/* Keeps the socket for the next process of the daemon. If that fails, the session ends with this process. */
static void keep_socket(struct peer *peer)
{
	const struct identity *identity = session_get_identity(peer->session);
	struct core *core = session_get_core(peer->session);
	int fds[] = { peer->sock, identity->pidfd };
	int r = socketstore_put(core_get_socketstore(core), session_get_number(peer->session), fds,
				identity->pidfd >= 0 ? 2 : 1);

	if (r < 0)
		log_limited(session_log_limit(peer->session), LOG_WARNING,
			    "Session %llu, uid %u will not survive a restart of the broker: %s.",
			    (unsigned long long)session_get_number(peer->session),
			    session_get_uid(peer->session), socketstore_strerror(r));
}

/* ROW: the session of a previous process, with its PIDFD; NULL: a new client of DOOR, with RESTRICTION. */
static int make(struct peer **ret, struct peers *peers, struct closing *closing, int sock,
		enum door door, struct restriction *restriction, const struct ledger_session *row,
		int pidfd)
{
	_cleanup_(peer_freep) struct peer *peer = calloc(1, sizeof(*peer));
	int r;

	if (!peer) {
		peers_refuse(closing, sock);
		closep(&pidfd);
		return -ENOMEM;
	}
	peer->peers = peers;
	peer->sock = sock;
	peer->closing = closing;
	list_init(&peer->link);
	outbox_init(&peer->outbox, peers->max_queued_bytes);
	list_init(&peer->unread);
	list_init(&peer->pausing);
	list_init(&peer->asides);

	r = row ? restore_session(&peer->session, peers->core, sock, pidfd, row, &session_ops,
				  peer) :
		  session_new(&peer->session, peers->core, sock, door, restriction, &session_ops,
			      peer);
	if (r < 0)
		return r;
	peer->outbox.session = peer->session;
	if (row)
		outbox_restore_count(&peer->outbox, row);
	peer->owner = session_get_owner(peer->session);
	/* Let the client send descriptors if a proof can be required at Hello, because the proof is a descriptor. */
	if (identity_doubt(session_get_identity(peer->session)) ||
	    session_is_released(peer->session))
		packet_pass_fds(sock, true);
	r = closing_bind(closing, peer->owner, CLOSER_STRANGER);
	if (r < 0)
		return r;
	closing_add(closing, sock);
	r = peers_add(peers, peer, peer->owner);
	if (r >= 0)
		r = peers_await(peers, peer, EPOLLIN);
	if (r < 0)
		return r;
	keep_socket(peer);
	*ret = TAKE_PTR(peer);
	return 0;
}

int peer_new(struct peers *peers, struct closing *closing, int sock, enum door door,
	     struct restriction *restriction, bool adopts)
{
	_cleanup_(peer_freep) struct peer *peer = NULL;
	int r;

	r = make(&peer, peers, closing, sock, door, restriction, /* row= */ NULL, /* pidfd= */ -1);
	if (r >= 0)
		r = timer_new(&peer->deadline, core_get_loop(peers->core), 0, on_deadline, peer);
	if (r >= 0)
		r = timer_start(peer->deadline, HELLO_USEC);
	if (r < 0)
		return r;
	session_get_identity(peer->session)->adopts = adopts;
	if (adopts)
		packet_pass_fds(sock, true);
	peer = NULL;
	return 0;
}

int peer_restore(struct peer **ret, struct peers *peers, struct closing *closing, int sock,
		 const struct ledger_session *row, int pidfd)
{
	int r = make(ret, peers, closing, sock, DOOR_COMMON, /* restriction= */ NULL, row, pidfd);

	if (r < 0)
		return r;
	/* A released session is charged, so it is not among the newcomers. */
	leave_newcomers(*ret);
	if (session_is_released((*ret)->session))
		return 0;
	(*ret)->progress.stage = REQUEST_SERVING;
	let_in(*ret);
	return 0;
}

void peer_answer_request(struct peer *peer, const Rdmabroker__Request *request, int r)
{
	uint32_t serial = request->serial;
	uint8_t buf[1024];

	peer->apart = request->apart && session_is_apart(peer->session);
	sending_packed_reply(peer, buf,
			     request_pack_reply(serial, peer->outbox.n_sent, r, buf, sizeof(buf)),
			     serial);
}

void peer_repeat_request(struct peer *peer, const uint8_t *packet, size_t len)
{
	struct ledger_session *row = session_get_row(peer->session);

	if (row) {
		row->repeated = 1;
		memcpy(row->packet, packet, len);
		ledger_note_set(&row->received, (uint32_t)len);
	}
	on_frame(peer, packet, len, NULL, 0, REQUEST_REPEATED, NULL);
	sending_update(peer);
}

int peer_restore_aside(struct peer *peer, const uint8_t *packet, size_t len, uint32_t handle)
{
	struct session *session = peer->session;
	struct kept *kept = kept_new(packet, len, handle, /* number= */ 0);

	if (!kept)
		return -ENOMEM;
	kept->repeated = kept->goes_on = true;
	if (!kept_set_aside(kept, &peer->asides, core_get_ledger(session_get_core(session)),
			    session_get_number(session))) {
		kept_free(kept);
		return -ENOSPC;
	}
	go_on(peer);
	return 0;
}

struct peer *peer_free(struct peer *peer)
{
	if (!peer)
		return NULL;
	peer->ending = true;
	sd_event_source_disable_unref(peer->deadline);
	if (peer->session) {
		close_received(peer);
		published_free(session_get_published(peer->session));
		session_set_published(peer->session, NULL);
	}
	outbox_clear(&peer->outbox, UINT_MAX);
	peers_resume_list(peer->peers, &peer->unread);
	sent_fds_hold(peer->sent_fds, false);
	if (peer->session)
		socketstore_drop(core_get_socketstore(session_get_core(peer->session)),
				 session_get_number(peer->session));
	if (!peer->hung_up || !linger_begin(peer->session))
		session_free(peer->session);
	peer->session = NULL;
	peers_await(peer->peers, peer, 0);
	peers_remove(peer->peers, peer);
	list_remove(&peer->pausing);
	kept_free(peer->waiting);
	kept_free(peer->behind);
	while (!list_is_empty(&peer->asides))
		kept_free(container_of(list_first(&peer->asides), struct kept, link));
	if (closing_is_bound(peer->closing)) {
		packet_end(peer->sock);
		/* Empty sockets have closing threads of their own. If memory runs out, the socket keeps its class. */
		if (peers_discard_unread(peer->peers, peer->sock, peer->owner, peer->class))
			closing_bind(peer->closing, peer->owner, CLOSER_EMPTY);
		sent_fds_land(peer->sent_fds, peer->closing);
	} else {
		peers_refuse(peer->closing, peer->sock);
	}
	free(peer);
	return NULL;
}

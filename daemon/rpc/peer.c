/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/admit/watch.h"
#include "core/object/id.h"
#include "core/object/notice.h"
#include "core/rule/restore.h"
#include "core/verbs/linger.h"
#include "core/verbs/session_life.h"
#include "proto/arena.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "rpc/convert.h"
#include "rpc/discard.h"
#include "rpc/event.h"
#include "rpc/outbox.h"
#include "rpc/peer.h"
#include "rpc/peers.h"
#include "rpc/published.h"
#include "rpc/request.h"
#include "rpc/sent_fds.h"
#include "takeover/ledger.h"
#include "takeover/socketstore.h"
#include "util/log.h"
#include "util/owner.h"
#include "util/util.h"

#define HELLO_USEC (10 * 1000000ULL)

/* Disconnects the client. The peer is freed later, by the loop, because the caller still uses it. */
static void peer_close(struct peer *peer)
{
	if (peer->ending)
		return;
	peer->ending = true;
	peers_await(peer->peers, peer, 0);
	/* Shut down now, so that the client sees the end before its ids are freed and its socket is closed. */
	shutdown(peer->sock, SHUT_RDWR);
	peers_reap(peer->peers, peer);
}

/* The client's socket is closed. */
static void peer_hang_up(struct peer *peer)
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

/* Sending */

static uint32_t events_wanted(const struct peer *peer)
{
	if (!outbox_is_empty(&peer->outbox) || peer->n_lost > 0)
		return EPOLLOUT;
	/* While nothing is read, EPOLLRDHUP is selected, so that a hang-up is still noticed. */
	return peer->waiting || peer->paused ? EPOLLRDHUP : EPOLLIN;
}

static void update_io(struct peer *peer)
{
	if (!peer->ending && peers_await(peer->peers, peer, events_wanted(peer)) < 0)
		peer_close(peer);
}

static void on_outbox_change(struct peer *peer)
{
	sent_fds_hold(peer->sent_fds, peer->outbox.n_fds > 0);
	update_io(peer);
}

/* What is being sent is in the ledger, so that the next process knows whether it was. */
static struct mmsghdr *note_sending(struct peer *peer, const struct session_event *event,
				    bool notice)
{
	struct ledger_session *row = session_get_row(peer->session);
	const struct id *id = event ? event->request ?: event->id : NULL;

	if (!row)
		return NULL;
	ledger_note_set(&row->sent, 0);
	row->sent_what = id ? LEDGER_SENT_EVENT : notice ? LEDGER_SENT_NOTHING : LEDGER_SENT_REPLY;
	row->sent_number = id ? id_get_handle(id) : 0;
	return ledger_note_header(&row->sent);
}

static int send_packed(struct peer *peer, const uint8_t *buf, size_t len, int fd, uint64_t serial,
		       const struct session_event *event, bool notice)
{
	struct mmsghdr *note = note_sending(peer, event, notice);
	int r = -EAGAIN;

	if (outbox_is_empty(&peer->outbox))
		r = packet_send_noted(peer->sock, buf, len, &fd, fd >= 0, note);
	if (r != -EAGAIN)
		return r;
	if (notice && !outbox_has_room_for_notice(&peer->outbox, peer->session, len))
		return -EXFULL;
	r = outbox_add(&peer->outbox, peer->session, buf, len, fd, serial, event);
	/* The next process sends it from the ledger. */
	if (r == 0 && note)
		note->msg_len = (unsigned)len;
	on_outbox_change(peer);
	return r;
}

static void drop_on_failure(struct peer *peer, int r)
{
	if (r == -EXFULL)
		peer_drop(peer, "it does not read its replies and events (QueuedBytesPerSession=)");
	else if (r == -EDQUOT)
		peer_drop(peer, "its user's clients do not read their replies and events "
				"(QueuedBytesPerUser=)");
	else if (r == -ECONNRESET)
		peer_hang_up(peer);
	else if (r < 0)
		peer_drop(peer, strerror(-r));
}

/* Called when the session is charged, that is, when Hello waits or has succeeded. Idempotent. */
static void leave_newcomers(struct peer *peer)
{
	peer->deadline = sd_event_source_disable_unref(peer->deadline);
	newcomers_leave(&peer->place);
}

/*
 * Called when Hello has succeeded: the peer's class becomes CLOSER_ADMITTED. From Linux 6.16 on, the client can now
 * send descriptors (for ImportId) only if its session has the permit CLIENT.
 */
static void let_in(struct peer *peer)
{
	const struct session *session = peer->session;

	peer->is_in = true;
	leave_newcomers(peer);
	/* If memory runs out, the class stays CLOSER_STRANGER. */
	if (closing_bind(peer->closing, peer->uid, CLOSER_ADMITTED) == 0)
		peer->class = CLOSER_ADMITTED;
	packet_pass_fds(peer->sock, session_get_permits(session) & SESSION_PERMIT_CLIENT);
}

/*
 * True: REPLY is known to fit into a packet, because it has only numbers and texts of at most 255 bytes. Then its size
 * need not be computed, which takes nearly as long as packing.
 */
static bool is_short(const Rdmabroker__Reply *reply)
{
	switch (reply->result_case) {
	case RDMABROKER__REPLY__RESULT__NOT_SET:
	case RDMABROKER__REPLY__RESULT_HELLO:
	case RDMABROKER__REPLY__RESULT_ID_INFO:
	case RDMABROKER__REPLY__RESULT_QP_ATTR:
	case RDMABROKER__REPLY__RESULT_GET_OPTION:
		return true;
	default:
		return false;
	}
}

/*
 * Sends FRAME, a reply, with the descriptor FD; -1: none. If FD cannot be sent, returns the reason, which the caller
 * then sends as the reply. Otherwise returns 0; other errors end the session.
 */
static int send_reply(void *userdata, const Rdmabroker__Frame *frame, int fd,
		      struct failure *failure)
{
	struct peer *peer = userdata;
	uint8_t buf[PACKET_MAX];
	int r;

	if (peer->ending)
		return 0;
	/* Do this before the client gets the reply, because its next packet may carry a descriptor. */
	if (!peer->is_in && peer->progress.stage == REQUEST_SERVING)
		let_in(peer);
	if (!is_short(frame->reply) && rdmabroker__frame__get_packed_size(frame) > sizeof(buf)) {
		peer_drop(peer, "a reply does not fit into a packet");
		return 0;
	}
	if (fd >= 0) {
		r = sent_fds_add(&peer->sent_fds, &peer->peers->sent_fds_list, peer->session,
				 peer->sock, failure);
		if (r != 0)
			return r;
	}
	r = send_packed(peer, buf, rdmabroker__frame__pack(frame, buf), fd, frame->reply->serial,
			/* event= */ NULL, /* notice= */ false);
	if (r == -ETOOMANYREFS)
		return r;
	drop_on_failure(peer, r);
	return 0;
}

static void on_session_event(void *userdata, const struct session_event *event)
{
	struct peer *peer = userdata;
	uint8_t buf[PACKET_MAX];

	if (peer->ending)
		return;
	/* Queue only one ADDR_CHANGE: the event can come any number of times, always with the same content. */
	if (event->type == RDMA_CM_EVENT_ADDR_CHANGE && outbox_has_event(event->id, event->type))
		return;
	drop_on_failure(peer, send_packed(peer, buf, event_pack(event, buf), /* fd= */ -1,
					  /* serial= */ 0, event, /* notice= */ false));
}

_Static_assert(NOTICE_PACKET_MAX == PACKET_MAX, "a notice is one packet");

static int pack_notice(struct notice_packet *ret, Rdmabroker__Notice *notice, uint64_t n_lost)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	size_t len;

	notice->lost = n_lost;
	frame.body_case = RDMABROKER__FRAME__BODY_NOTICE;
	frame.notice = notice;
	len = rdmabroker__frame__get_packed_size(&frame);
	if (len > sizeof(ret->data))
		return -EMSGSIZE;
	ret->len = rdmabroker__frame__pack(&frame, ret->data);
	return 0;
}

/* PACKET: the packet of NOTICE for all who have lost none before it, which is made if it is empty; NULL: there is none. */
static int send_notice(struct peer *peer, const struct notice *notice, struct notice_packet *packet)
{
	struct notice_packet own;
	int r = 0;

	if (!packet || peer->n_lost > 0)
		packet = &own;
	own.len = 0;
	if (packet->len == 0) {
		struct out_notice out;

		out_notice(&out, notice);
		r = pack_notice(packet, &out.notice, peer->n_lost);
	}
	if (r < 0)
		return r;
	return send_packed(peer, packet->data, packet->len, /* fd= */ -1, /* serial= */ 0,
			   /* event= */ NULL, /* notice= */ true);
}

/* If a notice cannot be sent, it is dropped and counted; the session goes on, unless the client is gone. */
static bool on_session_notice(void *userdata, const struct notice *notice)
{
	struct peer *peer = userdata;
	int r;

	if (peer->ending)
		return true;
	r = send_notice(peer, notice, notice->packet);
	if (r == -ECONNRESET) {
		peer_hang_up(peer);
		return true;
	}
	peer->n_lost = r < 0 ? peer->n_lost + 1 : 0;
	/* If notices were dropped, this selects EPOLLOUT; peer_on_io() reports their number when there is room. */
	update_io(peer);
	return r >= 0;
}

/* If notices were dropped and the queue is empty, reports to the client how many. */
static int tell_lost(struct peer *peer)
{
	Rdmabroker__Notice notice = RDMABROKER__NOTICE__INIT;
	struct notice_packet packet;
	int r;

	if (peer->n_lost == 0 || !outbox_is_empty(&peer->outbox))
		return 0;
	notice.kind = (char *)"lost";
	notice.time_ns = notice_time_ns();
	r = pack_notice(&packet, &notice, peer->n_lost);
	if (r == 0)
		r = send_packed(peer, packet.data, packet.len, /* fd= */ -1, /* serial= */ 0,
				/* event= */ NULL, /* notice= */ true);
	if (r < 0)
		return r;
	peer->n_lost = 0;
	update_io(peer);
	return 0;
}

/* Drops the queued events that the id's charge covers, as the kernel drops the events of an id that is destroyed. */
static void on_session_forget(void *userdata, struct id *id)
{
	struct peer *peer = userdata;

	outbox_forget(id);
	on_outbox_change(peer);
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
	if (!peer->received || (peer->waiting && !peer->ending))
		return;
	closing_bind(peer->received, peer->uid, peer->class);
	peer->received = closing_go(peer->received);
}

/* Keeps the packet of a request that waits; the decoded request is not kept. */
static void wait_for_more(struct peer *peer, const uint8_t *data, size_t len)
{
	peer->waiting = malloc(len);
	if (!peer->waiting) {
		peer_drop(peer, strerror(ENOMEM));
		return;
	}
	memcpy(peer->waiting, data, len);
	peer->waiting_len = len;
	update_io(peer);
}

/* The request that was received is answered. */
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

static void on_frame(struct peer *peer, const uint8_t *data, size_t len, const int *fds,
		     size_t n_fds, enum request_attempt attempt)
{
	enum request_outcome what_next;
	union request_memory memory;
	struct arena arena;
	Rdmabroker__Frame *frame;

	arena_init(&arena, &memory.block, REQUEST_SPACE, /* more_max= */ 0);
	frame = rdmabroker__frame__unpack(&arena.allocator, len, data);
	if (!frame || frame->body_case != RDMABROKER__FRAME__BODY_REQUEST) {
		peer_drop(peer, frame ? "it sent a packet that is not a request" :
					"it sent a packet that cannot be decoded");
		return;
	}
	if (n_fds > request_takes_fd(peer->session, frame->request)) {
		peer_drop(peer,
			  "it sent file descriptors with a request that takes none or only one");
		return;
	}
	turns_charge(&peer->turn, request_work(frame->request));
	what_next = request_dispatch(peer->peers->control, peer->session, &peer->progress,
				     frame->request, attempt, n_fds > 0 ? fds[0] : -1, send_reply,
				     peer);
	turns_charge(&peer->turn, session_take_examined(peer->session) / TURNS_RULES);
	switch (what_next) {
	case REQUEST_WAIT:
		leave_newcomers(peer);
		wait_for_more(peer, data, len);
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
	record_answered(peer);
}

static void on_session_resume(void *userdata)
{
	struct peer *peer = userdata;

	if (peer->waiting && !peer->ending)
		peers_resume(peer);
}

void peer_go_on(struct peer *peer)
{
	_cleanup_free_ uint8_t *data = TAKE_PTR(peer->waiting);

	if (!data || peer->ending)
		return;
	on_frame(peer, data, peer->waiting_len, NULL, 0, REQUEST_AGAIN);
	close_received(peer);
	update_io(peer);
}

static const struct session_ops session_ops = {
	.event = on_session_event,
	.forget = on_session_forget,
	.end = on_session_end,
	.resume = on_session_resume,
	.notice = on_session_notice,
};

static void stop_reading(struct peer *peer)
{
	peer->paused = true;
	peers_pause(peer->peers, peer);
	update_io(peer);
}

void peer_resume(struct peer *peer)
{
	if (!peer->paused)
		return;
	peer->paused = false;
	list_remove(&peer->pausing);
	update_io(peer);
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

static void receive(struct peer *peer, struct closing *room)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_ALL_FDS];
	size_t n_fds;
	ssize_t n = receive_packet(peer, buf, fds, &n_fds);

	if (n_fds == 0) {
		peers_put_room(peer->peers, room);
	} else {
		peer->received = room;
		closing_bind(room, peer->uid, peer->class);
	}
	for (size_t i = 0; i < n_fds; i++)
		closing_add(room, fds[i]);
	if (n == -EBADMSG)
		peer_drop(peer, "it sent more file descriptors than can be received");
	else if (n == -EMSGSIZE)
		peer_drop(peer, "it sent a packet of more than 16384 bytes");
	else if (n > 0)
		on_frame(peer, buf, (size_t)n, fds, n_fds, REQUEST_FIRST);
	else if (n != -EAGAIN)
		peer_hang_up(peer);
	close_received(peer);
}

void peer_on_io(struct peer *peer, uint32_t events)
{
	struct closing *room;
	int r;

	if (peer->ending)
		return;
	if (events & EPOLLOUT) {
		r = outbox_flush(&peer->outbox, peer->sock);
		on_outbox_change(peer);
		if (r == 0)
			r = tell_lost(peer);
		if (r < 0)
			peer_close(peer);
		return;
	}
	if (events_wanted(peer) != EPOLLIN) {
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			peer_hang_up(peer);
		return;
	}
	room = closer_is_behind(core_get_closer(session_get_core(peer->session)), peer->uid) ?
		       NULL :
		       peers_get_room(peer->peers);
	if (room)
		receive(peer, room);
	else
		stop_reading(peer);
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	peer_drop(userdata, "it did not send a hello within 10 s");
	return 0;
}

bool peer_reap(struct peer *peer, unsigned max)
{
	if (!session_end(peer->session, max))
		return false;
	peer_free(peer);
	return true;
}

/* Creation and destruction */

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
static int make(struct peer **ret, struct peers *peers, struct core *core, struct closing *closing,
		int sock, enum door door, size_t max_queued_bytes, const struct ledger_session *row,
		int pidfd, struct restriction *restriction)
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
	outbox_init(&peer->outbox, max_queued_bytes);
	list_init(&peer->reaping);
	list_init(&peer->pausing);

	r = row ? restore_session(&peer->session, core, sock, pidfd, row, &session_ops, peer) :
		  session_new(&peer->session, core, sock, door, restriction, &session_ops, peer);
	if (r < 0)
		return r;
	peer->uid = owner_of(session_get_uid(peer->session));
	/* Let the client send descriptors if a proof can be required at Hello, because the proof is a descriptor. */
	if (identity_doubt(session_get_identity(peer->session)) ||
	    session_is_released(peer->session))
		packet_pass_fds(sock, true);
	r = closing_bind(closing, peer->uid, CLOSER_STRANGER);
	if (r < 0)
		return r;
	closing_add(closing, sock);
	r = peers_add(peers, peer, peer->uid);
	if (r >= 0)
		r = peers_await(peers, peer, EPOLLIN);
	if (r < 0)
		return r;
	keep_socket(peer);
	*ret = TAKE_PTR(peer);
	return 0;
}

int peer_new(struct peers *peers, sd_event *loop, struct core *core, struct closing *closing,
	     int sock, enum door door, size_t max_queued_bytes, struct restriction *restriction,
	     bool adopts)
{
	_cleanup_(peer_freep) struct peer *peer = NULL;
	int r;

	r = make(&peer, peers, core, closing, sock, door, max_queued_bytes, /* row= */ NULL,
		 /* pidfd= */ -1, restriction);
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &peer->deadline, CLOCK_MONOTONIC, HELLO_USEC,
					       0, on_deadline, peer);
	if (r < 0)
		return r;
	session_get_identity(peer->session)->adopts = adopts;
	if (adopts)
		packet_pass_fds(sock, true);
	peer = NULL;
	return 0;
}

int peer_restore(struct peer **ret, struct peers *peers, struct core *core, struct closing *closing,
		 int sock, size_t max_queued_bytes, const struct ledger_session *row, int pidfd)
{
	int r = make(ret, peers, core, closing, sock, DOOR_COMMON, max_queued_bytes, row, pidfd,
		     /* restriction= */ NULL);

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

static void send_answer(struct peer *peer, const uint8_t *buf, size_t len, uint32_t serial)
{
	drop_on_failure(peer, send_packed(peer, buf, len, /* fd= */ -1, serial, /* event= */ NULL,
					  /* notice= */ false));
}

void peer_confirm_request(struct peer *peer, uint32_t serial)
{
	uint8_t buf[64];

	send_answer(peer, buf, request_pack_success(serial, buf, sizeof(buf)), serial);
}

void peer_refuse_request(struct peer *peer, uint32_t serial)
{
	uint8_t buf[1024];

	send_answer(peer, buf, request_pack_refusal(serial, -EAGAIN, buf, sizeof(buf)), serial);
}

int peer_restore_packets(struct peer *peer, const struct ledger_packet *rows, size_t n)
{
	int r = outbox_restore(&peer->outbox, peer->session, rows, n);

	on_outbox_change(peer);
	return r;
}

void peer_repeat_request(struct peer *peer, const uint8_t *packet, size_t len)
{
	struct ledger_session *row = session_get_row(peer->session);

	if (row) {
		row->repeated = 1;
		memcpy(row->packet, packet, len);
		ledger_note_set(&row->received, (uint32_t)len);
	}
	on_frame(peer, packet, len, NULL, 0, REQUEST_REPEATED);
	update_io(peer);
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
	outbox_clear(&peer->outbox);
	sent_fds_hold(peer->sent_fds, false);
	if (peer->session)
		socketstore_drop(core_get_socketstore(session_get_core(peer->session)),
				 session_get_number(peer->session));
	if (!peer->hung_up || !linger_begin(peer->session))
		session_free(peer->session);
	peer->session = NULL;
	peers_await(peer->peers, peer, 0);
	peers_remove(peer->peers, peer);
	list_remove(&peer->reaping);
	list_remove(&peer->pausing);
	free(peer->waiting);
	if (closing_is_bound(peer->closing)) {
		packet_end(peer->sock);
		/* Empty sockets have closing threads of their own. If memory runs out, the socket keeps its class. */
		if (discard_unread(peer->peers, peer->sock, peer->uid, peer->class))
			closing_bind(peer->closing, peer->uid, CLOSER_EMPTY);
		sent_fds_land(peer->sent_fds, peer->closing);
	} else {
		peers_refuse(peer->closing, peer->sock);
	}
	free(peer);
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/object/id.h"
#include "core/object/notice.h"
#include "proto/address.h"
#include "proto/codec.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "rpc/convert.h"
#include "rpc/outbox.h"
#include "rpc/peer.h"
#include "rpc/peers.h"
#include "rpc/sending.h"
#include "rpc/sent_fds.h"
#include "takeover/ledger.h"

uint32_t sending_wants(const struct peer *peer)
{
	/* While nothing is read, EPOLLRDHUP is selected, so that a hang-up is still noticed. */
	uint32_t reads = peer->waiting || peer->behind || !list_is_empty(&peer->pausing) ?
				 EPOLLRDHUP :
				 EPOLLIN;

	if (outbox_is_empty(&peer->outbox) && peer->n_lost == 0)
		return reads;
	/*
	 * A client that does not take its replies makes no more requests. If they come by another socket, only events
	 * wait here: a program may call all the same, and each of its threads may be in a call. Then the other socket
	 * decides, see sending_find_full().
	 */
	return EPOLLOUT | (session_is_apart(peer->session) ? reads & EPOLLIN : 0);
}

void sending_update(struct peer *peer)
{
	if (!peer->ending && peers_await(peer->peers, peer, sending_wants(peer)) < 0)
		peer_close(peer);
}

void sending_changed(struct peer *peer)
{
	sent_fds_hold(peer->sent_fds, peer->outbox.n_fds > 0);
	if (outbox_is_empty(&peer->outbox))
		peers_resume_list(peer->peers, &peer->unread);
	sending_update(peer);
}

/*
 * What is being sent is in the ledger, so that the next process knows whether it was. OWN: it goes to PEER's own
 * client's socket.
 */
static struct mmsghdr *note_sending(struct peer *peer, const struct session_event *event,
				    bool notice, bool own)
{
	struct ledger_session *row = session_get_row(peer->session);
	const struct id *id = event ? event->request ?: event->id : NULL;

	if (!row)
		return NULL;
	ledger_note_set(&row->sent, 0);
	row->sent_what = id ? LEDGER_SENT_EVENT : notice ? LEDGER_SENT_NOTHING : LEDGER_SENT_REPLY;
	row->sent_number = id ? id_get_handle(id) : 0;
	outbox_note_sending(&peer->outbox, own);
	return ledger_note_header(&row->sent);
}

/* TO: the peer over whose socket PEER's packet is sent. */
static int send_packed(struct peer *peer, struct peer *to, const uint8_t *buf, size_t len, int fd,
		       uint64_t serial, const struct session_event *event, bool notice)
{
	struct mmsghdr *note = note_sending(peer, event, notice, to == peer);
	int r = -EAGAIN;

	if (outbox_is_empty(&to->outbox))
		r = packet_send_noted(to->sock, buf, len, &fd, fd >= 0, note);
	if (r == 0)
		outbox_count_sent(&to->outbox);
	if (r != -EAGAIN)
		return r;
	if (notice && !outbox_has_room_for_notice(&to->outbox, len))
		return -EXFULL;
	outbox_note_sending(&peer->outbox, /* own= */ false);
	r = outbox_add(&to->outbox, buf, len, fd, serial, event);
	/* The next process sends it from the ledger. */
	if (r == 0 && note)
		note->msg_len = (unsigned)len;
	sending_changed(to);
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

/*
 * The peer over whose socket the reply to PEER's request is sent. NULL: it has ended. Then PEER ends, too: its client
 * would wait for the reply in vain.
 */
static struct peer *find_receiver(struct peer *peer)
{
	struct session *to;

	if (!peer->apart)
		return peer;
	to = session_find_replies(peer->session);
	if (to)
		return session_get_userdata(to);
	peer_hang_up(peer);
	return NULL;
}

int sending_reply(struct peer *peer, const Rdmabroker__Frame *frame, int fd,
		  struct failure *failure)
{
	struct peer *to = peer->ending ? NULL : find_receiver(peer);
	uint8_t buf[PACKET_MAX];
	size_t len;
	int r;

	if (!to || to->ending)
		return 0;
	if (to != peer)
		frame->reply->n_sent = peer->outbox.n_sent;
	len = codec_pack(frame, buf, sizeof(buf));
	if (len == 0) {
		peer_drop(peer, "a reply does not fit into a packet");
		return 0;
	}
	if (fd >= 0) {
		r = sent_fds_add(&to->sent_fds, &to->peers->sent_fds_list, to->session, to->sock,
				 failure);
		if (r != 0)
			return r;
	}
	r = send_packed(peer, to, buf, len, fd, frame->reply->serial, /* event= */ NULL,
			/* notice= */ false);
	if (r == -ETOOMANYREFS)
		return r;
	drop_on_failure(to, r);
	return 0;
}

void sending_packed_reply(struct peer *peer, const uint8_t *buf, size_t len, uint32_t serial)
{
	struct peer *to = peer->ending ? NULL : find_receiver(peer);

	if (to && !to->ending)
		drop_on_failure(to, send_packed(peer, to, buf, len, /* fd= */ -1, serial,
						/* event= */ NULL, /* notice= */ false));
}

struct peer *sending_find_full(const struct peer *peer)
{
	struct session *session =
		session_is_apart(peer->session) ? session_find_replies(peer->session) : NULL;
	struct peer *to = session ? session_get_userdata(session) : NULL;

	return to && !outbox_is_empty(&to->outbox) ? to : NULL;
}

/*
 * It counts as the reply to the request Wake, so that the next process does not send it again. One that waits is enough:
 * when the client has received it, it can ask for the next one.
 */
void sending_wake(void *userdata)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Woken woken = RDMABROKER__WOKEN__INIT;
	struct peer *peer = userdata;
	uint8_t buf[64];
	int r;

	if (peer->ending || peer->outbox.woken)
		return;
	frame.body_case = RDMABROKER__FRAME__BODY_WOKEN;
	frame.woken = &woken;
	r = send_packed(peer, peer, buf, codec_pack(&frame, buf, sizeof(buf)), /* fd= */ -1,
			/* serial= */ 0, /* event= */ NULL, /* notice= */ false);
	if (r == 0 && !outbox_is_empty(&peer->outbox))
		outbox_mark_woken(&peer->outbox);
	drop_on_failure(peer, r);
}

static bool has_param(const struct rdma_conn_param *conn)
{
	return conn->private_data_len || conn->qp_num || conn->responder_resources ||
	       conn->initiator_depth || conn->flow_control || conn->retry_count ||
	       conn->rnr_retry_count || conn->srq;
}

/* The id whose paths EVENT has; NULL: none. */
static const struct id *with_paths(const struct session_event *event)
{
	if (event->request)
		return event->request;
	return event->routed || event->type == RDMA_CM_EVENT_ROUTE_RESOLVED ? event->id : NULL;
}

/* Returns the length of the packet. */
static size_t pack_event(const struct session_event *event, uint8_t buf[PACKET_MAX])
{
	static const struct fabric_event nothing;
	const struct fabric_event *fabric = event->fabric ?: &nothing;
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Event out = RDMABROKER__EVENT__INIT;
	Rdmabroker__ConnParam conn;
	Rdmabroker__Failure failure;
	struct out_id_info info;
	struct out_qp_attr qp;
	struct out_ud_param ud;
	Rdmabroker__Address group;
	Rdmabroker__Caps caps;
	Rdmabroker__Ece ece;
	uint8_t paths[PATHS_SIZE];

	out.id = id_get_handle(event->id);
	out.type = event->type;
	out.status = event->status;
	out.routed = event->routed;
	out.request_id = event->request ? id_get_handle(event->request) : 0;
	if (has_param(&fabric->conn)) {
		out_conn_param(&conn, &fabric->conn);
		out.conn = &conn;
	}
	if (event->with_info || event->request) {
		out_id_info(&info, event->request ? event->request : event->id);
		out.info = &info.info;
	}
	out.remote_ece = out_ece(&ece, &fabric->remote_ece);
	if (event->group)
		out.group = address_pack(&group, event->group);
	if (event->type == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    (event->type == RDMA_CM_EVENT_ESTABLISHED && id_is_datagram(event->id))) {
		out_ud_param(&ud, &fabric->ud);
		out.ud = &ud.param;
	}
	out.qp = out_qp_attrs(&qp, event);
	if (with_paths(event))
		out.paths = out_paths(paths, with_paths(event));
	if (event->failure) {
		out_failure(&failure, event->failure);
		out.failure = &failure;
	}
	if (event->caps)
		out.caps = out_caps(&caps, event->caps);
	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = &out;
	/* All parts together need at most an eighth of a packet. */
	return codec_pack(&frame, buf, PACKET_MAX);
}

void sending_event(void *userdata, const struct session_event *event)
{
	struct peer *peer = userdata;
	uint8_t buf[PACKET_MAX];

	if (peer->ending)
		return;
	/* Queue only one ADDR_CHANGE: the event can come any number of times, always with the same content. */
	if (event->type == RDMA_CM_EVENT_ADDR_CHANGE && outbox_has_event(event->id, event->type))
		return;
	drop_on_failure(peer, send_packed(peer, peer, buf, pack_event(event, buf), /* fd= */ -1,
					  /* serial= */ 0, event, /* notice= */ false));
}

_Static_assert(NOTICE_PACKET_MAX == PACKET_MAX, "a notice is one packet");

static int pack_notice(struct notice_packet *ret, Rdmabroker__Notice *notice, uint64_t n_lost)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	notice->lost = n_lost;
	frame.body_case = RDMABROKER__FRAME__BODY_NOTICE;
	frame.notice = notice;
	ret->len = codec_pack(&frame, ret->data, sizeof(ret->data));
	return ret->len > 0 ? 0 : -EMSGSIZE;
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
	return send_packed(peer, peer, packet->data, packet->len, /* fd= */ -1, /* serial= */ 0,
			   /* event= */ NULL, /* notice= */ true);
}

/* If a notice cannot be sent, it is dropped and counted; the session goes on, unless the client is gone. */
bool sending_notice(void *userdata, const struct notice *notice)
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
	sending_update(peer);
	return r >= 0;
}

int sending_tell_lost(struct peer *peer)
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
		r = send_packed(peer, peer, packet.data, packet.len, /* fd= */ -1, /* serial= */ 0,
				/* event= */ NULL, /* notice= */ true);
	if (r < 0)
		return r;
	peer->n_lost = 0;
	sending_update(peer);
	return 0;
}

/* Drops the queued events that the id's charge covers, as the kernel drops the events of an id that is destroyed. */
void sending_forget(void *userdata, struct id *id)
{
	struct peer *peer = userdata;

	outbox_forget(id);
	sending_changed(peer);
}

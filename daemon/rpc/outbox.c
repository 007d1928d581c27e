/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/object/core.h"
#include "core/object/id.h"
#include "proto/packet.h"
#include "rpc/outbox.h"
#include "rpc/request.h"
#include "takeover/ledger.h"
#include "util/util.h"

struct packet {
	struct list link; /* outbox.packets */
	struct outbox *outbox;
	size_t len;
	uint64_t serial; /* serial of the request that this packet answers; 0: it is no reply */
	int fd; /* descriptor that goes with the packet; -1: none */
	struct charge charge, rows; /* ROWS: of its parts in the ledger */
	/* the id of the packet's event, whose charge covers the packet; NULL: the packet is charged as bytes */
	struct id *id;
	struct list of_id; /* id.events */
	enum rdma_cm_event_type type; /* type of the event */
	struct ledger *ledger;
	struct ledger_session *row; /* the session's; NULL: it is not kept */
	struct ledger_packet *
		part; /* the first part in the ledger; NULL: the packet is lost if the daemon dies */
	uint8_t data[];
};

/* What a packet of LEN bytes takes: it is a block of malloc(), which has a header. */
static size_t cost_of(size_t len)
{
	return sizeof(struct packet) + 16 + len;
}

static void set_sent(struct outbox *outbox, uint32_t n_sent)
{
	struct ledger_session *row = session_get_row(outbox->session);

	outbox->n_sent = n_sent;
	if (row)
		row->n_sent = n_sent;
}

void outbox_count_sent(struct outbox *outbox)
{
	set_sent(outbox, outbox->n_sent + 1);
}

void outbox_note_sending(const struct outbox *outbox, bool own)
{
	struct ledger_session *row = session_get_row(outbox->session);

	if (row)
		row->n_sent_next = outbox->n_sent + own;
}

void outbox_restore_count(struct outbox *outbox, const struct ledger_session *old)
{
	set_sent(outbox, ledger_note_length(&old->sent) ? old->n_sent_next : old->n_sent);
}

static int charge(struct outbox *outbox, struct charge *ret, enum account_slot slot, size_t amount)
{
	return account_charge(core_get_account(session_get_core(outbox->session)), ret, slot,
			      amount, session_get_owner(outbox->session));
}

void outbox_init(struct outbox *outbox, size_t max_bytes)
{
	*outbox = (struct outbox){ .max_bytes = max_bytes };
	list_init(&outbox->packets);
}

static void forget_parts(struct packet *packet)
{
	struct ledger_packet *part = packet->part, *next;

	for (; part; part = next) {
		next = ledger_next_part(packet->ledger, part);
		ledger_remove_packet(packet->ledger, part);
	}
	packet->part = NULL;
}

/* Writes the packet to the ledger. If that cannot be done, the session ends if the daemon does. */
static void record(struct outbox *outbox, struct packet *packet)
{
	struct ledger_packet *before = NULL, *part;

	packet->row = session_get_row(outbox->session);
	if (!packet->row)
		return;
	packet->ledger = core_get_ledger(session_get_core(outbox->session));
	/* A user whose clients do not read has no more than his share of the rows, so that others have some. */
	if (charge(outbox, &packet->rows, ACCOUNT_PACKETS,
		   (packet->len + LEDGER_PART - 1) / LEDGER_PART) < 0) {
		packet->row->n_queued++;
		return;
	}
	for (size_t at = 0; packet->fd < 0 && at < packet->len; at += part->len) {
		size_t left = packet->len - at;

		part = ledger_add_packet(packet->ledger);
		if (!part) {
			forget_parts(packet);
			break;
		}
		part->number = ++outbox->last;
		part->len = (uint16_t)(left < LEDGER_PART ? left : LEDGER_PART);
		part->goes_on = left > LEDGER_PART;
		part->serial = packet->serial;
		part->id = packet->id ? id_get_handle(packet->id) : 0;
		part->type = packet->type;
		memcpy(part->data, packet->data + at, part->len);
		part->session = packet->row->number;
		if (before)
			ledger_link_parts(packet->ledger, before, part);
		else
			packet->part = part;
		before = part;
	}
	if (!packet->part)
		packet->row->n_queued++;
}

static void erase(struct packet *packet)
{
	if (packet->part)
		forget_parts(packet);
	else if (packet->row)
		packet->row->n_queued--;
}

static int packet_new(struct packet **ret, const uint8_t *data, size_t len, int fd, uint64_t serial)
{
	struct packet *packet = calloc(1, sizeof(*packet) + len);

	if (!packet)
		return -ENOMEM;
	packet->len = len;
	packet->serial = serial;
	packet->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0 && packet->fd < 0) {
		free(packet);
		return -errno;
	}
	list_init(&packet->of_id);
	memcpy(packet->data, data, len);
	*ret = packet;
	return 0;
}

static unsigned count_events(struct id *id)
{
	struct list *l;
	unsigned n = 0;

	list_for_each(l, id_get_events(id))
		n++;
	return n;
}

bool outbox_has_event(struct id *id, enum rdma_cm_event_type type)
{
	struct list *l;

	list_for_each(l, id_get_events(id))
		if (container_of(l, struct packet, of_id)->type == type)
			return true;
	return false;
}

int outbox_add(struct outbox *outbox, const uint8_t *data, size_t len, int fd, uint64_t serial,
	       const struct session_event *event)
{
	struct id *id = event ? event->request ?: event->id : NULL;
	struct packet *packet = NULL;
	int r = 0;

	if (id && count_events(id) >= ID_EVENTS_MAX)
		id = NULL;
	if (!id && outbox->bytes + cost_of(len) > outbox->max_bytes)
		return -EXFULL;
	r = packet_new(&packet, data, len, fd, serial);
	if (r < 0)
		return r;
	if (!id)
		r = charge(outbox, &packet->charge, ACCOUNT_BYTES, cost_of(len));
	if (r < 0) {
		closep(&packet->fd);
		free(packet);
		return r;
	}
	packet->outbox = outbox;
	if (id) {
		packet->id = id;
		packet->type = event->type;
		list_insert(id_get_events(id), &packet->of_id);
	} else {
		outbox->bytes += cost_of(len);
	}
	list_insert(&outbox->packets, &packet->link);
	outbox->n_fds += packet->fd >= 0;
	record(outbox, packet);
	return 0;
}

static void packet_free(struct packet *packet)
{
	struct outbox *outbox = packet->outbox;

	list_remove(&packet->link);
	list_remove(&packet->of_id);
	erase(packet);
	if (!packet->id)
		outbox->bytes -= cost_of(packet->len);
	if (outbox->woken == packet)
		outbox->woken = NULL;
	charge_done(&packet->charge);
	charge_done(&packet->rows);
	outbox->n_fds -= packet->fd >= 0;
	/* This is our own copy of an export's descriptor, so closing it does not block. */
	closep(&packet->fd);
	free(packet);
}

void outbox_mark_woken(struct outbox *outbox)
{
	outbox->woken = container_of(outbox->packets.prev, struct packet, link);
}

unsigned outbox_clear(struct outbox *outbox, unsigned max)
{
	struct list *l;

	for (; max > 0 && (l = list_first(&outbox->packets)); max--)
		packet_free(container_of(l, struct packet, link));
	return max;
}

void outbox_forget(struct id *id)
{
	struct list *l;

	while ((l = list_first(id_get_events(id))))
		packet_free(container_of(l, struct packet, of_id));
}

/* Sends the client an error instead of the reply in PACKET, because the kernel accepts no descriptor now. */
static int refuse(const struct packet *packet, int sock)
{
	uint8_t buf[1024];
	size_t len = request_pack_reply(packet->serial, /* n_sent= */ 0, -ETOOMANYREFS, buf,
					sizeof(buf));

	return packet_send(sock, buf, len, NULL, 0);
}

static int send_one(struct packet *packet, int sock)
{
	struct ledger_session *row = packet->part ? packet->row : NULL;
	int r;

	if (row) {
		ledger_note_set(&row->sent, 0);
		row->sent_what = LEDGER_SENT_PACKET;
		row->sent_number = packet->part->number;
		outbox_note_sending(packet->outbox, /* own= */ true);
	}
	r = packet_send_noted(sock, packet->data, packet->len, &packet->fd, packet->fd >= 0,
			      row ? ledger_note_header(&row->sent) : NULL);
	if (r == -ETOOMANYREFS)
		r = refuse(packet, sock);
	if (r == 0)
		outbox_count_sent(packet->outbox);
	return r;
}

int outbox_flush(struct outbox *outbox, int sock, unsigned max)
{
	struct list *l;
	unsigned n;

	for (n = 0; n < max && (l = list_first(&outbox->packets)); n++) {
		struct packet *packet = container_of(l, struct packet, link);
		int r = send_one(packet, sock);

		if (r == -EAGAIN)
			break;
		if (r < 0)
			return r;
		packet_free(packet);
	}
	return (int)n;
}

bool outbox_has_room_for_notice(const struct outbox *outbox, size_t len)
{
	const size_t cost = cost_of(len);
	const struct account *account = core_get_account(session_get_core(outbox->session));
	struct owner owner = session_get_owner(outbox->session);

	return outbox->bytes + cost <= outbox->max_bytes / 2 &&
	       account_get_used(account, ACCOUNT_BYTES, owner) + cost <=
		       account->limit_per_user[ACCOUNT_BYTES] / 2 &&
	       account->used[ACCOUNT_BYTES] + cost <= account->limit[ACCOUNT_BYTES] / 2;
}

int outbox_restore(struct outbox *outbox, const struct ledger_packet *rows, size_t n)
{
	uint8_t data[PACKET_MAX];
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ledger_packet *part = &rows[i];
		struct session_event event = { .type = (enum rdma_cm_event_type)part->type };
		struct failure ignored;
		bool of_id;
		int r;

		if (part->len > LEDGER_PART || len + part->len > sizeof(data))
			return -EPROTO;
		memcpy(data + len, part->data, part->len);
		len += part->len;
		if (part->goes_on)
			continue;
		of_id = part->id && table_find(outbox->session, part->id, &event.id, &ignored) == 0;
		r = outbox_add(outbox, data, len, /* fd= */ -1, part->serial,
			       of_id ? &event : NULL);
		if (r < 0)
			return r;
		len = 0;
	}
	/* The process died before it had written the rest of the packet. So nobody can wait for it yet. */
	return 0;
}

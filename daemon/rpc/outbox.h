/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The packets that a client's socket has not accepted yet, in their order. The ledger has them too, so that the next
 * process of the daemon can send them. Only a packet with a descriptor cannot be kept.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/list.h"

struct id;
struct ledger_packet;
struct ledger_session;
struct packet;
struct session;
struct session_event;

struct outbox {
	struct session *session;
	struct list packets; /* packet.link */
	size_t bytes, max_bytes; /* what the packets take that are charged as bytes */
	const struct packet *woken; /* the one that is a Woken; NULL: none is */
	unsigned n_fds; /* packets that have a descriptor */
	uint32_t last; /* the number of the last row in the ledger */
	uint32_t n_sent; /* packets that the socket has accepted, modulo 2^32, see Reply.n_sent */
};

/* The caller sets SESSION, once it is there. */
void outbox_init(struct outbox *outbox, size_t max_bytes);
/* Drops at most MAX packets, all of them before the session is freed. Returns MAX less the number dropped. */
unsigned outbox_clear(struct outbox *outbox, unsigned max);

static inline bool outbox_is_empty(const struct outbox *outbox)
{
	return list_is_empty(&outbox->packets);
}

/*
 * Adds a packet. The charge of an id covers up to ID_EVENTS_MAX packets with events of the id; the event of a
 * connection request belongs to the new id. All other packets are charged to the session's user as queued bytes, each
 * with what it takes in memory: a packet of two bytes takes a hundred times as much.
 * SERIAL: the request that the packet answers; 0: it is no reply. EVENT NULL: the packet has no event. Returns 0,
 * -EXFULL if MAX_BYTES is exceeded, or another negative errno.
 */
int outbox_add(struct outbox *outbox, const uint8_t *data, size_t len, int fd, uint64_t serial,
	       const struct session_event *event);
/*
 * Adds the packets of ROWS, which a previous process has written, sorted by their number. Returns 0 or a negative
 * errno.
 */
int outbox_restore(struct outbox *outbox, const struct ledger_packet *rows, size_t n);
void outbox_count_sent(struct outbox *outbox); /* the socket has accepted a packet */
/* To be called before a packet is sent, see ledger_session.n_sent_next. OWN: it goes into this socket. */
void outbox_note_sending(const struct outbox *outbox, bool own);
/* The previous process has sent as many packets as OLD says. */
void outbox_restore_count(struct outbox *outbox, const struct ledger_session *old);
/* The packet that was added last is a Woken. */
void outbox_mark_woken(struct outbox *outbox);
/* Sends what the socket accepts, at most MAX packets. Returns how many, or a negative errno. */
int outbox_flush(struct outbox *outbox, int sock, unsigned max);
/* Drops the events that the charge of ID covers. */
void outbox_forget(struct id *id);
/* True if an event of TYPE about ID waits, among those that the charge of ID covers. */
bool outbox_has_event(struct id *id, enum rdma_cm_event_type type);
/*
 * True: a notice of LEN bytes can be added. Notices get only half of each limit: replies and events have
 * precedence.
 */
bool outbox_has_room_for_notice(const struct outbox *outbox, size_t len);

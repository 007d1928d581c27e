/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The server's side of one client's socket: receives and sends packets, and has the client's session.
 *
 *   GREETING ──hello──> SERVING ──> CLOSING
 *       └── anything else, or 10 s ──^
 *
 * The reply to Hello may require a proof (core/facts/identity.h). Then the client sends Hello again. After
 * release_session the peer is GREETING again, without a limit of time, and waits for adopt_session, which closes it.
 *
 * A request can have to wait, for example for a port, a result from the kernel, or a reload. That delays only its own
 * client: the request is kept, and is processed again from its beginning when it can go on. The look-up of a QP delays
 * only requests about the same id.
 *
 * No client gets more than its share of the loop: at most one request of it is read in a turn, and none while
 * there are replies that the client does not read, on whichever socket. A client is dropped if replies or events would make its queue
 * exceed a limit. Notices, for sessions that watch, use at most half of each limit. A notice that would exceed
 * this half is dropped, and the client stays.
 */

#include <stdbool.h>
#include <stddef.h>

#include "rpc/kept.h"
#include "rpc/newcomers.h"
#include "rpc/outbox.h"
#include "rpc/request.h"
#include "rpc/turns.h"
#include "util/closer.h"
#include "util/hot.h"
#include "util/list.h"

struct sent_fds;
struct ledger_session;
struct peers;
struct restriction;

struct peer {
	struct list link; /* peers.list */
	struct peers *peers;
	struct session *session;
	int sock; /* closed by CLOSING */
	struct closing *closing;
	struct sent_fds *sent_fds; /* descriptors in flight; NULL: none was sent yet */
	struct newcomers_place
		place; /* its place among the newcomers, until the session is charged */
	struct hot_io io; /* watches SOCK, if EVENTS is not 0 */
	uint32_t events; /* the epoll events that are wanted; 0: none */
	uint32_t
		selected; /* those that the set has; others come when they are wanted, or when these do */
	uint64_t read_in; /* the turn of the loop in which its socket was last read */
	unsigned
		n_singles; /* so many packets are read one in a turn, because there was no second one */
	uint32_t ready; /* the epoll events that are handled when its turn has come; 0: none */
	struct turn turn;
	/*
	 * In peers.paused, peers.unpaused, or another peer's UNREAD, while nothing is read: too many descriptors of the
	 * client's user wait to be closed, memory has run out, or the client does not take its replies by another session's
	 * socket.
	 */
	struct list pausing;
	struct list
		unread; /* peer.pausing: clients that get their replies here, and are not read while OUTBOX has any */
	sd_event_source *deadline; /* deadline for Hello; NULL: the client has left the newcomers */
	struct request_progress progress;
	bool is_in; /* Hello has succeeded, and let_in() has prepared the socket for further requests */
	enum closer_class class; /* class of CLOSING */
	bool apart; /* the reply to the request goes over another session's socket, see Request.apart */
	struct owner owner; /* of the session, and of CLOSING */
	/* closes the descriptors of the last packet, once its request is processed; NULL: none */
	struct closing *received;
	bool ending; /* the client is disconnected; its ids are still to be freed */
	bool hung_up; /* the client has disconnected, and was not dropped: its session can linger */

	/* Nothing is read from the client while there is one of the first two, see kept.h. */
	struct kept *waiting; /* the request that is carried out and has to wait; NULL: none */
	struct kept *behind; /* the request that has to stay behind one of ASIDES; NULL: none */
	struct list asides; /* kept.link */
	bool goes_on; /* one of them can go on, when its turn has come */

	struct outbox outbox; /* the packets that the socket has not accepted yet */
	uint64_t n_lost; /* number of notices that were dropped after the last one that was sent */
};

/*
 * Creates the peer of the client at the other end of SOCK. RESTRICTION NULL: none. ADOPTS: see struct identity. Takes
 * over SOCK and CLOSING, also on failure. CLOSING must not be bound to a user yet. On failure CLOSING closes SOCK at
 * once. Otherwise it closes SOCK when the peer is freed and the client has received all descriptors that were sent to
 * it (see sent_fds_land()). The loop frees the peer after its client has hung up or was dropped.
 */
int peer_new(struct peers *peers, struct closing *closing, int sock, enum door door,
	     struct restriction *restriction, bool adopts);
/*
 * As peer_new(), for a client that a previous process of the daemon has served. ROW is its session's, PIDFD as in
 * restore_session(). *RET can be used until the loop runs.
 */
int peer_restore(struct peer **ret, struct peers *peers, struct closing *closing, int sock,
		 const struct ledger_session *row, int pidfd);
/*
 * For REQUEST, or its PACKET, that a previous process has received and not answered: replies with R, which is 0 or a
 * negative errno; carries it out again.
 */
void peer_answer_request(struct peer *peer, const Rdmabroker__Request *request, int r);
void peer_repeat_request(struct peer *peer, const uint8_t *packet, size_t len);
/* Disconnects the client. The peer is freed later, by the loop, because the caller still uses it. */
void peer_close(struct peer *peer);
void peer_hang_up(struct peer *peer); /* the same if the client has closed its socket */
void peer_drop(struct peer *peer, const char *why); /* the same, with a line in the journal */
/* Carries requests out that have waited and can go on. */
void peer_go_on(struct peer *peer);
/* The packet of a request that a previous process had set aside is carried out again, when its turn has come. */
int peer_restore_aside(struct peer *peer, const uint8_t *packet, size_t len, uint32_t handle);
/* Reads from the client again, if reading was paused. */
void peer_resume(struct peer *peer);
/* Handles the epoll EVENTS of the client's socket. Returns whether a packet was received. */
bool peer_on_io(struct peer *peer, uint32_t events);
/* Frees some of the session's ids and packets and, when none is left, the peer. True: the peer was freed. */
bool peer_reap(struct peer *peer);
struct peer *peer_free(struct peer *peer);

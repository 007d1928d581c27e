/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The server's side of one client's socket: receives and sends packets, and has the client's session.
 *
 *   GREETING ──hello──> SERVING ──> CLOSING
 *       └── anything else, or 10 s ──^
 *
 * The reply to Hello may ask for a proof (core/identity.h). Then the client sends Hello again.
 *
 * A request that has to wait, for a port or an answer of the kernel, delays only its own client: the request
 * is kept, and processed again from its beginning when that is there.
 *
 * No client may take more than its share of the loop: one request is read per turn, and none while replies
 * wait that the client does not read. A client whose queue would exceed its limit is dropped. Notices, for
 * sessions that watch, are dropped instead: they use at most half of each limit.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"
#include "rpc/lobby.h"
#include "rpc/request.h"
#include "util/closer.h"
#include "util/list.h"

struct flight;
struct peers;

struct peer {
	struct list link; /* peers.list */
	struct peers *peers;
	struct session *session;
	int sock; /* CLOSING closes it */
	struct closing *closing;
	struct flight *flight; /* NULL: no descriptor was sent yet */
	struct lobby_place place; /* until it is greeted */
	uint32_t events; /* the epoll events that are selected; 0: none */
	bool paused; /* not read until the closer has caught up with its user */
	sd_event_source *deadline; /* for Hello */
	struct list reaping; /* peers.reaping: it ends */
	struct request_progress progress;
	bool is_in; /* let_in() was called */
	enum closer_class class; /* of CLOSING */
	struct closing *received; /* the descriptors of the request that waits; NULL: none */
	bool ending; /* nothing more is done for it */

	/* The request that has to wait; nothing more is read before it is answered. */
	uint8_t *waiting; /* its packet; NULL: there is none */
	size_t waiting_len;
	struct list resumed; /* peers.resumed: its request can be repeated */

	struct list queue; /* packet.link: what the socket did not take yet */
	size_t queued_bytes;
	unsigned n_queued_fds;
	size_t max_queued_bytes;
	uint64_t n_lost; /* notices that were dropped since the last one that was sent */
};

/*
 * SOCK is taken over in any case: CLOSING, which is not bound yet, closes it. The loop frees a peer when its
 * client hangs up.
 */
int peer_new(struct peers *peers, sd_event *loop, struct core *core, struct closing *closing,
	     int sock, size_t max_queued_bytes);
void peer_drop(struct peer *peer, const char *why);
/* Processes again the request that waits. */
void peer_go_on(struct peer *peer);
/* Reads from the client again, if that was paused. */
void peer_resume(struct peer *peer);
/* Handles the epoll EVENTS of its socket. */
void peer_on_io(struct peer *peer, uint32_t events);
/*
 * The session ends: frees at most MAX of its ids, and with the last of them the peer. True: the peer was
 * freed.
 */
bool peer_reap(struct peer *peer, unsigned max);
struct peer *peer_free(struct peer *peer);

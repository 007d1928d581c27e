/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A client's end of the wire: packets in, packets out, and the session that hangs from them.
 *
 *   GREETING ──hello──> SERVING ──> CLOSING
 *       └── anything else, or 10 s ──^
 *
 * Hello may be answered with a question, and is then said again.
 *
 * What a request has to wait for, a port or an answer of the kernel, is waited for by its client alone: the
 * request is kept, and carried out from its beginning when that is there.
 *
 * Nothing that a client does may cost others more than its share of turns: one request is read a
 * turn, none while replies wait that the client does not read, and a client that lets more than its
 * queue's limit wait is dropped. Notices, which are told to who watches others, are dropped instead: they
 * take no more than half of what its limits leave to replies and events.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"
#include "rpc/lobby.h"
#include "util/closer.h"
#include "util/list.h"

struct flight;
struct server;

struct peer {
	struct list link; /* server.peers */
	struct server *server;
	struct session *session;
	int sock; /* CLOSING has it */
	struct closing *closing;
	struct flight *flight; /* NULL: no descriptor was sent yet */
	struct lobby_place place; /* until it is greeted */
	uint32_t events; /* of epoll, that are waited for; 0: none */
	bool paused; /* not read until the closer has caught up with its user */
	sd_event_source *deadline; /* for hello */
	struct list reaping; /* server.reaping: it ends */
	bool greeted;
	bool is_in; /* and no stranger any more */
	enum closer_class class; /* of CLOSING */
	struct closing *received; /* what came with the request that waits; NULL: nothing did */
	bool ending; /* nothing more is done for it */

	/* The request that something has to be found out for; nothing more is read before it is answered. */
	uint8_t *waiting; /* as it came; NULL: there is none */
	size_t waiting_len;
	struct list resumed; /* server.resumed: it can be tried again */

	struct list queue; /* packet.link: what the socket did not take yet */
	size_t queued_bytes;
	unsigned n_queued_fds;
	size_t max_queued_bytes;
	uint64_t n_lost; /* notices that were dropped since the last one that was not */
};

/*
 * SOCK is taken over in any case: CLOSING, which is bound to nobody yet, closes it. A peer frees itself when its
 * client goes.
 */
int peer_new(struct server *server, sd_event *loop, struct core *core, struct closing *closing,
	     int sock, size_t max_queued_bytes);
void peer_drop(struct peer *peer, const char *why);
/* The request that waits is carried out again. */
void peer_go_on(struct peer *peer);
/* It is read again, if it was not. */
void peer_resume(struct peer *peer);
/* EVENTS came for it, as epoll has them. */
void peer_on_io(struct peer *peer, uint32_t events);
/* Of a session that ends MAX ids at most are freed, and the peer with the last of them: then true. */
bool peer_reap(struct peer *peer, unsigned max);
struct peer *peer_free(struct peer *peer);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A client's end of the wire: packets in, packets out, and the session that hangs from them.
 *
 *   GREETING ──hello──> SERVING ──> CLOSING
 *       └── anything else, or 10 s ──^
 *
 * Nothing that a client does may cost others more than its share of turns: one request is read a
 * turn, none while replies wait that the client does not read, and a client that lets more than its
 * queue's limit wait is dropped. Notices, which are told to who watches others, are dropped instead: they
 * take no more than half of what its limits leave to replies and events.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/core.h"
#include "util/list.h"

struct server;

struct peer {
	struct list link; /* server.peers */
	struct server *server;
	struct session *session;
	int sock;
	uint32_t events; /* of epoll, that are waited for; 0: none */
	sd_event_source *deadline; /* for hello */
	sd_event_source *reaper; /* frees the peer once nothing of it is on the stack */
	bool greeted;
	bool closing;

	struct list queue; /* packet.link: what the socket did not take yet */
	size_t queued_bytes;
	size_t max_queued_bytes;
	uint64_t n_lost; /* notices that were dropped since the last one that was not */
};

/* SOCK is taken over in any case. A peer frees itself when its client goes. */
int peer_new(struct server *server, sd_event *loop, struct core *core, int sock,
	     size_t max_queued_bytes);
/* EVENTS came for it, as epoll has them. */
void peer_on_io(struct peer *peer, uint32_t events);
struct peer *peer_free(struct peer *peer);

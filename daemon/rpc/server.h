/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The listening sockets and their clients. When descriptors or memory run out, accepting pauses until the peer of a
 * client is freed or a second has passed. Meanwhile the connected clients are served, except those for whose next
 * packet there is no memory.
 */

#include <stdint.h>

#include "core/facts/door.h"
#include "core/object/core.h"

struct control;
struct old_ledger;
struct restriction;
struct server;
struct socketstore;

/*
 * FDS are listening SOCK_SEQPACKET sockets; -1: the door does not exist. They are taken over, also on failure.
 * RESTRICTED_DIR is for the sockets of restricted sessions, see published.h.
 *
 * RELOAD starts to read configuration and policy again. It returns a ticket, from 1, of which dry runs have their own.
 * control_reloaded() is called when it is done; this can be within the call.
 */
int server_new(struct server **ret, struct core *core, const int fds[_DOOR_MAX],
	       const char *restricted_dir, size_t max_queued_bytes,
	       uint64_t (*reload)(void *userdata, bool dry_run), void *userdata);
struct server *server_free(struct server *server); /* ends all sessions */
struct control *server_get_control(struct server *server);

/*
 * Serves the clients of a previous process of the daemon: those sessions of OLD whose sockets are in SOCKETSTORE. To be
 * called after fabric_takeover(), and before the loop runs. Returns the number of sessions that go on, or a negative
 * errno.
 */
int server_take_over(struct server *server, struct socketstore *socketstore,
		     const struct old_ledger *old, const void *busy, size_t busy_len);
/*
 * Serves a client that has connected to DOOR; SOCK is taken over, also on failure. RESTRICTION NULL: none. ADOPTS: see struct
 * identity. Returns 0 or a negative errno.
 */
int server_add_client(struct server *server, int sock, enum door door,
		      struct restriction *restriction, bool adopts);

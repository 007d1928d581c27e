/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The listening socket and the clients behind it. When descriptors run out, accepting pauses until a client
 * goes or a second has passed; connected clients are not affected.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/core.h"

struct diag;
struct server;
struct session;

struct server_ops {
	/*
	 * Starts to read configuration and policy again. Returns a ticket, from 1. server_reloaded() is
	 * called when that is done, maybe from within this call.
	 */
	uint64_t (*reload)(void *userdata);
};

/* FD is a listening SOCK_SEQPACKET socket; it is taken over in any case. */
int server_new(struct server **ret, sd_event *loop, struct core *core, int fd,
	       size_t max_queued_bytes, const struct server_ops *ops, void *userdata);
struct server *server_free(struct server *server); /* ends all sessions */

/* The first error of the last reload, or of the start, as in "file:line:column: text"; NULL: none. Copied. */
void server_set_policy_error(struct server *server, const char *error);
const char *server_get_policy_error(const struct server *server); /* never NULL */

/*
 * All reloads up to TICKET are done. R: 0, or a negative errno; DIAG, which is taken over and may be NULL,
 * has the errors.
 */
void server_reloaded(struct server *server, uint64_t ticket, int r, struct diag *diag);
/*
 * Starts a reload for SESSION's request, unless AGAIN: then it was started before,
 * and *TICKET is as it was left. -EINPROGRESS: it is not
 * done yet, and the request is to be repeated. Otherwise R of server_reloaded(); *RET_DIAG stays the
 * server's, and may be NULL.
 */
int server_reload(struct server *server, struct session *session, uint64_t *ticket, bool again,
		  const struct diag **ret_diag);

uint32_t server_count_fds(void); /* open in this process; 0: not known */

/* Serves a client that has connected; SOCK is taken over in any case. 0 or a negative errno. */
int server_add_client(struct server *server, int sock);

/* For peer.c: */
struct closing;
struct flights;
struct peer;
int server_add_peer(struct server *server, struct peer *peer, uid_t uid); /* 0 or -ENOMEM */
void server_remove_peer(struct server *server, struct peer *peer);
/*
 * Selects the epoll EVENTS of PEER's socket; 0: none. Returns 0 or a negative errno; cannot fail if events
 * were selected before.
 */
int server_await(struct server *server, struct peer *peer, uint32_t events);
/* PEER ends: it is freed in a later turn, when no caller uses it any more. */
void server_reap(struct server *server, struct peer *peer);
/* Calls peer_go_on() in a turn of its own. */
void server_resume(struct server *server, struct peer *peer);
/* A closing with room for all descriptors that a packet can carry, not bound yet; NULL: there is no memory. */
struct closing *server_get_room(struct server *server);
void server_put_room(struct server *server, struct closing *room); /* gives back an unused one */
/* SOCK was accepted, but will not be served. CLOSING closes it, without a charge to a user. */
void server_refuse(struct closing *closing, int sock);
struct flights *server_get_flights(struct server *server);

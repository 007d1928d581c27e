/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The listening socket and the clients behind it. When descriptors run out, accepting pauses until a
 * client goes or a second has passed; those who are connected do not notice.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "core/core.h"

struct diag;
struct server;
struct session;

struct server_ops {
	/*
	 * Configuration and policy are to be read again. Returns a ticket, from 1; server_reloaded() is called when that is
	 * done, maybe from within this call.
	 */
	uint64_t (*reload)(void *userdata);
};

/* FD is a listening SOCK_SEQPACKET socket; it is taken over in any case. */
int server_new(struct server **ret, sd_event *loop, struct core *core, int fd,
	       size_t max_queued_bytes, const struct server_ops *ops, void *userdata);
struct server *server_free(struct server *server); /* ends all sessions */

/* "file:line:column: text" of the last reload, or NULL if it went well. Copied. */
void server_set_policy_error(struct server *server, const char *error);
const char *server_get_policy_error(const struct server *server); /* never NULL */

/*
 * All reloads up to TICKET are done. R: 0, or a negative errno; DIAG, which is taken over and may be NULL, has what is
 * wrong.
 */
void server_reloaded(struct server *server, uint64_t ticket, int r, struct diag *diag);
/*
 * For SESSION's request: a reload is started, or where AGAIN it was. -EINPROGRESS: it is not done yet, and the
 * request is to be made again. Else as server_reloaded(); *RET_DIAG stays the server's, and may be NULL.
 */
int server_reload(struct server *server, struct session *session, bool again,
		  const struct diag **ret_diag);

uint32_t server_count_fds(void); /* open in this process; 0: could not be found out */

/* A client that has connected; SOCK is taken over in any case. 0 or a negative errno. */
int server_add_client(struct server *server, int sock);

/* For peer.c: */
struct closing;
struct flights;
struct peer;
int server_add_peer(struct server *server, struct peer *peer, uid_t uid); /* 0 or -ENOMEM */
void server_remove_peer(struct server *server, struct peer *peer);
/*
 * Wait for EVENTS of epoll from now on, or not at all (0). 0, or a negative errno, which can be only where
 * nothing was waited for before.
 */
int server_await(struct server *server, struct peer *peer, uint32_t events);
/* PEER ends, and is freed once nothing of it is on the stack. */
void server_reap(struct server *server, struct peer *peer);
/* peer_go_on() is called in a turn of its own. */
void server_resume(struct server *server, struct peer *peer);
/* With room for all descriptors that a packet can bring, bound to nobody; NULL: there is no memory. */
struct closing *server_get_room(struct server *server);
void server_put_room(struct server *server, struct closing *room); /* it was not needed */
/* SOCK was accepted, and nobody will be served by it. CLOSING closes it, at nobody's cost. */
void server_refuse(struct closing *closing, int sock);
struct flights *server_get_flights(struct server *server);

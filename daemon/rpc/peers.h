/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What the clients' sockets have in common: the epoll descriptor that they are watched with, their turns in the
 * loop, the lobby, and room for the descriptors that a packet may carry.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "rpc/flight.h"
#include "rpc/lobby.h"
#include "util/closer.h"
#include "util/list.h"

struct control;
struct core;
struct peer;

struct peers_ops {
	/* See the functions of peer.h. */
	void (*on_io)(struct peer *peer, uint32_t events);
	void (*go_on)(struct peer *peer);
	bool (*reap)(struct peer *peer, unsigned max);
	void (*resume)(struct peer *peer);
	/* Descriptors or memory ran out, or are free again: clients are accepted or not. */
	void (*set_accepting)(void *userdata, bool accepting);
};

struct peers {
	struct core *core;
	struct control *control;
	int epoll; /* of all clients, see on_peers() */
	sd_event_source *io;
	struct list list; /* peer.link */
	struct list resumed; /* peer.resumed */
	sd_event_source *resumer; /* enabled while there is one */
	struct list reaping; /* peer.reaping */
	sd_event_source *reaper; /* enabled while there is one */
	struct lobby lobby; /* peer.place */
	struct flights flights;
	struct closing *next; /* will close the client accepted next; NULL: not created yet */
	struct closing *room; /* see peers_get_room(); NULL: not created yet */
	bool has_no_room; /* there was no memory for it, so some clients are not read */
	struct closing *refused; /* bound to NOBODY, so that peers_refuse() cannot fail to bind */
	const struct peers_ops *ops;
	void *userdata;
};

/* PEERS is all zero. On failure too, peers_done() is to be called. */
int peers_init(struct peers *peers, sd_event *loop, struct core *core, struct control *control,
	       const struct peers_ops *ops, void *userdata);
void peers_done(struct peers *peers); /* all peers must be gone */

int peers_add(struct peers *peers, struct peer *peer, uid_t uid); /* 0 or -ENOMEM */
void peers_remove(struct peers *peers, struct peer *peer);
/* All read from their clients again, if that was paused. */
void peers_resume_all(struct peers *peers);
/*
 * Selects the epoll EVENTS of PEER's socket; 0: none. Returns 0 or a negative errno; cannot fail if events
 * were selected before.
 */
int peers_await(struct peers *peers, struct peer *peer, uint32_t events);
/* PEER ends: it is freed in a later turn, when no caller uses it any more. */
void peers_reap(struct peers *peers, struct peer *peer);
/* Calls peers_ops.go_on in a turn of its own. */
void peers_resume(struct peers *peers, struct peer *peer);

/* Creates what closing the next client will need. 0 or a negative errno. */
int peers_make_closings(struct peers *peers);
/* A closing with room for all descriptors that a packet can carry, not bound yet; NULL: there is no memory. */
struct closing *peers_get_room(struct peers *peers);
void peers_put_room(struct peers *peers, struct closing *room); /* gives back an unused one */
/* SOCK was accepted, but will not be served. CLOSING closes it, without a charge to a user. */
void peers_refuse(struct closing *closing, int sock);

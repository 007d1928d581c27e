/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * State that the clients' sockets share: the set that watches them, their turns in the loop, the
 * newcomers, and room for the descriptors that a packet may carry.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "rpc/newcomers.h"
#include "rpc/sent_fds.h"
#include "rpc/turns.h"
#include "util/closer.h"
#include "util/list.h"

struct control;
struct core;
struct hot;
struct peer;

struct peers {
	struct core *core;
	struct control *control;
	size_t max_queued_bytes; /* of each outbox */
	struct hot *hot; /* watches the sockets of all clients */
	struct list list; /* peer.link */
	struct turns turns; /* peer.turn */
	struct list paused; /* peer.pausing: their clients are not read */
	struct list unpaused; /* peer.pausing: they will be read again */
	sd_event_source *unpauser; /* enabled while UNPAUSED has entries */
	struct newcomers newcomers; /* peer.place */
	struct sent_fds_list sent_fds_list;
	struct closing *next; /* will close the socket of the next client; NULL: not created yet */
	struct closing *room; /* for the next packet, see peers_get_room(); NULL: not created yet */
	bool has_no_room; /* there was no memory for ROOM, so some clients are not read */
	struct closing *refused; /* bound to no user, so that peers_refuse() cannot fail to bind */
	/* Called when descriptors or memory have run out, or are free again: new clients are accepted only if ACCEPTING. */
	void (*set_accepting)(void *userdata, bool accepting);
	void *userdata;
};

/* PEERS must be all zero. Call peers_done() also on failure. */
int peers_init(struct peers *peers, struct core *core, struct control *control,
	       size_t max_queued_bytes, void (*set_accepting)(void *userdata, bool accepting),
	       void *userdata);
void peers_done(struct peers *peers); /* all peers must be gone */

int peers_add(struct peers *peers, struct peer *peer, struct owner owner); /* 0 or -ENOMEM */
void peers_remove(struct peers *peers, struct peer *peer);
/* Makes the peers of PAUSED (peer.pausing) read from their clients again: some in each turn of the loop. */
void peers_resume_list(struct peers *peers, struct list *paused);
/* The same for all who wait for descriptors or memory. */
void peers_resume_all(struct peers *peers);
/*
 * Selects the epoll EVENTS of PEER's socket instead of those that were selected; 0: none. Returns 0 or a negative
 * errno. Cannot fail if some events were selected until now.
 */
int peers_await(struct peers *peers, struct peer *peer, uint32_t events);

/* Creates the closings that the next client and the next packet will need. Returns 0 or a negative errno. */
int peers_make_closings(struct peers *peers);
/* A closing with room for all descriptors that a packet can carry, not bound yet; NULL: there is no memory. */
struct closing *peers_get_room(struct peers *peers);
/* Takes back ROOM, which peers_get_room() has returned and which was not used. */
void peers_put_room(struct peers *peers, struct closing *room);
/*
 * Descriptors among the packets that a client has sent, and that nobody has read when its session ends, could block
 * whoever closes them. So this receives the packets at SOCK, and makes a thread of CLASS close their descriptors, which
 * are charged to OWNER. SOCK must be shut down, so that no more packets can come. Returns true if the socket is empty.
 * Stops early and returns false if the daemon has too few free descriptors or memory, if too many descriptors of the owner
 * wait to be closed, or after some hundred packets. Then the kernel closes the descriptors that are left when the socket
 * is closed.
 */
bool peers_discard_unread(struct peers *peers, int sock, struct owner owner,
			  enum closer_class class);
/* Makes CLOSING, which is not bound yet, close SOCK, whose client will not be served. SOCK is charged to no user. */
void peers_refuse(struct closing *closing, int sock);

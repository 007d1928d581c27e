/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Sends a client its replies, events and notices: into its socket, or into its outbox while the socket has no room.
 * What is sent is noted in the ledger first, see struct ledger_session.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/object/session.h"
#include "proto/rdmabroker.pb-c.h"

struct peer;

uint32_t sending_wants(const struct peer *peer); /* the epoll events that PEER waits for now */
/* To be called when the result of sending_wants() can have changed. */
void sending_update(struct peer *peer);
void sending_changed(struct peer *peer); /* PEER's outbox has changed */
/*
 * The peer over whose socket PEER's replies go, if it does not accept them now. NULL: PEER can make requests.
 */
struct peer *sending_find_full(const struct peer *peer);

/*
 * Sends FRAME, the reply to PEER's request, with the descriptor FD; -1: none. If PEER.apart, it goes over the socket of
 * another session. If FD cannot be sent, returns the reason, which the caller then sends as the reply. Otherwise
 * returns 0; other errors end the session.
 */
int sending_reply(struct peer *peer, const Rdmabroker__Frame *frame, int fd,
		  struct failure *failure);
/* The same for a packed reply without a descriptor. */
void sending_packed_reply(struct peer *peer, const uint8_t *buf, size_t len, uint32_t serial);
/* If notices were dropped and the queue is empty, reports to the client how many. Returns 0 or a negative errno. */
int sending_tell_lost(struct peer *peer);

/* For struct session_ops. USERDATA: the peer. */
void sending_event(void *userdata, const struct session_event *event);
void sending_wake(void *userdata);
void sending_forget(void *userdata, struct id *id);
bool sending_notice(void *userdata, const struct notice *notice);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Connection requests that wait until it is known who their peer is. The client has not been told of them. They count
 * in the listener's backlog.
 */

#include <stdbool.h>

struct fabric_event;
struct listener;
struct peerid;
struct session;
struct sockaddr;
struct wish;

/*
 * Asks who the peer of the request in EVENT is, which policy decides about as WISH. Takes over EVENT.request, and calls
 * listen_on_answer() later. Returns 0 or, if nobody can be asked, -ENOTCONN: *RET_UNKNOWN, which the caller has to free,
 * says why (NULL: out of memory).
 */
int asked_add(struct listener *listener, struct session *session, const struct wish *wish,
	      const struct fabric_event *event, struct peerid **ret_unknown);
/*
 * Whether requests of PEER's address, whatever their port, have half of the listener's backlog. No more of them may wait,
 * so that an address whose helper does not answer does not close the listener to all others.
 */
bool asked_is_full(const struct listener *listener, const struct sockaddr *peer);
/* LISTENER.id has changed: another session has taken the listener over. */
void asked_move(struct listener *listener);
/* Rejects all requests of LISTENER that wait, because it ends. */
void asked_drop(struct listener *listener);

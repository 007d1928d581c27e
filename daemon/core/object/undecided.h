/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Connection requests that wait until it is known who their peer is. The client has not been told of them. They count
 * in the listener's backlog.
 */

#include <stdbool.h>
#include <stdint.h>

struct fabric_event;
struct id;
struct listener;
struct peerid;
struct policy_question;
struct sockaddr;

/* It is known who the peer of the request in EVENT is, or why that is not known. Takes ANSWER; NULL: out of memory. */
typedef void (*undecided_fn)(struct id *listening, struct fabric_event *event,
			     struct peerid *answer);

/*
 * Asks who the peer of the request in EVENT is, which policy decides about as QUESTION. PEER_QPN as in inquiry_new().
 * Takes over EVENT.request, and calls DONE later. Returns 0 or, if nobody can be asked, -ENOTCONN: *RET_UNKNOWN, which
 * the caller has to free, says why (NULL: out of memory).
 */
int undecided_add(struct listener *listener, const struct policy_question *question,
		  uint32_t peer_qpn, const struct fabric_event *event, undecided_fn done,
		  struct peerid **ret_unknown);
/*
 * Whether requests of PEER's address, whatever their port, have half of the listener's backlog. No more of them may
 * wait, so that an address whose helper does not answer does not close the listener to all others.
 */
bool undecided_is_full(const struct listener *listener, const struct sockaddr *peer);
/* LISTENER.id has changed: another session has taken the listener over. */
void undecided_move(struct listener *listener);
/* Rejects all requests of LISTENER that wait, because it ends. */
void undecided_drop(struct listener *listener);

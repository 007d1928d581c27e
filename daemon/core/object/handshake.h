/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* How far the two ends of a connection have agreed: from the connection request to the end of the time wait. */

#include <stdbool.h>
#include <stdint.h>

#include "core/object/id_state.h"

struct backlog;
struct fabric_event;
struct fabric_id;
struct fabric_lookup;
struct held;
struct ledger;
struct ledger_id;
struct ledger_request;
struct share;

/* Whether the QP number that was offered is the client's, see verbs/qpcheck.h. */
struct qpcheck {
	struct fabric_lookup *lookup; /* NULL: none is pending */
	char device[64];
	uint32_t qpn;
	int answer; /* the result of fabric_qp_belongs() */
	uint64_t request; /* the session.request that has asked; 0: none */
	/* why it is unknown whose the QP is, although qpcheck_run() last returned 0; NULL: it is the client's */
	const char *unknown;
};

/* What is being found out about the SL of its TOS, see admit/priority.h. All zero: it was not asked. */
struct priority {
	struct fabric_id *asks; /* resolves a route; NULL: none */
	int tos; /* for which it asks, or has failed */
	int error; /* with which it has failed, a negative errno; 0: it has not */
};

struct handshake {
	bool passive; /* the id was created by a connection request */
	struct fabric_event *request; /* the connection request, until it is answered; NULL: none */
	struct ledger_request *request_row; /* its row in the ledger; NULL: it is not kept */
	/* the listener's backlog, which counts this request until it is answered; NULL: none */
	struct backlog *backlog;

	struct qpcheck qp_check;
	uint32_t qpn; /* of the last connect or accept that was allowed; 0: none */
	/* n of the ACK timeout, 4.096 us * 2^n, in the RTS attributes that the client got; 0: it got none */
	uint8_t qp_timeout;
	struct priority priority; /* of the connection that the id accepts */
	struct held *held; /* the connect or accept that is held back; NULL: none */

	/* the peer has disconnected and waits for the reply, which the client's disconnect or destroy sends */
	bool unconfirmed;
	/* the state before ID_DISCONNECTING; ID_IDLE: the id was not in that state, or it is not known */
	enum id_state ended_from;
	struct share *timewait; /* the time wait of QPN, see timewait.h; NULL: none */
	bool timewait_over; /* the time wait must not begin again */
};

/*
 * Without the time wait and what is held back, which timewait_move() moves, the state of the end, and what waits for an
 * answer.
 */
void handshake_move(struct handshake *to, struct handshake *from);
void handshake_save(const struct handshake *handshake, struct ledger_id *row);
/* Without the state of the end. */
void handshake_load(struct handshake *handshake, const struct ledger_id *row);

/* REQUEST was answered. */
void handshake_drop_request(struct handshake *handshake);
/*
 * The request's contents, which its answer needs, for a process that takes it over. SESSION and ID are the numbers of
 * its owner. False: there is no room.
 */
bool handshake_save_request(struct handshake *handshake, struct ledger *ledger, uint64_t session,
			    uint32_t id);
void handshake_forget_row(struct handshake *handshake, struct ledger *ledger);
/* FABRIC: the request's id. Returns 0 or -ENOMEM. */
int handshake_load_request(struct handshake *handshake, const struct ledger_request *row,
			   struct fabric_id *fabric);

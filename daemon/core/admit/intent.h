/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Intents: what a client intends to do, as policy is asked to decide about it. */

#include <rdma/rdma_cma.h>

#include "fabric/fabric.h"
#include "policy/policy.h"
#include "proto/addr.h"

struct id;
struct peerid;

/* WHAT ("listen on") and OBJECT ("10.9.0.1:7471") describe it in the journal. */
struct intent {
	struct policy_question question; /* decide_ask() fills in the client's identity */
	struct policy *policy; /* that decides; NULL: the one in force */
	const char *what;
	const char *object; /* NULL: made from ADDRS */
	/* "A", or "A to B"; NULL: none */
	const struct sockaddr *addrs[2];
	/* the id that it is about; for a new connection request, the listener; NULL: none */
	const struct id *id;
	/* Who the peer is, see peerid.h. ASKED false: it was not asked (yet); then PEERID is NULL. */
	bool asked;
	const struct peerid *peerid;
	bool was_asked; /* as ASKED, or a previous process of the daemon has asked, whose answer is lost */
	uint32_t peer_qpn; /* of a new connection request; 0: not known */
	bool is_addition; /* it was decided before, and what is reported only adds to that */
};

/*
 * Returns INTENT's object as text, which can be in BUF. The text is made only here, because few decisions are reported.
 */
#define INTENT_OBJECT_LEN (2 * ADDR_STRLEN + 4 + 20)
const char *intent_object(const struct intent *intent, char buf[INTENT_OBJECT_LEN]);

/* An intent about an id, with the facts that come from the fabric. */
struct id_intent {
	struct intent intent;
	struct fabric_id_info info;
};

void intent_to_listen(struct id_intent *ret, struct id *id);
void intent_to_connect(struct id_intent *ret, struct id *id);
/*
 * REQUEST arrived at a listener of port space PS. EVENT has the private data; NULL: the private data is no longer
 * known.
 */
void intent_to_accept(struct id_intent *ret, struct fabric_id *request, enum rdma_port_space ps,
		      const struct fabric_event *event);
/* The same, for the id of a connection request that the client was told of. */
void intent_to_accept_id(struct id_intent *ret, struct id *id);
/* It is known who the peer is, or why that is not known. PEERID NULL: out of memory. */
void intent_set_peerid(struct intent *intent, const struct peerid *peerid);
void intent_to_join(struct id_intent *ret, struct id *id, const struct sockaddr *addr);

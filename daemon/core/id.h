/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An id is the broker's counterpart of an rdma_cm_id (rdma_cma.h). The client names it by a handle of its
 * session. Its states are in id_state.h. What it can do is in the headers of the verbs: option.h, bind.h
 * (local addresses), listen.h (the passive side), resolve.h (address and route resolution), conn.h
 * (connections), group.h (multicast) and handover.h (passing ids on to other sessions). The fabric's events
 * come to dispatch.c.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/admission.h"
#include "core/id_state.h"
#include "core/qpcheck.h"
#include "core/session.h"
#include "proto/addr.h"
#include "util/account.h"

struct backlog;
/*
 * This many events of an id may wait to be sent without being charged as queued bytes: as many as the peer
 * and the network can cause without the client's doing. The charge for the id pays for them.
 */
#define ID_EVENTS_MAX 8

struct entry;
struct held;
struct listener;
struct plan;
struct token;

struct id {
	struct session *session;
	uint32_t handle;
	struct fabric_id *fabric;
	enum rdma_port_space ps;
	enum id_state state;
	uint64_t since_ms; /* CLOCK_MONOTONIC: when it was created, or taken over */
	uint64_t state_since_ns; /* likewise: when it entered its state */
	struct charge charge;

	/* What admitted it; RULE belongs to POLICY. NULL: not decided yet. */
	struct policy *policy;
	const struct policy_rule *rule;
	struct tally *tally; /* RULE's */
	struct admitted admitted; /* as a listener, a connection or a connection request */
	bool passive; /* created by a connection request */

	int tos_asked; /* by the client; -1: none */
	int tos; /* in force; -1: the kernel's default */
	int route_tos; /* the TOS that the route was resolved with; -1: the kernel's default */
	bool reuseaddr_asked;
	bool reuseaddr; /* in force */
	int afonly; /* in force; -1: not set */
	int ack_timeout; /* likewise */
	uint64_t resolve_until_ms; /* CLOCK_MONOTONIC: deadline of the address resolution */
	unsigned route_timeout_ms; /* for the route resolution that follows; 0: none follows */
	struct plan *plan; /* the connect that follows; NULL: none */
	bool info_pending; /* the next event has to carry what the id is bound to */
	struct qpcheck qp_check;
	uint32_t qpn; /* offered to the peer; 0: none */
	uint8_t qp_timeout; /* ACK timeout of its attributes for RTS: 4.096 us * 2^n */
	struct entry *timewait; /* NULL: its QP number is not in time wait, see timewait.h */
	struct held *held; /* its connect or accept that is held back; NULL: none */
	struct listener *listener; /* of a listening id */
	struct list groups; /* group.link: joined */
	struct list
		events; /* waiting to be sent to the client, and covered by the id's charge; kept by rpc/ */
	struct token *token; /* NULL: not exported */
	struct fabric_event *request; /* the connection request, until it is answered; NULL: none */
	struct backlog *backlog; /* likewise: of its listener, which counts it */
};

/* True: only the handle is left, there is no fabric id. */
static inline bool id_is_empty(const struct id *id)
{
	return id->state == ID_MOVED || id->state == ID_REVOKED;
}

static inline bool id_is_datagram(const struct id *id)
{
	return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB;
}

/*
 * HANDLE is chosen by the client, from 1 up. BARE: the fabric's id is not created yet. The only verb for a
 * bare id is resolve_addr(); if that is refused, the id must be freed.
 */
int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   bool bare, struct failure *failure);
/* EVENT's connection request becomes an id of SESSION; on failure it stays the caller's. */
int id_new_request(struct id **ret, struct session *session, const struct fabric_event *event,
		   enum rdma_port_space ps, struct failure *failure);
/* An id that is charged and has a handle (HANDLE 0: one that is chosen here), but no fabric id yet. */
int id_new_empty(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
		 enum id_state state, struct failure *failure);
struct id *id_free(struct id *id);

int id_make(struct id *id, struct failure *failure); /* creates the fabric's id of a bare id */
void id_own_fabric(struct id *id, struct fabric_id *fabric); /* takes over an existing one */
int id_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret,
	       struct failure *failure);

/* For rpc/, which knows nothing of the members: */

static inline uint32_t id_get_handle(const struct id *id)
{
	return id->handle;
}

static inline struct session *id_get_session(const struct id *id)
{
	return id->session;
}

static inline enum rdma_port_space id_get_port_space(const struct id *id)
{
	return id->ps;
}

static inline enum id_state id_get_state(const struct id *id)
{
	return id->state;
}

/* CLOCK_MONOTONIC: when it was created, or taken over. */
static inline uint64_t id_get_since_ms(const struct id *id)
{
	return id->since_ms;
}

static inline const struct policy_rule *id_get_rule(const struct id *id)
{
	return id->rule;
}

static inline uint32_t id_get_qpn(const struct id *id)
{
	return id->qpn;
}

/* In force; -1: the kernel's default. */
static inline int id_get_tos(const struct id *id)
{
	return id->tos;
}

/* The connection request, until it is answered; NULL: none. */
static inline const struct fabric_event *id_get_request(const struct id *id)
{
	return id->request;
}

/* False: only the handle is left, there is no fabric id. */
static inline bool id_get_info(const struct id *id, struct fabric_id_info *ret)
{
	if (!id->fabric)
		return false;
	fabric_id_get_info(id->fabric, ret);
	return true;
}

/* The events that wait to be sent to the owner: rpc's own list. */
static inline struct list *id_get_events(struct id *id)
{
	return &id->events;
}

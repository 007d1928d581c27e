/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An id is the broker's counterpart of an rdma_cm_id (rdma_cma.h). The client refers to it by a handle, a
 * number that is unique within the session. Its states are in id_state.h. Most verbs of ids are in headers of
 * their own: option.h, bind.h (local addresses), listen.h (the passive side), resolve.h and ahead.h (address and
 * route resolution), conn.h (connections), group.h (multicast) and handover.h (passing ids on to other sessions).
 * dispatch.c handles the fabric's events.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/admission.h"
#include "core/ahead.h"
#include "core/id_state.h"
#include "core/qpcheck.h"
#include "core/session.h"
#include "proto/addr.h"
#include "util/account.h"

struct backlog;
/*
 * This many of an id's events can wait to be sent without a charge for queued bytes, because the charge for the id
 * covers them. While the client does nothing, an id that has joined no multicast group gets at most this many.
 */
#define ID_EVENTS_MAX 8

struct entry;
struct held;
struct ledger_id;
struct listener;
struct token;

struct id {
	struct session *session;
	uint32_t handle;
	struct ledger_id *row; /* its row in the ledger; NULL: it is not kept */
	struct fabric_id *fabric;
	enum rdma_port_space ps;
	enum id_state state;
	uint64_t since_ms; /* CLOCK_MONOTONIC: when the id was created, or taken over */
	uint64_t state_since_ns; /* CLOCK_MONOTONIC: when the id entered its state */
	struct charge charge;

	/* The decision that allowed the id; RULE belongs to POLICY. NULL: policy decides at the id's next step. */
	struct policy *policy;
	const struct policy_rule *rule;
	struct tally *tally; /* the tally of RULE */
	/* counts the id in the limits of its rule, as a listener, a connection or a connection request */
	struct admitted admitted;
	bool passive; /* the id was created by a connection request */

	int tos_asked; /* requested by the client; -1: none */
	int tos; /* the TOS in force; -1: the kernel's default */
	int route_tos; /* the TOS that the route was resolved with; -1: the kernel's default */
	/* the ACK timeout that the route was resolved with; -1: none was set */
	int route_ack_timeout;
	bool reuseaddr_asked;
	bool reuseaddr; /* REUSEADDR is set */
	int afonly; /* AFONLY in force; -1: not set */
	int ack_timeout; /* ACK_TIMEOUT in force; -1: not set */
	/* CLOCK_MONOTONIC: deadline of the address resolution, and of a route that is resolved ahead */
	uint64_t resolve_until_ms;
	/* timeout of the route resolution that was requested with the address and has not begun yet; 0: none */
	unsigned route_timeout_ms;
	/* the resolution of the route before the client requests it, see ahead.h */
	struct ahead ahead;
	bool info_pending; /* the next event has to carry the id's addresses, device and port */
	struct qpcheck qp_check;
	uint32_t qpn; /* QP number of the last connect or accept that was allowed; 0: none */
	/* the n of the ACK timeout, 4.096 us * 2^n, in the attributes for RTS that the client got; 0: it got none */
	uint8_t qp_timeout;
	struct entry *timewait; /* the time wait of the QP number QPN, see timewait.h; NULL: none */
	bool timewait_over; /* the id's time wait is over, and must not begin again */
	struct held *held; /* the connect or accept that is held back, see timewait.h; NULL: none */
	/* the backlog and the charge of an id that listens; NULL: the id does not listen */
	struct listener *listener;
	struct list groups; /* group.link: the groups that the id has joined */
	/* the events that wait to be sent to the client, covered by the id's charge; kept by rpc/ */
	struct list events;
	struct token *token; /* the export of the id; NULL: not exported */
	struct fabric_event *request; /* the connection request, until it is answered; NULL: none */
	/* the listener's backlog, which counts this request until it is answered; NULL: none */
	struct backlog *backlog;
};

/* True: only the handle is left, because the id was taken over or revoked. */
static inline bool id_is_empty(const struct id *id)
{
	return id->state == ID_MOVED || id->state == ID_REVOKED;
}

static inline bool id_is_datagram(const struct id *id)
{
	return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB;
}

/* HANDLE is chosen by the client, from 1 up. Returns as the verbs in bind.h do, also -EINPROGRESS. */
int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   struct failure *failure);
/* The connection request in EVENT becomes an id of SESSION. On failure the caller keeps EVENT.request. */
int id_new_request(struct id **ret, struct session *session, const struct fabric_event *event,
		   enum rdma_port_space ps, struct failure *failure);
/* Creates an id that is charged and has a handle (HANDLE 0: the broker chooses one), but no fabric id yet. */
int id_new_empty(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
		 enum id_state state, struct failure *failure);
/* As id_new_empty(), for an id of a previous process, whose HANDLE the client knows. */
int id_new_again(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
		 struct failure *failure);
struct id *id_free(struct id *id);

void id_own_fabric(struct id *id, struct fabric_id *fabric); /* the id takes over FABRIC */
int id_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret,
	       struct failure *failure);

/* Getters for rpc/, which does not access the members: */

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

/* CLOCK_MONOTONIC: when the id was created, or taken over. */
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

/* The TOS in force; -1: the kernel's default. */
static inline int id_get_tos(const struct id *id)
{
	return id->tos;
}

/* The connection request, until it is answered; NULL: none. */
static inline const struct fabric_event *id_get_request(const struct id *id)
{
	return id->request;
}

/* False: the id has no fabric id, and RET is not set. */
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

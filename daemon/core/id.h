/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An id is the broker's counterpart of an rdma_cm_id. The client refers to it by its handle, a number that is unique
 * within the session. Most verbs of ids are in option.h, bind.h, listen.h, resolve.h, ahead.h, conn.h, group.h and
 * handover.h.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/admission.h"
#include "core/ahead.h"
#include "core/id_state.h"
#include "core/qpcheck.h"
#include "core/restriction.h"
#include "core/session.h"
#include "proto/addr.h"
#include "util/account.h"

struct backlog;
/*
 * The charge for an id covers up to this many queued events of the id; further ones are charged as queued bytes.
 * While the client does nothing, an id that has joined no multicast group does not exceed this number.
 */
#define ID_EVENTS_MAX 8

struct entry;
struct held;
struct inquiry;
struct ledger_id;
struct ledger_request;
struct listener;
struct peerid;
struct token;
struct whois_entry;

struct id {
	struct session *session;
	uint32_t handle;
	struct ledger_id *row; /* in the ledger; NULL: the id is not kept */
	struct fabric_id *fabric;
	enum rdma_port_space ps;
	enum id_state state;
	uint64_t since_ms; /* CLOCK_MONOTONIC: when the id was created, or taken over */
	uint64_t state_since_ns; /* CLOCK_MONOTONIC: when the id entered its state */
	struct charge charge;
	struct restricted restricted; /* counted for the session's restriction */
	struct whois_entry *whois; /* NULL: the id is not in the index */

	/* The decision that allowed the id; RULE belongs to POLICY. NULL: policy decides at the id's next step. */
	struct policy *policy;
	const struct policy_rule *rule;
	struct tally *tally; /* of RULE */
	/* the admission of the listener, connection or connection request */
	struct admitted admitted;
	bool passive; /* the id was created by a connection request */
	bool knows_peer; /* it was asked who the peer is; PEERID can be NULL, if memory ran out */
	bool was_asked; /* the same, or a previous process of the daemon has asked, whose answer is lost */
	struct peerid *peerid; /* NULL: policy did not need it */
	struct inquiry *inquiry; /* who the peer is, before ADDR_RESOLVED is handled; NULL: none */

	int tos_asked; /* requested by the client; -1: none */
	int tos; /* the TOS in force; -1: the kernel's default */
	int route_tos; /* the TOS that the route was resolved with; -1: the kernel's default */
	/* the ACK timeout that the route was resolved with; -1: none was set */
	int route_ack_timeout;
	bool reuseaddr_asked;
	bool reuseaddr; /* REUSEADDR is set */
	int afonly; /* AFONLY in force; -1: not set */
	int ack_timeout; /* ACK_TIMEOUT in force; -1: not set */
	/* CLOCK_MONOTONIC: deadline of the address resolution, and of a route resolution ahead (ahead.h) */
	uint64_t resolve_until_ms;
	/* timeout of a route resolution that was requested with the address and has not begun; 0: none */
	unsigned route_timeout_ms;
	struct ahead ahead;
	bool info_pending; /* the next event has to have the id's addresses, device and port */
	struct qpcheck qp_check;
	uint32_t qpn; /* of the last connect or accept that was allowed; 0: none */
	/* n of the ACK timeout, 4.096 us * 2^n, in the RTS attributes that the client got; 0: it got none */
	uint8_t qp_timeout;
	struct entry *timewait; /* the time wait of QPN, see timewait.h; NULL: none */
	bool timewait_over; /* the time wait must not begin again */
	/* the peer has disconnected and waits for the reply, which the client's disconnect or destroy sends */
	bool unconfirmed;
	/* the state before ID_DISCONNECTING; ID_IDLE: the id was not in that state, or it is not known */
	enum id_state ended_from;
	struct held *held; /* the connect or accept that is held back; NULL: none */
	struct listener *listener; /* NULL: the id does not listen */
	struct list groups; /* group.link */
	/* kept by rpc/: the queued events that the id's charge covers */
	struct list events;
	struct token *token; /* NULL: not exported */
	struct fabric_event *request; /* the connection request, until it is answered; NULL: none */
	struct ledger_request *request_row; /* its row in the ledger; NULL: it is not kept */
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

/* The client chooses HANDLE, from 1 up. For the result see bind.h. */
int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   struct failure *failure);
/* The connection request in EVENT becomes an id of SESSION. On failure the caller keeps EVENT.request. */
int id_new_request(struct id **ret, struct session *session, const struct fabric_event *event,
		   enum rdma_port_space ps, struct failure *failure);
/* Creates an id without a fabric id. HANDLE 0: the broker chooses the handle. */
int id_new_empty(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
		 enum id_state state, struct failure *failure);
/* As id_new_empty(), for an id of a previous process, whose HANDLE the client knows. */
int id_new_again(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
		 struct failure *failure);
struct id *id_free(struct id *id);

void id_own_fabric(struct id *id, struct fabric_id *fabric); /* the id takes over FABRIC */
void id_set_peerid(struct id *id,
		   struct peerid *peerid); /* it was asked who the peer is; takes PEERID */
void id_forget_peerid(struct id *id); /* the peer will be another one */
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

/* False: it was not asked who the peer is. *RET can be NULL, see peerid_why(). */
static inline bool id_get_peerid(const struct id *id, const struct peerid **ret)
{
	*ret = id->peerid;
	return id->knows_peer;
}

static inline uint32_t id_get_qpn(const struct id *id)
{
	return id->qpn;
}

/* -1: the kernel's default. */
static inline int id_get_tos(const struct id *id)
{
	return id->tos;
}

/* NULL: the id is no connection request, or was answered. */
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

/* Returns the number of paths, see fabric_id_get_paths(). */
static inline size_t id_get_paths(const struct id *id, struct ibv_sa_path_rec ret[PATHS_MAX])
{
	return id->fabric ? fabric_id_get_paths(id->fabric, ret) : 0;
}

static inline struct list *id_get_events(struct id *id)
{
	return &id->events;
}

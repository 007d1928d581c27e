/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An id: what rdma_cma.h calls an rdma_cm_id, seen from the client by a handle of its session.
 *
 *            bind              listen
 *   IDLE ───────────> BOUND ───────────> LISTENING ──CONNECT_REQUEST──> (a new id in REQUEST)
 *     │ resolve_addr    │ ^
 *     └───> ADDR_QUERY <┘ │ADDR_ERROR
 *               │   └─────┘
 *               v ADDR_RESOLVED
 *          ADDR_RESOLVED ──resolve_route──> ROUTE_QUERY ──ROUTE_RESOLVED──> ROUTE_RESOLVED
 *               ^─────────ROUTE_ERROR────────────┘                                │ connect
 *                                                                                 v
 *   REQUEST ──accept──> ACCEPTED                  RESPONDED <─CONNECT_RESPONSE─ CONNECTING
 *      │ reject             │ ESTABLISHED             │ establish                 │
 *      │                    └──────> ESTABLISHED <────┘                           │
 *      │                       disconnect │ └──────DISCONNECTED────┐              │
 *      │                                  v                        v              │
 *      │                           DISCONNECTING ─DISCONNECTED─> DISCONNECTED     │
 *      v                                                                          │
 *    FAILED <────── REJECTED, UNREACHABLE, CONNECT_ERROR of CONNECTING, ACCEPTED ─┘
 *
 *   any state ──DEVICE_REMOVAL──> REMOVED (it can only be destroyed)
 *
 * A request in a state that does not allow it is refused and leaves the id as it was. So does an event:
 * the kernel's word is passed on to the client in any case, but it moves the id only along this picture.
 * The files: id.c (life, options, events), bind.c (local addresses), listener.c (the passive side), conn.c
 * (connections).
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/session.h"
#include "util/account.h"

enum id_state {
	ID_IDLE, /* made, no address */
	ID_BOUND, /* has a local address */
	ID_LISTENING, /* takes requests */
	ID_ADDR_QUERY, /* address resolution is under way */
	ID_ADDR_RESOLVED, /* bound to a device, peer's address known */
	ID_ROUTE_QUERY, /* route resolution is under way */
	ID_ROUTE_RESOLVED, /* ready to connect */
	ID_CONNECTING, /* the request is under way */
	ID_RESPONDED, /* the peer accepted, the client has to confirm */
	ID_REQUEST, /* came from a listener, not answered yet */
	ID_ACCEPTED, /* accepted here, not confirmed by the peer */
	ID_ESTABLISHED,
	ID_DISCONNECTING, /* the client asked for it, the peer has not answered */
	ID_DISCONNECTED,
	ID_FAILED, /* no connection came of it, none will */
	ID_REMOVED, /* its device is gone */
	_ID_STATE_MAX,
};

struct listener;

struct id {
	struct session *session;
	uint32_t handle;
	struct fabric_id *fabric;
	enum rdma_port_space ps;
	enum id_state state;
	struct charge charge;

	/* Who admitted it; RULE belongs to POLICY. NULL: not decided yet. */
	struct policy *policy;
	const struct policy_rule *rule;

	int tos_asked; /* -1: not */
	int tos; /* in force; -1: the kernel's */
	bool reuseaddr_asked;
	bool reuseaddr; /* in force */
	struct listener *listener; /* of a listening id */
};

/* HANDLE is the client's choice, from 1 on. */
int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps);
/* FABRIC, a connect request, becomes an id of SESSION; on failure it stays the caller's. */
int id_new_request(struct id **ret, struct session *session, struct fabric_id *fabric,
		   enum rdma_port_space ps);
struct id *id_free(struct id *id);

/* The verbs: 0, a status with session.failure set, or a negative errno. */
int id_set_option(struct id *id, int option, int value);
int id_bind(struct id *id, const struct sockaddr *addr);
int id_listen(struct id *id, unsigned backlog);
int id_resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		    unsigned timeout_ms);
int id_resolve_route(struct id *id, unsigned timeout_ms);
int id_connect(struct id *id, struct rdma_conn_param *param);
int id_accept(struct id *id, struct rdma_conn_param *param);
int id_establish(struct id *id);
int id_reject(struct id *id, const void *data, size_t len);
int id_disconnect(struct id *id);
int id_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret);

/* From the fabric: moves the id, and tells the client. May free nothing of the session but requests. */
void id_dispatch(struct id *id, struct fabric_event *event);

const char *id_state_to_string(enum id_state state);

/* Among id.c, listener.c and conn.c: */
void id_set_state(struct id *id, enum id_state state);
int id_refuse_state(struct id *id, const char *verb);
void id_set_rule(struct id *id, const struct policy_rule *rule);
/* The TOS that RULE gives an id that asked for ASKED; -1: leave it to the kernel. */
int id_choose_tos(const struct id *id, const struct policy_rule *rule);
void id_fill_question(const struct fabric_id_info *info, struct policy_question *question);
void id_tell(struct id *id, struct session_event *event);

/* listener.c: the passive side */
void listener_on_request(struct listener *listener, struct fabric_event *event);
struct listener *listener_free(struct listener *listener);
/* conn.c: a decision that the ADDR_RESOLVED event makes possible */
int conn_admit(struct id *id);

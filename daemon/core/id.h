/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An id is the broker's counterpart of an rdma_cm_id (rdma_cma.h). The client names it by a handle of its
 * session.
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
 *   any state ──DEVICE_REMOVAL──> REMOVED, any state ──taken over by another session──> MOVED,
 *   LISTENING ──not allowed by a new policy──> REVOKED,
 *   IDLE, BOUND, LISTENING, ADDR_QUERY ──ended by an admin──> REVOKED.
 *   An id that is REMOVED, MOVED or REVOKED can only be destroyed.
 *
 *   For a datagram id CONNECTING is a service look-up, and ACCEPTED means that a look-up was answered. There is no
 *   handshake: CONNECTING ──ESTABLISHED──> ESTABLISHED.
 *
 * A client's request that the state does not allow is refused and leaves the id unchanged. An event that this
 * diagram does not show for the state is passed on to the client, but does not change the state. The
 * implementation is in id.c (creation, destruction, events), option.c, bind.c (local addresses), listener.c
 * (the passive side), resolve.c (address and route resolution), conn.c (connections), renew.c (decisions that
 * are repeated because the policy was replaced), group.c (multicast) and export.c (passing ids on to other
 * sessions).
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/decide.h"
#include "core/session.h"
#include "proto/addr.h"
#include "util/account.h"

enum id_state {
	ID_IDLE, /* created, has no address */
	ID_BOUND, /* has a local address */
	ID_LISTENING, /* receives connection requests */
	ID_ADDR_QUERY, /* address resolution is under way */
	ID_ADDR_RESOLVED, /* bound to a device, peer's address known */
	ID_ROUTE_QUERY, /* route resolution is under way */
	ID_ROUTE_RESOLVED, /* ready to connect */
	ID_CONNECTING, /* connect requested, the peer has not responded */
	ID_RESPONDED, /* the peer accepted, the client has to establish */
	ID_REQUEST, /* a connection request, not answered yet */
	ID_ACCEPTED, /* accepted here, not confirmed by the peer */
	ID_ESTABLISHED,
	ID_DISCONNECTING, /* disconnect requested here, the peer has not replied */
	ID_DISCONNECTED,
	ID_FAILED, /* not connected, and cannot connect any more */
	ID_REMOVED, /* its device is gone */
	ID_MOVED, /* taken over by another session: only the handle is left here */
	ID_REVOKED, /* ended by policy or an admin: likewise */
	_ID_STATE_MAX,
};

/*
 * The check that the QP offered for the id belongs to the client. It runs outside the loop, so it takes more
 * than one turn.
 */
struct qp_check {
	struct fabric_lookup *lookup; /* NULL: none is pending */
	char device[64];
	uint32_t qpn;
	int answer; /* the result, as of fabric_qp_belongs() */
	uint64_t request; /* the session.last_request that may use the result; 0: none */
};

struct backlog;
/*
 * This many events of an id may wait to be sent without being charged as queued bytes: as many as the peer
 * and the network can cause without the client's doing. The charge for the id pays for them.
 */
#define ID_EVENTS_MAX 8

struct entry;
struct held;
struct listener;

/*
 * A deferred connect: once its route is resolved, the id connects by itself. The client has created the QP
 * already, for the device, port and P_Key that it expects the route to use.
 */
struct plan {
	struct rdma_conn_param param; /* private_data points into the field below, or is NULL */
	uint8_t private_data[56];
	struct ibv_ece local_ece;
	char device[64];
	uint8_t port_num;
	uint16_t pkey_index;
	bool has_key; /* KEY is set: the pool may keep spares for this destination */
	struct pool_key key;
};

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
	bool untold; /* the next event has to carry what the id is bound to */
	struct qp_check qp_check;
	uint32_t qpn; /* offered to the peer; 0: none */
	uint8_t qp_timeout; /* ACK timeout of its attributes for RTS: 4.096 us * 2^n */
	struct entry *timewait; /* NULL: its QP number is not in time wait, see timewait.h */
	struct held *held; /* its connect or accept that is held back; NULL: none */
	struct listener *listener; /* of a listening id */
	struct list groups; /* group.link: joined */
	struct list
		events; /* waiting to be sent to the client, and covered by the id's charge; kept by rpc/ */
	unsigned n_events;
	struct export *export; /* NULL: not exported */
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
 * bare id is id_resolve_addr(); if that is refused, the id must be freed.
 */
int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   bool bare);
/* EVENT's connection request becomes an id of SESSION; on failure it stays the caller's. */
int id_new_request(struct id **ret, struct session *session, const struct fabric_event *event,
		   enum rdma_port_space ps);
/* Moves FROM to a new id of SESSION; FROM is left MOVED. On failure nothing has changed. */
int id_new_moved(struct id **ret, struct session *session, struct id *from);
struct id *id_free(struct id *id);

/*
 * The verbs return 0, a status with session.failure set, or a negative errno. Those that bind, listen,
 * resolve an address or offer a QP may return -EINPROGRESS: then the request is to be repeated when
 * session_ops.resume is called.
 */
int id_set_option(struct id *id, int option, int value);
int id_get_option(struct id *id, int option, int *ret);
int id_bind(struct id *id, const struct sockaddr *addr);
int id_bind_any(struct id *id); /* to the IPv4 wildcard address and a free port */
int id_listen(struct id *id, unsigned backlog);
/* ROUTE: resolve the route as soon as the address is resolved. PLAN: the connect that follows; NULL: none. */
int id_resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		    unsigned timeout_ms, bool route, const struct plan *plan);
int id_resolve_route(struct id *id, unsigned timeout_ms);
/* LOCAL_ECE may be NULL: none. */
int id_connect(struct id *id, const struct rdma_conn_param *param, const struct ibv_ece *local_ece);
int id_accept(struct id *id, const struct rdma_conn_param *param, const struct ibv_ece *local_ece);
int id_establish(struct id *id);
int id_notify(struct id *id, enum ibv_event_type event);
int id_reject(struct id *id, const void *data, size_t len, bool ece);
int id_join(struct id *id, const struct sockaddr *addr, uint32_t join_flags);
int id_leave(struct id *id, const struct sockaddr *addr);
/* The caller owns *RET_FD, which stands for the id. */
int id_export(struct id *id, int *ret_fd);
/*
 * SESSION takes over the id that FD stands for, if policy allows it. STATUS_NO_SUCH_ID: FD stands for no id.
 * On failure nothing has changed. FD stays the caller's.
 */
int id_import(struct session *session, int fd, struct id **ret);
int id_disconnect(struct id *id);
int id_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret);

/*
 * Handles an event of the fabric: changes the id's state and notifies the client. Must not free anything of
 * the session except new connection requests.
 */
void id_dispatch(struct id *id, struct fabric_event *event);

/*
 * The first is for sentences ("resolving the address"), the second is one word, for lists ("resolving-addr").
 */
const char *id_state_to_string(enum id_state state);
const char *id_state_to_word(enum id_state state);
/* "connect-request"; NULL: there is no such event. */
const char *id_event_to_word(enum rdma_cm_event_type type);

/* Shared by the files that implement ids: */
int id_charge(struct id *id, struct charge *charge); /* 0, STATUS_QUOTA or a negative errno */
int id_make(struct id *id); /* creates the fabric's id of a bare id */
void id_own_fabric(struct id *id, struct fabric_id *fabric); /* takes over an existing one */
void id_set_state(struct id *id, enum id_state state);
int id_refuse_state(struct id *id, const char *verb);
void id_set_rule(struct id *id, const struct policy_rule *rule);
void id_forget_rule(struct id *id); /* so that policy decides again */
void id_fill_question(const struct fabric_id_info *info, struct policy_question *question);
/* A policy request about an id, with the facts that come from the fabric. */
struct id_wish {
	struct wish wish;
	struct fabric_id_info info;
};
void wish_to_listen(struct id_wish *ret, struct id *id);
void wish_to_connect(struct id_wish *ret, struct id *id);
/* REQUEST came to a listener of port space PS. EVENT has its private data; NULL: no longer known. */
void wish_to_accept(struct id_wish *ret, struct fabric_id *request, enum rdma_port_space ps,
		    const struct fabric_event *event);
void id_tell(struct id *id, struct session_event *event);

/* bind.c: sets REUSEADDR after the id was bound */
int bind_late_reuseaddr(struct id *id, bool reuseaddr);
/* Checks that SESSION may use the port of ADDR, if that is below 1024. VERB as in "bind". */
int bind_check_port(struct session *session, enum rdma_port_space ps, const struct sockaddr *addr,
		    const char *verb);
/* Checks that SESSION may have ID, which is in state BOUND. WHAT as in "take over". */
int bind_decide_over(struct session *session, const struct id *id, const char *what);
/* listener.c: the passive side */
void listener_on_request(struct listener *listener, struct fabric_event *event);
struct listener *listener_free(struct listener *listener);
/* LISTENER belongs to ID from now on. CHARGE, on ID's user, replaces its old charge. */
void listener_set_id(struct listener *listener, struct id *id, struct charge *charge);
int listener_charge(struct session *session, struct charge *charge);
/* RULE now applies to LISTENER: reduces its backlog to that of RULE. */
void listener_set_rule(struct listener *listener, const struct policy_rule *rule);
/* REQUEST no longer counts in its listener's backlog. No effect if it did not count. */
void listener_answered(struct id *request);
/*
 * Rejects a connection request in the broker's name. The caller moves the id to FAILED. RETRY_AFTER_MS: for
 * REFUSAL_BUSY, else 0.
 */
void listener_turn_away(struct id *request, enum refusal_code code, uint32_t retry_after_ms,
			const char *text);
/* Adds to EVENT the QP attributes that the owner of REQUEST will need. */
int listener_fill_request(struct id *request, struct session_event *event);
/* group.c */
void wish_to_join(struct id_wish *ret, struct id *id, const struct sockaddr *addr);
void id_leave_all(struct id *id);
void id_enforce_groups(struct id *id); /* leaves those that policy no longer allows */
const struct sockaddr *group_addr(const struct fabric_join *join);
/* export.c */
struct export *export_free(struct export *export);
/*
 * conn.c: sends the connect or accept that was held back. For an accept, ID.request must be set; it is NULL
 * afterwards.
 */
void conn_resume(struct id *id, const struct rdma_conn_param *param, bool accept);
/*
 * resolve.c: address resolution failed with STATUS. True: it was started again, because its deadline has not
 * passed.
 */
bool conn_resolve_on(struct id *id, int status);
/* Called after an event was passed on: starts the step that the client has requested to follow it. */
void conn_go_on(struct id *id);
/*
 * 0: the client may offer QPN of DEVICE; STATUS_NOT_OWNER and others: it may not; -EINPROGRESS: not known
 * yet.
 */
int conn_check_qp(struct id *id, const char *device, uint32_t qpn);
/* As id_connect(), but also for an id with a plan. */
int conn_connect(struct id *id, const struct rdma_conn_param *param,
		 const struct ibv_ece *local_ece);
/*
 * Notifies the client that a step failed which the broker began for it. R is a status, with session.failure
 * set, or a negative errno.
 */
void conn_tell_failure(struct id *id, enum rdma_cm_event_type type, int r);
/*
 * True: the route uses the device, port and P_Key (from INIT, the QP attributes) that the plan expects.
 * False: there is no plan, or it did not match and was dropped.
 */
bool conn_keeps_plan(struct id *id, const struct ibv_qp_attr *init);
/*
 * Decides whether the id may connect. EARLY: before the address is resolved, when the known facts may not
 * suffice. SRC and DST, if not NULL, are addresses that the id does not have yet.
 */
int conn_decide(struct id *id, bool early, const struct sockaddr *src, const struct sockaddr *dst,
		struct policy_verdict *ret);
int conn_choose_tos(const struct id *id, const struct policy_rule *rule); /* -1: the kernel's */
/* VERDICT allows the id: sets its rule and applies the rule's settings, as far as they can still be changed. */
int conn_admit(struct id *id, const struct policy_verdict *verdict);
/* Applies the settings of the id's rule. No effect while no rule has decided. */
int conn_apply_settings(struct id *id);
/*
 * renew.c: if an earlier policy decided about the id, the policy in force decides again, and the id gets its
 * rule. No effect if the policy in force has decided already. Returns 0, a status or a negative errno.
 */
int id_renew(struct id *id); /* before its route is resolved */
int id_renew_connect(struct id *id); /* the rule must also allow the route's TOS */
/* For a connection request. Unless the result is 0, the peer was rejected and the id is FAILED. */
int id_renew_accept(struct id *id);
/* The settings that limit the client's connection parameters; NULL: none do. */
const struct policy_settings *id_get_caps(const struct id *id);

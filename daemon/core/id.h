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
 *   any state ──DEVICE_REMOVAL──> REMOVED, ──taken over by another session──> MOVED, and a listener
 *   ──policy changed──> REVOKED, which an admin can do to any id without a connection: all three can only be destroyed.
 *
 *   Of datagram ids "connecting" is a look-up, and nothing is confirmed: CONNECTING ──ESTABLISHED──>
 *   ESTABLISHED, and ACCEPTED is an answer given.
 *
 * A request in a state that does not allow it is refused and leaves the id as it was. So does an event:
 * the kernel's word is passed on to the client in any case, but it moves the id only along this picture.
 * The files: id.c (life and events), option.c, bind.c (local addresses), listener.c (the passive side),
 * resolve.c (the way to the peer), conn.c (connections), renew.c (what an earlier policy decided), group.c
 * (multicast), export.c (ids that change hands).
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/decide.h"
#include "core/session.h"
#include "proto/addr.h"
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
	ID_MOVED, /* another session has it: only its number is left here */
	ID_REVOKED, /* policy, or an admin, took it away: likewise */
	_ID_STATE_MAX,
};

/* Whose the QP is that is offered for the id; asked for off the loop, so it takes more than one turn. */
struct qp_check {
	struct fabric_lookup *lookup; /* NULL: none is under way */
	char device[64];
	uint32_t qpn;
	int answer; /* as fabric_qp_belongs() */
	uint64_t request; /* of the session, that may use the answer; 0: there is none */
};

struct backlog;
/*
 * So many of its events may wait without counting as bytes that the client does not read: what the peer and the
 * network can do to an id without its client. Room for them is part of what an id costs.
 */
#define ID_EVENTS_MAX 8

struct entry;
struct held;
struct listener;

/*
 * What an id does by itself once its way is known: it connects, with a QP that the client has made already
 * for where it believes the way to lead.
 */
struct plan {
	struct rdma_conn_param param; /* private_data points into the field below, or is NULL */
	uint8_t private_data[56];
	struct ibv_ece local_ece;
	char device[64];
	uint8_t port_num;
	uint16_t pkey_index;
	bool has_key; /* the next one who goes this way may have it from the pool */
	struct pool_key key;
};

struct id {
	struct session *session;
	uint32_t handle;
	struct fabric_id *fabric;
	enum rdma_port_space ps;
	enum id_state state;
	uint64_t since_ms; /* CLOCK_MONOTONIC: when it was made, or taken over */
	uint64_t state_since_ns; /* likewise: when it came into its state */
	struct charge charge;

	/* Who admitted it; RULE belongs to POLICY. NULL: not decided yet. */
	struct policy *policy;
	const struct policy_rule *rule;
	struct tally *tally; /* RULE's */
	struct admitted admitted; /* as a listener, a connection or a request */
	bool passive; /* came from a listener */

	int tos_asked; /* -1: not */
	int tos; /* in force; -1: the kernel's */
	int route_tos; /* that the route was resolved with; -1: the kernel's */
	bool reuseaddr_asked;
	bool reuseaddr; /* in force */
	int afonly; /* in force; -1: not set */
	int ack_timeout; /* likewise */
	uint64_t resolve_until_ms; /* CLOCK_MONOTONIC; while the address is resolved */
	unsigned route_timeout_ms; /* of the route that is to be resolved next; 0: none */
	struct plan *plan; /* what comes after that; NULL: it is the client's turn */
	bool untold; /* what the id is bound to was not told: the next event brings it */
	struct qp_check qp_check;
	uint32_t qpn; /* that was offered to the peer; 0: none */
	uint8_t qp_timeout; /* as its attributes for RTS say: 4.096 us * 2^n */
	struct entry *timewait; /* NULL: its QP number is not in time wait, see timewait.h */
	struct held *held; /* NULL: nothing of it is held back */
	struct listener *listener; /* of a listening id */
	struct list groups; /* group.link: joined */
	struct list
		events; /* those that wait to be sent to the client, and are paid for by the id; kept by rpc/ */
	unsigned n_events;
	struct export *export; /* NULL: not exported */
	struct fabric_event *request; /* as it came, until it is answered; NULL: it is no request */
	struct backlog *backlog; /* likewise: of its listener, where it counts */
};

/* Only its number is left: there is nothing behind it. */
static inline bool id_is_empty(const struct id *id)
{
	return id->state == ID_MOVED || id->state == ID_REVOKED;
}

static inline bool id_is_datagram(const struct id *id)
{
	return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB;
}

/*
 * HANDLE is the client's choice, from 1 on. BARE: without the fabric's id; all that may be asked of it is to
 * resolve an address, and if that is refused to be freed.
 */
int id_new(struct id **ret, struct session *session, uint32_t handle, enum rdma_port_space ps,
	   bool bare);
/* EVENT's request becomes an id of SESSION; on failure it stays the caller's. */
int id_new_request(struct id **ret, struct session *session, const struct fabric_event *event,
		   enum rdma_port_space ps);
/* What FROM is becomes an id of SESSION; FROM is left MOVED. On failure nothing has changed. */
int id_new_moved(struct id **ret, struct session *session, struct id *from);
struct id *id_free(struct id *id);

/*
 * The verbs: 0, a status with session.failure set, or a negative errno. Binding, and offering a QP, may end in
 * -EINPROGRESS: the request is to be made again when session_ops.resume says so.
 */
int id_set_option(struct id *id, int option, int value);
int id_get_option(struct id *id, int option, int *ret);
int id_bind(struct id *id, const struct sockaddr *addr);
int id_bind_any(struct id *id); /* to the IPv4 wildcard and a port that is free */
int id_listen(struct id *id, unsigned backlog);
/* ROUTE: the route is resolved as soon as the address is. PLAN: what is done then; NULL: nothing. */
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
/* *RET_FD, which stands for the id, is the caller's. */
int id_export(struct id *id, int *ret_fd);
/*
 * The id that FD stands for becomes SESSION's, if policy lets it have that. STATUS_NO_SUCH_ID: FD stands for
 * none. On failure nothing has changed. FD stays the caller's.
 */
int id_import(struct session *session, int fd, struct id **ret);
int id_disconnect(struct id *id);
int id_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret);

/* From the fabric: moves the id, and tells the client. May free nothing of the session but requests. */
void id_dispatch(struct id *id, struct fabric_event *event);

/* For a sentence: "resolving the address"; and as one word, for lists: "resolving-addr". */
const char *id_state_to_string(enum id_state state);
const char *id_state_to_word(enum id_state state);
/* "connect-request"; NULL: there is no such event. */
const char *id_event_to_word(enum rdma_cm_event_type type);

/* Among the files of ids: */
int id_charge(struct id *id, struct charge *charge); /* 0, STATUS_QUOTA or a negative errno */
int id_make(struct id *id); /* the fabric's id, of one that was made bare */
void id_own_fabric(struct id *id, struct fabric_id *fabric); /* one that another had */
void id_set_state(struct id *id, enum id_state state);
int id_refuse_state(struct id *id, const char *verb);
void id_set_rule(struct id *id, const struct policy_rule *rule);
void id_forget_rule(struct id *id); /* it is to be decided over anew */
void id_fill_question(const struct fabric_id_info *info, struct policy_question *question);
/* What an id wishes for, with the facts that are the fabric's. */
struct id_wish {
	struct wish wish;
	struct fabric_id_info info;
};
void wish_to_listen(struct id_wish *ret, struct id *id);
void wish_to_connect(struct id_wish *ret, struct id *id);
/* REQUEST came to a listener of PS. EVENT, which has its private data, may be NULL: not known any more. */
void wish_to_accept(struct id_wish *ret, struct fabric_id *request, enum rdma_port_space ps,
		    const struct fabric_event *event);
void id_tell(struct id *id, struct session_event *event);

/* bind.c: REUSEADDR asked for once the id is bound */
int bind_late_reuseaddr(struct id *id, bool reuseaddr);
/* SESSION may have the port of ADDR, where it is below 1024. VERB as in "bind". */
int bind_check_port(struct session *session, enum rdma_port_space ps, const struct sockaddr *addr,
		    const char *verb);
/* SESSION may have ID, which is bound and no more. WHAT as in "take over". */
int bind_decide_over(struct session *session, const struct id *id, const char *what);
/* listener.c: the passive side */
void listener_on_request(struct listener *listener, struct fabric_event *event);
struct listener *listener_free(struct listener *listener);
/* The listener is ID's now, and CHARGE is what its user pays for it. */
void listener_set_id(struct listener *listener, struct id *id, struct charge *charge);
int listener_charge(struct session *session, struct charge *charge);
/* RULE is the listener's now: not more requests may wait than it lets. */
void listener_set_rule(struct listener *listener, const struct policy_rule *rule);
/* A request does not wait any more. Nothing where it did not. */
void listener_answered(struct id *request);
/* A request that was not answered. The id is spent. RETRY_AFTER_MS: of a busy one, else 0. */
void listener_turn_away(struct id *request, enum refusal_code code, uint32_t retry_after_ms,
			const char *text);
/* What its owner will want to know of a request, for the event that tells of it. */
int listener_fill_request(struct id *request, struct session_event *event);
/* group.c */
void wish_to_join(struct id_wish *ret, struct id *id, const struct sockaddr *addr);
void id_leave_all(struct id *id);
void id_enforce_groups(struct id *id); /* those that policy does not allow any more are left */
const struct sockaddr *group_addr(const struct fabric_join *join);
/* export.c */
struct export *export_free(struct export *export);
/* conn.c: what was held back goes out. Of one that accepts ID.request is set, and is not afterwards. */
void conn_resume(struct id *id, const struct rdma_conn_param *param, bool accept);
/* resolve.c: address resolution failed with STATUS. True: it goes on, for its time is not over. */
bool conn_resolve_on(struct id *id, int status);
/* Once an event was told: what was asked for to come after it. */
void conn_go_on(struct id *id);
/* 0; STATUS_NOT_OWNER and others: QPN of DEVICE is not the client's to offer; -EINPROGRESS: not known yet. */
int conn_check_qp(struct id *id, const char *device, uint32_t qpn);
/* id_connect(), for a plan too. */
int conn_connect(struct id *id, const struct rdma_conn_param *param,
		 const struct ibv_ece *local_ece);
/* Of what was begun in the client's name: R is a status, with session.failure set, or a negative errno. */
void conn_tell_failure(struct id *id, enum rdma_cm_event_type type, int r);
/* The way leads where the plan says, by INIT, which is what the QP needs; or else there is no plan any more. */
bool conn_keeps_plan(struct id *id, const struct ibv_qp_attr *init);
/*
 * What policy says to it. EARLY: with what is known before the address is resolved, which may not be enough.
 * SRC and DST, where they are not NULL, are what the id does not know yet.
 */
int conn_decide(struct id *id, bool early, const struct sockaddr *src, const struct sockaddr *dst,
		struct policy_verdict *ret);
int conn_choose_tos(const struct id *id, const struct policy_rule *rule); /* -1: the kernel's */
/* VERDICT, which allows it, is all there is to decide: its settings are applied, as far as they still can. */
int conn_admit(struct id *id, const struct policy_verdict *verdict);
/* What the id's rule gives it, set; nothing where no rule has decided yet. */
int conn_apply_settings(struct id *id);
/*
 * renew.c: an id that an earlier policy has decided over is decided over by the one in force, and gets its
 * rule; nothing where that was the one. Returns 0, a status or a negative errno.
 */
int id_renew(struct id *id); /* before its route is resolved */
int id_renew_connect(struct id *id); /* the route too has to be what the rule allows */
/* A request. Unless 0 is returned its peer was turned away, and it has failed. */
int id_renew_accept(struct id *id);
/* What caps the client's wishes: NULL: nothing does. */
const struct policy_settings *id_get_caps(const struct id *id);

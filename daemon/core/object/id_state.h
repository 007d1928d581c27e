/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The states of an id:
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
 *   any state but MOVED and REVOKED ──DEVICE_REMOVAL──> REMOVED,
 *   any state but REMOVED and REVOKED ──imported by another session──> MOVED,
 *   LISTENING ──not allowed by a new policy──> REVOKED,
 *   IDLE, BOUND, LISTENING, ADDR_QUERY ──ended by an admin──> REVOKED.
 *   REMOVED, MOVED and REVOKED are final.
 *
 *   Not drawn: CONNECTING, RESPONDED, ACCEPTED ──disconnect──> DISCONNECTING,
 *   CONNECTING, ACCEPTED ──disconnect, if the connect or accept is held back (timewait.h)──> FAILED,
 *   RESPONDED, ACCEPTED ──DISCONNECTED──> DISCONNECTED, CONNECTING, RESPONDED ──ESTABLISHED──> ESTABLISHED,
 *   RESPONDED ──reject, REJECTED, UNREACHABLE, CONNECT_ERROR──> FAILED, REQUEST ──CONNECT_ERROR──> FAILED.
 *   If the broker itself fails or refuses to take a step, or ends an id in another state than those above, the id
 *   enters BOUND, FAILED or DISCONNECTING. After a restart, restore.c chooses the state.
 *
 *   If the route is resolved ahead (resolve_route.h), the id enters ROUTE_QUERY without a request, and accepts resolve_route
 *   in ROUTE_QUERY and ROUTE_RESOLVED too. If the route has to be resolved again, the id goes back to BOUND and
 *   ADDR_QUERY.
 *
 *   For a datagram id CONNECTING is a service look-up, and ACCEPTED means that a look-up was answered. There is no
 *   handshake: CONNECTING ──ESTABLISHED──> ESTABLISHED.
 *
 * A request that the state does not allow is refused. Other events do not change the state, but see TIMEWAIT_EXIT in
 * dispatch.c.
 */

/* In their order: ranges of them stand in switch statements. */
enum id_state {
	ID_IDLE, /* created, has no address */
	ID_BOUND, /* has a local address */
	ID_LISTENING, /* receives connection requests */
	ID_ADDR_QUERY, /* address resolution is under way */
	ID_ADDR_RESOLVED, /* bound to a device, the peer's address is resolved */
	ID_ROUTE_QUERY, /* route resolution is under way */
	ID_ROUTE_RESOLVED, /* ready to connect */
	ID_CONNECTING, /* connect requested, the peer has not responded */
	ID_RESPONDED, /* the peer accepted, the client has to establish */
	ID_REQUEST, /* a connection request, not answered yet */
	ID_ACCEPTED, /* accepted here, not confirmed by the peer */
	ID_ESTABLISHED,
	ID_DISCONNECTING, /* disconnect requested here, the peer has not replied */
	ID_DISCONNECTED,
	ID_FAILED, /* has no connection, and cannot connect any more */
	ID_REMOVED, /* its device is gone */
	ID_MOVED, /* imported by another session: only the handle is left here */
	ID_REVOKED, /* ended by the broker: only the handle is left */
	_ID_STATE_MAX,
};

/* A set of states. */
#define IN(state) (1u << (state))

/*
 * id_state_to_string() is for sentences ("resolving the address"), id_state_to_word() for lists ("resolving-addr").
 */
const char *id_state_to_string(enum id_state state);
const char *id_state_to_word(enum id_state state);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The operations that a client can request: the operation in rdmabroker.proto, its name, the permits of which the
 * session needs one, and its work (see turns.h). Permit 0: it is allowed only before Hello has succeeded. The handler
 * of NAME is do_NAME().
 *
 * ID: an operation about the id whose handle is the field ID of its request. Its permit is SESSION_PERMIT_CLIENT.
 */
#define OPERATIONS(X, ID)                                                            \
	X(HELLO, hello, 0, 4)                                                        \
	X(GOODBYE, goodbye, SESSION_PERMIT_CLIENT, 1)                                \
	X(CREATE_ID, create_id, SESSION_PERMIT_CLIENT, 1)                            \
	ID(DESTROY_ID, destroy_id, 1)                                                \
	ID(SET_OPTION, set_option, 1)                                                \
	ID(BIND_ADDR, bind_addr, 4)                                                  \
	ID(LISTEN, listen, 4)                                                        \
	ID(RESOLVE_ADDR, resolve_addr, 4)                                            \
	ID(RESOLVE_ROUTE, resolve_route, 1)                                          \
	ID(CONNECT, connect, 4)                                                      \
	ID(ACCEPT, accept, 4)                                                        \
	ID(ESTABLISH, establish, 1)                                                  \
	ID(REJECT, reject, 1)                                                        \
	ID(DISCONNECT, disconnect, 1)                                                \
	ID(INIT_QP_ATTR, init_qp_attr, 1)                                            \
	X(OPEN_DEVICE, open_device, SESSION_PERMIT_CLIENT, 4)                        \
	X(CLOSE_DEVICE, close_device, SESSION_PERMIT_CLIENT, 1)                      \
	X(GET_STATUS, get_status, SESSION_PERMIT_OBSERVE, 8)                         \
	ID(GET_OPTION, get_option, 1)                                                \
	ID(NOTIFY, notify, 1)                                                        \
	ID(JOIN_MULTICAST, join_multicast, 4)                                        \
	ID(LEAVE_MULTICAST, leave_multicast, 1)                                      \
	X(GET_LIMITS, get_limits, SESSION_PERMIT_CLIENT | SESSION_PERMIT_OBSERVE, 1) \
	ID(EXPORT_ID, export_id, 2)                                                  \
	X(IMPORT_ID, import_id, SESSION_PERMIT_CLIENT, 4)                            \
	X(LIST_DEVICES, list_devices, SESSION_PERMIT_CLIENT, 1)                      \
	X(EXPLAIN, explain, SESSION_PERMIT_OBSERVE, 8)                               \
	X(RELOAD, reload, SESSION_PERMIT_ADMIN, 32)                                  \
	X(TRY_RELOAD, try_reload, SESSION_PERMIT_ADMIN, 32)                          \
	X(GET_REFUSALS, get_refusals, SESSION_PERMIT_OBSERVE, 4)                     \
	X(CLEAR_REFUSALS, clear_refusals, SESSION_PERMIT_ADMIN, 32)                  \
	X(GET_SIGHTINGS, get_sightings, SESSION_PERMIT_OBSERVE, 4)                   \
	X(LIST_RULES, list_rules, SESSION_PERMIT_OBSERVE, 32)                        \
	X(LIST, list, SESSION_PERMIT_OBSERVE, 32)                                    \
	X(KICK, kick, SESSION_PERMIT_ADMIN, 4)                                       \
	X(DRAIN, drain, SESSION_PERMIT_ADMIN, 1)                                     \
	X(GET_METRICS, get_metrics, SESSION_PERMIT_OBSERVE, 32)                      \
	X(WATCH, watch, SESSION_PERMIT_OBSERVE, 1)                                   \
	X(RESTRICT_SESSION, restrict_session, SESSION_PERMIT_CLIENT, 16)             \
	X(PUBLISH_SOCKET, publish_socket, SESSION_PERMIT_CLIENT, 8)                  \
	X(RELEASE_SESSION, release_session, SESSION_PERMIT_CLIENT, 1)                \
	X(SERVE_PEERS, serve_peers, SESSION_PERMIT_PEERS, 1)                         \
	X(ANSWER_PEER, answer_peer, SESSION_PERMIT_PEERS, 1)                         \
	X(FIND_PEER, find_peer, SESSION_PERMIT_PEERS, 1)                             \
	X(WAKE, wake, SESSION_PERMIT_CLIENT, 1)                                      \
	X(ADOPT_SESSION, adopt_session, 0, 1)                                        \
	X(LEND_DEVICE, lend_device, SESSION_PERMIT_ADMIN, 1)

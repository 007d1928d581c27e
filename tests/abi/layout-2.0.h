/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The layout of the library's structs and the values of its enums in version 2.0 of the ABI, on 64-bit machines. If
 * this file does not compile, programs that were built with version 2.0 do not work any more. Later versions can
 * append members to structs.
 */

#include <limits.h>
#include <stddef.h>

#include "client/rdmabroker-admin.h"

#if ULONG_MAX > UINT_MAX
#define L(type, member, offset) \
	_Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define S(type, size) _Static_assert(sizeof(struct type) >= (size), #type)
#else
#define L(type, member, offset) _Static_assert(1, "")
#define S(type, size) _Static_assert(1, "")
#endif
#define E(value, number) _Static_assert((int)(value) == (number), #value)

L(rdmabroker_options, size, 0);
L(rdmabroker_options, socket, 8);
L(rdmabroker_options, flags, 16);
L(rdmabroker_options, call_timeout_ms, 20);
S(rdmabroker_options, 24);
L(rdmabroker_conn_param, size, 0);
L(rdmabroker_conn_param, private_data, 8);
L(rdmabroker_conn_param, private_data_len, 16);
L(rdmabroker_conn_param, qp_num, 24);
L(rdmabroker_conn_param, responder_resources, 28);
L(rdmabroker_conn_param, initiator_depth, 29);
L(rdmabroker_conn_param, retry_count, 30);
L(rdmabroker_conn_param, rnr_retry_count, 31);
L(rdmabroker_conn_param, flow_control, 32);
L(rdmabroker_conn_param, srq, 33);
L(rdmabroker_conn_param, unused, 34);
S(rdmabroker_conn_param, 40);
L(rdmabroker_ud_param, size, 0);
L(rdmabroker_ud_param, qp_num, 8);
L(rdmabroker_ud_param, qkey, 12);
L(rdmabroker_ud_param, ah_attr, 16);
S(rdmabroker_ud_param, 48);
L(rdmabroker_event, size, 0);
L(rdmabroker_event, type, 8);
L(rdmabroker_event, status, 12);
L(rdmabroker_event, id, 16);
L(rdmabroker_event, listen_id, 24);
L(rdmabroker_event, call, 32);
L(rdmabroker_event, conn, 40);
L(rdmabroker_event, ud, 48);
L(rdmabroker_event, join_context, 56);
L(rdmabroker_event, remote_ece, 64);
L(rdmabroker_event, rejected_by, 76);
L(rdmabroker_event, reject_code, 80);
L(rdmabroker_event, retry_after_ms, 84);
L(rdmabroker_event, text, 88);
S(rdmabroker_event, 96);
L(rdmabroker_failure, size, 0);
L(rdmabroker_failure, error, 8);
L(rdmabroker_failure, retry_after_ms, 12);
L(rdmabroker_failure, text, 16);
L(rdmabroker_failure, rule, 24);
S(rdmabroker_failure, 32);
L(rdmabroker_status, size, 0);
L(rdmabroker_status, version, 8);
L(rdmabroker_status, policy_error, 16);
L(rdmabroker_status, n_rules, 24);
L(rdmabroker_status, n_sessions, 28);
L(rdmabroker_status, n_listeners, 32);
L(rdmabroker_status, n_connections, 36);
L(rdmabroker_status, n_ids, 40);
L(rdmabroker_status, n_fds, 44);
L(rdmabroker_status, n_leases, 48);
L(rdmabroker_status, n_devices, 56);
L(rdmabroker_status, devices, 64);
L(rdmabroker_status, draining, 72);
L(rdmabroker_status, n_handshakes, 76);
L(rdmabroker_status, n_foreign_ids, 80);
L(rdmabroker_status, foreign_ids, 88);
L(rdmabroker_status, n_warnings, 96);
L(rdmabroker_status, warnings, 104);
L(rdmabroker_status, no_policy, 112);
L(rdmabroker_status, n_missing_names, 116);
S(rdmabroker_status, 120);
L(rdmabroker_device_status, size, 0);
L(rdmabroker_device_status, name, 8);
L(rdmabroker_device_status, node, 16);
L(rdmabroker_device_status, n_leases, 24);
L(rdmabroker_device_status, unused, 28);
S(rdmabroker_device_status, 32);
L(rdmabroker_holder, size, 0);
L(rdmabroker_holder, pid, 8);
L(rdmabroker_holder, uid, 12);
L(rdmabroker_holder, name, 16);
L(rdmabroker_holder, n_ids, 24);
L(rdmabroker_holder, state, 32);
L(rdmabroker_holder, local, 40);
L(rdmabroker_holder, peer, 168);
S(rdmabroker_holder, 296);
L(rdmabroker_foreign_ids, size, 0);
L(rdmabroker_foreign_ids, device, 8);
L(rdmabroker_foreign_ids, age_ms, 16);
L(rdmabroker_foreign_ids, n_holders, 24);
L(rdmabroker_foreign_ids, holders, 32);
L(rdmabroker_foreign_ids, n_more, 40);
L(rdmabroker_foreign_ids, n_nameless, 44);
S(rdmabroker_foreign_ids, 48);
L(rdmabroker_rule, size, 0);
L(rdmabroker_rule, file, 8);
L(rdmabroker_rule, line, 16);
L(rdmabroker_rule, text, 24);
L(rdmabroker_rule, n_allowed, 32);
L(rdmabroker_rule, n_rejected, 40);
L(rdmabroker_rule, n_busy, 48);
L(rdmabroker_rule, n_now, 56);
L(rdmabroker_rule, n_pending, 60);
S(rdmabroker_rule, 64);
L(rdmabroker_rules, size, 0);
L(rdmabroker_rules, n_rules, 8);
L(rdmabroker_rules, rules, 16);
S(rdmabroker_rules, 24);
L(rdmabroker_listed_session, size, 0);
L(rdmabroker_listed_session, number, 8);
L(rdmabroker_listed_session, uid, 16);
L(rdmabroker_listed_session, pid, 20);
L(rdmabroker_listed_session, unit, 24);
L(rdmabroker_listed_session, rule, 32);
L(rdmabroker_listed_session, age_ms, 40);
L(rdmabroker_listed_session, n_ids, 48);
L(rdmabroker_listed_session, n_leases, 52);
S(rdmabroker_listed_session, 56);
L(rdmabroker_listed_id, size, 0);
L(rdmabroker_listed_id, session, 8);
L(rdmabroker_listed_id, id, 16);
L(rdmabroker_listed_id, state, 24);
L(rdmabroker_listed_id, age_ms, 32);
L(rdmabroker_listed_id, ps, 40);
L(rdmabroker_listed_id, local, 48);
L(rdmabroker_listed_id, peer, 176);
L(rdmabroker_listed_id, device, 304);
L(rdmabroker_listed_id, qp_num, 312);
L(rdmabroker_listed_id, tos, 316);
L(rdmabroker_listed_id, rule, 320);
S(rdmabroker_listed_id, 328);
L(rdmabroker_list, size, 0);
L(rdmabroker_list, n_sessions, 8);
L(rdmabroker_list, sessions, 16);
L(rdmabroker_list, n_ids, 24);
L(rdmabroker_list, ids, 32);
S(rdmabroker_list, 40);
L(rdmabroker_filter, size, 0);
L(rdmabroker_filter, uid, 8);
L(rdmabroker_filter, session, 16);
L(rdmabroker_filter, peer, 24);
L(rdmabroker_filter, kind, 32);
L(rdmabroker_filter, operation, 36);
L(rdmabroker_filter, outcome, 40);
L(rdmabroker_filter, port, 44);
L(rdmabroker_filter, unused, 46);
S(rdmabroker_filter, 48);
L(rdmabroker_notice, size, 0);
L(rdmabroker_notice, n_lost, 8);
L(rdmabroker_notice, time_ns, 16);
L(rdmabroker_notice, kind, 24);
L(rdmabroker_notice, operation, 28);
L(rdmabroker_notice, outcome, 32);
L(rdmabroker_notice, event, 36);
L(rdmabroker_notice, kind_name, 40);
L(rdmabroker_notice, operation_name, 48);
L(rdmabroker_notice, outcome_name, 56);
L(rdmabroker_notice, event_name, 64);
L(rdmabroker_notice, session, 72);
L(rdmabroker_notice, uid, 80);
L(rdmabroker_notice, pid, 84);
L(rdmabroker_notice, unit, 88);
L(rdmabroker_notice, id, 96);
L(rdmabroker_notice, request_id, 100);
L(rdmabroker_notice, retry_after_ms, 104);
L(rdmabroker_notice, status, 108);
L(rdmabroker_notice, opened, 112);
L(rdmabroker_notice, local, 120);
L(rdmabroker_notice, peer, 248);
L(rdmabroker_notice, device, 376);
L(rdmabroker_notice, ps, 384);
L(rdmabroker_notice, qp_num, 388);
L(rdmabroker_notice, rule, 392);
L(rdmabroker_notice, rule_text, 400);
L(rdmabroker_notice, reason, 408);
S(rdmabroker_notice, 416);
L(rdmabroker_question, size, 0);
L(rdmabroker_question, operation, 8);
L(rdmabroker_question, uid, 12);
L(rdmabroker_question, gids, 16);
L(rdmabroker_question, n_gids, 24);
L(rdmabroker_question, unit, 32);
L(rdmabroker_question, local, 40);
L(rdmabroker_question, peer, 48);
L(rdmabroker_question, port, 56);
L(rdmabroker_question, device, 64);
L(rdmabroker_question, ps, 72);
L(rdmabroker_question, data, 80);
L(rdmabroker_question, data_len, 88);
S(rdmabroker_question, 96);
L(rdmabroker_explanation, size, 0);
L(rdmabroker_explanation, allow, 8);
L(rdmabroker_explanation, rule, 16);
L(rdmabroker_explanation, reason, 24);
L(rdmabroker_explanation, n_effects, 32);
L(rdmabroker_explanation, effects, 40);
L(rdmabroker_explanation, depends, 48);
S(rdmabroker_explanation, 56);
L(rdmabroker_reload_result, size, 0);
L(rdmabroker_reload_result, ok, 8);
L(rdmabroker_reload_result, n_rules, 12);
L(rdmabroker_reload_result, n_complaints, 16);
L(rdmabroker_reload_result, complaints, 24);
S(rdmabroker_reload_result, 32);

E(RDMABROKER_NONBLOCK, 1);
E(RDMABROKER_FORK_SAFE, 2);
E(RDMABROKER_RETRY_BUSY, 4);
E(RDMABROKER_PS_IPOIB, 2);
E(RDMABROKER_PS_TCP, 262);
E(RDMABROKER_PS_UDP, 273);
E(RDMABROKER_PS_IB, 319);
E(RDMABROKER_OPTION_TOS, 0);
E(RDMABROKER_OPTION_REUSEADDR, 1);
E(RDMABROKER_OPTION_AFONLY, 2);
E(RDMABROKER_OPTION_ACK_TIMEOUT, 3);
E(RDMABROKER_EVENT_NONE, -1);
E(RDMABROKER_EVENT_ADDR_RESOLVED, 0);
E(RDMABROKER_EVENT_ADDR_ERROR, 1);
E(RDMABROKER_EVENT_ROUTE_RESOLVED, 2);
E(RDMABROKER_EVENT_ROUTE_ERROR, 3);
E(RDMABROKER_EVENT_CONNECT_REQUEST, 4);
E(RDMABROKER_EVENT_CONNECT_RESPONSE, 5);
E(RDMABROKER_EVENT_CONNECT_ERROR, 6);
E(RDMABROKER_EVENT_UNREACHABLE, 7);
E(RDMABROKER_EVENT_REJECTED, 8);
E(RDMABROKER_EVENT_ESTABLISHED, 9);
E(RDMABROKER_EVENT_DISCONNECTED, 10);
E(RDMABROKER_EVENT_DEVICE_REMOVAL, 11);
E(RDMABROKER_EVENT_MULTICAST_JOIN, 12);
E(RDMABROKER_EVENT_MULTICAST_ERROR, 13);
E(RDMABROKER_EVENT_ADDR_CHANGE, 14);
E(RDMABROKER_EVENT_TIMEWAIT_EXIT, 15);
E(RDMABROKER_EVENT_DONE, 64);
E(RDMABROKER_EVENT_LOST, 65);
E(RDMABROKER_REJECTED_BY_NOBODY, 0);
E(RDMABROKER_REJECTED_BY_PEER, 1);
E(RDMABROKER_REJECTED_BY_POLICY, 2);
E(RDMABROKER_REJECTED_NO_LISTENER, 3);
E(RDMABROKER_REJECTED_STALE, 4);
E(RDMABROKER_REJECTED_BY_TRANSPORT, 5);
E(RDMABROKER_REJECTED_ECE, 6);
E(RDMABROKER_REJECTED_TIMEOUT, 7);
E(RDMABROKER_REJECT_NONE, 0);
E(RDMABROKER_REJECT_DENIED, 1);
E(RDMABROKER_REJECT_BUSY, 2);
E(RDMABROKER_REJECT_NO_RULE, 3);
E(RDMABROKER_REJECT_DRAINING, 4);
E(RDMABROKER_JOIN_FULL_MEMBER, 1);
E(RDMABROKER_JOIN_SEND_ONLY, 2);
E(RDMABROKER_OPERATION_NONE, 0);
E(RDMABROKER_OPERATION_SESSION, 1);
E(RDMABROKER_OPERATION_DEVICE, 2);
E(RDMABROKER_OPERATION_LISTEN, 3);
E(RDMABROKER_OPERATION_CONNECT, 4);
E(RDMABROKER_OPERATION_ACCEPT, 5);
E(RDMABROKER_OPERATION_JOIN, 6);
E(RDMABROKER_OPERATION_OBSERVE, 7);
E(RDMABROKER_OPERATION_ADMIN, 8);
E(RDMABROKER_NOTICE_UNKNOWN, 0);
E(RDMABROKER_NOTICE_DECISION, 1);
E(RDMABROKER_NOTICE_CM, 2);
E(RDMABROKER_NOTICE_SESSION, 3);
E(RDMABROKER_NOTICE_LOST, 4);
E(RDMABROKER_OUTCOME_NONE, 0);
E(RDMABROKER_OUTCOME_ALLOWED, 1);
E(RDMABROKER_OUTCOME_REJECTED, 2);
E(RDMABROKER_OUTCOME_BUSY, 3);

#undef L
#undef S
#undef E

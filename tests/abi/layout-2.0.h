/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The layout of the library's structs and the values of its enums in version 2.0 of the ABI, on 64-bit machines. If
 * this file does not compile, programs that were built with version 2.0 do not work any more. Later versions can
 * append members to structs.
 */

#include <limits.h>
#include <stddef.h>

#include "client/rdmabroker.h"

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

#undef L
#undef S
#undef E

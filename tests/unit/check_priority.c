/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/admit/rule_settings.h"
#include "core/verbs/conn.h"
#include "core/verbs/id_life.h"
#include "tests/unit/pair.h"

/* The service level (SL) that goes with the TOS of who accepts. */

/* A connection request comes. Returns the SL with which it will be accepted; -1: that is not known. */
static int sl_of_request(unsigned n, struct id **ret, bool *ret_with_event)
{
	struct rdma_conn_param p = param("");
	struct id *active = pair_resolve(n, 7471);
	struct qp_attr rtr;

	server.n = 0;
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	pair_expect(&server, 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_int_eq(table_find(server.session, server.events[0].request, ret, &why), 0);
	*ret_with_event = server.events[0].traffic_class >= 0;
	run_loop();
	return rule_settings_get_qp_attr(*ret, IBV_QPS_RTR, &rtr, &why) == 0 ? rtr.attr.ah_attr.sl :
									       -1;
}

/* On Ethernet the kernel tells which SL goes with a rule's TOS. Without a TOS it is the one that the peer has chosen. */
START_TEST(a_tos_has_a_priority)
{
	bool with_event;
	struct id *id;

	pair_set_policy("allow session\nallow listen\nallow connect\nallow accept dscp af31\n");
	pair_start_listening(7471);
	server.n_resumed = 0;
	ck_assert_int_eq(sl_of_request(1, &id, &with_event), (26 << 2) >> 4);
	ck_assert(!with_event);
	ck_assert_int_gt(server.n_resumed, 0);
	/* It is known for a while. */
	ck_assert_int_eq(sl_of_request(2, &id, &with_event), (26 << 2) >> 4);
	ck_assert(with_event);

	pair_set_policy("allow session\nallow listen\nallow connect\nallow accept\n");
	ck_assert_int_eq(sl_of_request(3, &id, &with_event), FAKE_SL_OF_PEER);
	ck_assert(with_event);
}
END_TEST

/* What is not known is not allowed, and is asked for again. */
START_TEST(a_priority_that_is_not_found)
{
	struct rdma_conn_param p = param("");
	struct id *id, *active;
	struct qp_attr rtr;
	bool with_event;

	pair_set_policy("allow session\nallow listen\nallow connect\nallow accept tos 8\n");
	pair_start_listening(7471);
	active = pair_resolve(1, 7471);
	fake_fail_next(core->fabric, FAKE_RESOLVE_ROUTE, -ENETUNREACH);
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	run_loop();
	ck_assert_int_eq(table_find(server.session, server.events[0].request, &id, &why), 0);
	ck_assert_int_eq(rule_settings_get_qp_attr(id, IBV_QPS_RTR, &rtr, &why), STATUS_FABRIC);
	ck_assert_ptr_nonnull(strstr(why.text, "priority of TOS 8"));
	ck_assert_int_eq(rule_settings_get_qp_attr(id, IBV_QPS_RTR, &rtr, &why), -EINPROGRESS);
	run_loop();
	ck_assert_int_eq(rule_settings_get_qp_attr(id, IBV_QPS_RTR, &rtr, &why), 0);
	ck_assert_uint_eq(rtr.attr.ah_attr.sl, 0);

	/* The id ends while the kernel is asked. */
	pair_set_policy("allow session\nallow listen\nallow connect\nallow accept tos 16\n");
	sl_of_request(2, &id, &with_event);
	id->options.now[OPTION_TOS] = 32;
	ck_assert_int_eq(rule_settings_get_qp_attr(id, IBV_QPS_RTR, &rtr, &why), -EINPROGRESS);
	id_free(id);
	run_loop();
}
END_TEST

UNIT_MAIN("priority", pair_set_up, pair_tear_down, a_tos_has_a_priority,
	  a_priority_that_is_not_found)

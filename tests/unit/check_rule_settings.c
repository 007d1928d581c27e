/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "client/admin.h"
#include "tests/unit/harness.h"

/* What programs see of the settings of rules, and of the limits of their user. */

START_TEST(limits_of_the_user)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_limits *limits;
	bool has_sessions = false, has_listeners = false;

	set_policy("allow any\n");
	start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_get_limits(s, &limits), 0);
	for (size_t i = 0; i < limits->n; i++) {
		const struct rdmabroker_limit *limit = &limits->list[i];

		ck_assert_uint_le(limit->used, limit->limit);
		has_sessions |= !strcmp(limit->key, "SessionsPerUser") && limit->used == 1;
		has_listeners |= !strcmp(limit->what, "listeners") && limit->used == 1;
	}
	ck_assert(has_sessions);
	ck_assert(has_listeners);
	rdmabroker_free(limits);
	rdmabroker_close(s);
}
END_TEST

static int get_min_rnr_timer(struct rdmabroker_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask;

	ck_assert_int_eq(rdmabroker_init_qp_attr(id, &attr, &mask), 0);
	ck_assert(mask & IBV_QP_MIN_RNR_TIMER);
	return attr.min_rnr_timer;
}

/* The program's value is in force as long as no rule forces another one. Then the QP of an accept gets the rule's. */
START_TEST(min_rnr_timer)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param p = { .size = sizeof(p), .qp_num = 17 };
	struct rdmabroker_event *event;
	struct rdmabroker_id *active;
	int value;

	set_policy("allow session\nallow listen\nallow connect\nallow accept min-rnr-timer 12\n");
	start_listening(s, 7471);
	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_get_option(active, RDMABROKER_OPTION_MIN_RNR_TIMER, &value), 0);
	ck_assert_int_eq(value, -1);
	ck_assert_int_eq(rdmabroker_set_option(active, RDMABROKER_OPTION_MIN_RNR_TIMER, 32),
			 -EINVAL);
	ck_assert_int_eq(rdmabroker_set_option(active, RDMABROKER_OPTION_MIN_RNR_TIMER, 7), 0);
	ck_assert_int_eq(rdmabroker_connect(active, &p), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(get_min_rnr_timer(event->id), 12);
	ck_assert_int_eq(rdmabroker_set_option(event->id, RDMABROKER_OPTION_MIN_RNR_TIMER, 9), 0);
	ck_assert_int_eq(get_min_rnr_timer(event->id), 12);
	ck_assert_int_eq(rdmabroker_accept(event->id, &p), 0);
	rdmabroker_free_event(event);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(get_min_rnr_timer(active), 7);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

/* A rule's ack-timeout does nothing to datagrams, and the program's value has no effect either. */
START_TEST(ack_timeout_of_datagrams)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7471) };
	struct rdmabroker *c = open_session(0);
	struct rdmabroker_id *id;
	int value;

	set_policy("allow session\nallow connect ack-timeout 9\n");
	to.sin_addr.s_addr = htonl(0x0a090001);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_UDP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, (struct sockaddr *)&to,
						      PATIENCE_TEST_S * 1000),
			 0);
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, 20), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, &value), 0);
	ck_assert_int_eq(value, -1);
	rdmabroker_close(c);
}
END_TEST

START_TEST(caps_and_ack_timeout)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param p = {
		.size = sizeof(p),
		.qp_num = 17,
		.responder_resources = 16,
		.initiator_depth = 2,
		.retry_count = 7,
		.rnr_retry_count = 3,
	};
	struct rdmabroker_event *event;
	struct rdmabroker_id *active;
	int value;

	set_policy(
		"allow session\nallow listen\n"
		"allow connect ack-timeout 9 responder-resources 4 initiator-depth 8 retry-count 2\n"
		"allow accept ack-timeout 11 rnr-retry-count 1\n");
	start_listening(s, 7471);
	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_get_option(active, RDMABROKER_OPTION_ACK_TIMEOUT, &value), 0);
	ck_assert_int_eq(value, 9);
	ck_assert_int_eq(rdmabroker_set_option(active, RDMABROKER_OPTION_ACK_TIMEOUT, 20), 0);
	ck_assert_int_eq(rdmabroker_get_option(active, RDMABROKER_OPTION_ACK_TIMEOUT, &value), 0);
	ck_assert_int_eq(value, 9);
	ck_assert_int_eq(rdmabroker_connect(active, &p), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	/* The connection request has the program's values, capped by the rule for connects. */
	ck_assert_uint_eq(event->conn->responder_resources, 4);
	ck_assert_uint_eq(event->conn->initiator_depth, 2);
	ck_assert_uint_eq(event->conn->retry_count, 2);
	ck_assert_uint_eq(event->conn->rnr_retry_count, 3);
	ck_assert_int_eq(rdmabroker_get_option(event->id, RDMABROKER_OPTION_ACK_TIMEOUT, &value),
			 0);
	ck_assert_int_eq(value, 11);
	ck_assert_int_eq(rdmabroker_accept(event->id, &p), 0);
	rdmabroker_free_event(event);
	event = expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE);
	ck_assert_uint_eq(event->conn->rnr_retry_count, 1);
	rdmabroker_free_event(event);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

UNIT_MAIN("rule_settings", set_up, tear_down, limits_of_the_user, min_rnr_timer,
	  caps_and_ack_timeout, ack_timeout_of_datagrams)

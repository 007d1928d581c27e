/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "core/object/timewait.h"
#include "core/verbs/bind.h"
#include "core/verbs/conn.h"
#include "core/verbs/id_life.h"
#include "core/verbs/listen.h"
#include "core/verbs/option.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "tests/unit/pair.h"
#include "tests/unit/stopped.h"

/*
 * OnReload=keep keeps existing objects. The policy in force decides about each resolution of a route, each connect
 * and each accept. A held connect or accept is decided by the policy in force when it is sent.
 */

static uint64_t n_decided(enum policy_operation operation, enum decision decision)
{
	return core->metrics.decisions[operation][decision];
}

static const struct tally *tally_of(size_t rule)
{
	return admissions_find(core->admissions, policy_rule_at(core->policy, rule));
}

/* Returns the server's id of the connection request that ACTIVE sends with the data "hello". */
static struct id *request_of(struct id *active)
{
	struct rdma_conn_param p = param("hello");
	unsigned n = server.n;
	struct id *request;

	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	pair_expect(&server, n, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_int_eq(table_find(server.session, server.events[n].request, &request, &why), 0);
	return request;
}

/* Returns the refusal of the peer's broker in the client's last event. */
static struct refusal last_refusal(void)
{
	struct refusal refusal;

	run_loop();
	ck_assert_int_eq(client.events[(client.n - 1) % 64].type, RDMA_CM_EVENT_REJECTED);
	ck_assert(refusal_unpack(&refusal, client.events[(client.n - 1) % 64].data, REFUSAL_MAX));
	return refusal;
}

START_TEST(connect_is_decided_by_the_policy_in_force)
{
	uint64_t n_rejected = n_decided(POLICY_CONNECT, DECISION_REJECTED), n_allowed;
	struct rdma_conn_param p = param("");
	struct id *id;

	pair_start_listening(7471);
	id = pair_resolve(1, 7471);
	pair_set_policy("allow session\nreject connect peer 10.9.0.1 reason \"closed\"\n");
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), STATUS_DENIED);
	ck_assert_int_eq(why.error, EACCES);
	ck_assert_str_eq(why.rule, "test.rules:2");
	ck_assert_ptr_nonnull(strstr(why.text, "closed"));
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 0);
	ck_assert_uint_eq(n_decided(POLICY_CONNECT, DECISION_REJECTED), n_rejected + 1);
	ck_assert_uint_eq(tally_of(1)->n_rejected, 1);

	/* A rule of the new policy allows the connect, so the limits and counts of that rule apply. */
	pair_set_policy("allow session\nallow connect max 1\n");
	n_allowed = n_decided(POLICY_CONNECT, DECISION_ALLOWED);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
	ck_assert_uint_eq(n_decided(POLICY_CONNECT, DECISION_ALLOWED), n_allowed + 1);
	ck_assert_uint_eq(tally_of(1)->n_now, 1);
	ck_assert_uint_eq(id->grant.rule->line, 2);
	run_loop();
}
END_TEST

START_TEST(the_limits_are_those_of_the_rule_in_force)
{
	struct rdma_conn_param p = param("");
	struct id *ids[3];

	stop_time();
	pair_start_listening(7471);
	for (uint32_t i = 0; i < 3; i++)
		ids[i] = pair_resolve(i + 1, 7471);
	pair_set_policy("allow session\nallow connect max 1\nallow any\n");
	ck_assert_int_eq(conn_connect(ids[0], &p, NULL, &why), 0);
	ck_assert_int_eq(conn_connect(ids[1], &p, NULL, &why), STATUS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "max 1"));
	pair_set_policy("allow session\nallow connect rate 1/s burst 1\nallow any\n");
	ck_assert_int_eq(conn_connect(ids[1], &p, NULL, &why), 0);
	ck_assert_int_eq(conn_connect(ids[2], &p, NULL, &why), STATUS_BUSY);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 2);
	run_loop();
}
END_TEST

START_TEST(resolving_a_route_is_decided)
{
	struct rdma_conn_param p = param("");
	struct id *id = make(&client, 1);

	pair_start_listening(7471);
	ck_assert_int_eq(
		resolve_addr(id, NULL, pair_addr("10.9.0.1", 7471), 100, ROUTE_LATER, &why), 0);
	pair_expect(&client, 0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	pair_set_policy("allow session\n");
	ck_assert_int_eq(resolve_route(id, 100, &why), STATUS_DENIED);
	ck_assert_int_eq(id->state, ID_ADDR_RESOLVED);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_RESOLVE_ROUTE), 0);

	/* Before the route is resolved all settings of the rule can still be applied. */
	pair_set_policy("allow session\nallow connect tos 104 ack-timeout 14 reuseaddr yes\n"
			"allow any\n");
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	pair_expect(&client, 1, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(fake_get_option(core->fabric, 40001, RDMA_OPTION_ID_TOS), 104);
	ck_assert_int_eq(fake_get_option(core->fabric, 40001, RDMA_OPTION_ID_ACK_TIMEOUT), 14);
	ck_assert_int_eq(fake_get_option(core->fabric, 40001, RDMA_OPTION_ID_REUSEADDR), 1);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
	run_loop();
}
END_TEST

/* The traffic class is part of the resolved path, so another class needs a newly resolved route. */
START_TEST(the_traffic_class_of_a_route)
{
	struct rdma_conn_param p = param("");
	struct id *id;

	pair_start_listening(7471);
	id = pair_resolve(1, 7471);
	pair_set_policy("allow session\nallow connect tos 104\n");
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), STATUS_BAD_STATE);
	ck_assert_int_eq(why.error, ESTALE);
	ck_assert_ptr_nonnull(strstr(why.text, "test.rules:2"));
	/* Setting the right class after the route was resolved is too late. */
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 104, &why), 0);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), STATUS_BAD_STATE);
	ck_assert_int_eq(why.error, ESTALE);
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 0);
	/* A route that is resolved under the new rule has the right class. */
	id = pair_resolve(2, 7471);
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);

	/* If the route's class is above a cap, the connect is refused. A class below the cap stays. */
	pair_set_policy("allow any\n");
	id = make(&client, 3);
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 40, &why), 0);
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.1", 7471), 100, ROUTE_TOO, &why),
			 0);
	run_loop();
	ck_assert_int_eq(id->state, ID_ROUTE_RESOLVED);
	pair_set_policy("allow session\nallow connect tos-max 32\n");
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), STATUS_BAD_STATE);
	ck_assert_int_eq(why.error, ESTALE);
	pair_set_policy("allow session\nallow connect tos-max 48\n");
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
	ck_assert_int_eq(id->options.now[OPTION_TOS], 40);
	run_loop();
}
END_TEST

START_TEST(caps_ack_timeout_and_reuseaddr_of_the_new_rule)
{
	struct rdma_conn_param p = param("");
	struct id *id;
	unsigned n;

	pair_start_listening(7471);
	pair_set_policy("allow session\nallow connect reuseaddr yes\nallow any\n");
	id = pair_resolve(1, 7471);
	ck_assert(options_has_reuseaddr(&id->options));
	pair_set_policy("allow any\n");
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), STATUS_DENIED);
	ck_assert_ptr_nonnull(strstr(why.text, "REUSEADDR"));

	id = pair_resolve(2, 7471);
	p.initiator_depth = p.responder_resources = 16;
	p.retry_count = p.rnr_retry_count = 7;
	pair_set_policy("allow session\n"
			"allow connect ack-timeout 14 initiator-depth 4 responder-resources 5 \\\n"
			"	retry-count 3 rnr-retry-count 2 reuseaddr yes\nallow any\n");
	n = server.n;
	ck_assert_int_eq(conn_connect(id, &p, NULL, &why), 0);
	pair_expect(&server, n, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_uint_eq(server.events[n].conn.initiator_depth, 4);
	ck_assert_uint_eq(server.events[n].conn.responder_resources, 5);
	ck_assert_uint_eq(server.events[n].conn.retry_count, 3);
	ck_assert_uint_eq(server.events[n].conn.rnr_retry_count, 2);
	ck_assert_int_eq(id->options.now[OPTION_ACK_TIMEOUT], 14);
	ck_assert(options_has_reuseaddr(&id->options));
}
END_TEST

START_TEST(accept_is_decided_by_the_policy_in_force)
{
	struct rdma_conn_param p = param("");
	struct id *active, *request;
	struct refusal refusal;

	pair_start_listening(7471);
	active = pair_resolve(1, 7471);
	request = request_of(active);
	pair_set_policy("allow session\nallow connect\n"
			"reject accept peer 10.9.0.0/24 reason \"not a storage host\"\n");
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), STATUS_DENIED);
	ck_assert_int_eq(why.error, EACCES);
	ck_assert_str_eq(why.rule, "test.rules:3");
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_ACCEPT), 0);
	ck_assert_int_eq(request->state, ID_FAILED);
	refusal = last_refusal();
	ck_assert_int_eq(refusal.code, REFUSAL_DENIED);
	ck_assert_str_eq(refusal.text, "not a storage host");
	ck_assert_uint_eq(tally_of(2)->n_rejected, 1);
	ck_assert_int_eq(active->state, ID_FAILED);

	/* The listener is kept. The new policy decides about its new requests. */
	pair_set_policy("allow session\nallow connect\nallow accept\n");
	request = request_of(pair_resolve(2, 7471));
	pair_set_policy("allow session\nallow connect\n");
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), STATUS_DENIED);
	refusal = last_refusal();
	ck_assert_int_eq(refusal.code, REFUSAL_NO_RULE);
	ck_assert_uint_eq(core->n_listeners, 1);
}
END_TEST

/* The private data of a request is kept until the request is answered. */
START_TEST(accept_is_decided_with_the_requests_data)
{
	struct rdma_conn_param p = param("");
	struct id *request;

	pair_start_listening(7471);
	request = request_of(pair_resolve(1, 7471));
	pair_set_policy("allow session\nallow accept data \"hello\" max 1\nallow connect\n");
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
	ck_assert_uint_eq(tally_of(1)->n_now, 1);
	ck_assert_uint_eq(tally_of(1)->n_pending, 0);
	pair_set_policy("allow any\n");
	run_loop();
	request = request_of(pair_resolve(2, 7471));
	pair_set_policy("allow session\nreject accept data \"hello\"\nallow any\n");
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), STATUS_DENIED);
}
END_TEST

START_TEST(a_request_past_the_new_rules_limit)
{
	struct rdma_conn_param p = param("");
	struct id *requests[3], *waiting;
	struct refusal refusal;

	pair_start_listening(7471);
	for (uint32_t i = 0; i < 3; i++)
		requests[i] = request_of(pair_resolve(i + 1, 7471));
	/* A request that is being accepted is not pending, so "pending 1" does not stop it. */
	pair_set_policy("allow session\nallow accept max 2 pending 1\nallow connect\n");
	waiting = request_of(pair_resolve(4, 7471));
	ck_assert_uint_eq(tally_of(1)->n_pending, 1);
	ck_assert_int_eq(conn_accept(requests[0], &p, NULL, &why), 0);
	ck_assert_uint_eq(tally_of(1)->n_pending, 1);
	run_loop();
	ck_assert_int_eq(conn_accept(requests[1], &p, NULL, &why), STATUS_BUSY);
	ck_assert_ptr_nonnull(strstr(why.text, "max 2"));
	ck_assert_int_eq(requests[1]->state, ID_FAILED);
	refusal = last_refusal();
	ck_assert_int_eq(refusal.code, REFUSAL_BUSY);
	ck_assert_uint_gt(refusal.retry_after_ms, 0);
	/* A rule that is also in the new policy keeps its counts, and does not count an object twice. */
	pair_set_policy("reject listen\nallow accept max 2 pending 1\nallow accept\n");
	ck_assert_uint_eq(tally_of(1)->n_now, 2);
	ck_assert_int_eq(conn_accept(waiting, &p, NULL, &why), 0);
	ck_assert_uint_eq(tally_of(1)->n_now, 2);
	pair_set_policy("allow session\nallow any max 4\n");
	ck_assert_int_eq(conn_accept(requests[2], &p, NULL, &why), 0);
	ck_assert_uint_eq(tally_of(1)->n_now, 1);
}
END_TEST

START_TEST(a_kept_rule_counts_an_object_once)
{
	struct rdma_conn_param p = param("");
	struct id *active, *request;

	pair_set_policy("allow session\nallow listen\nallow connect\nallow accept max 1\n");
	pair_start_listening(7471);
	active = pair_resolve(1, 7471);
	request = request_of(active);
	pair_set_policy("allow session\nallow accept max 1\n");
	ck_assert_uint_eq(tally_of(1)->n_pending, 1);
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
	ck_assert_uint_eq(tally_of(1)->n_now, 1);
	ck_assert_uint_eq(tally_of(1)->n_pending, 0);
	id_free(request);
	ck_assert_uint_eq(tally_of(1)->n_now, 0);
}
END_TEST

/*
 * The program has set up its QP with the settings that were reported to it. If the new rule requires other settings,
 * the accept is refused.
 */
START_TEST(a_request_reported_with_other_settings)
{
	static const char *const rules[] = {
		"allow accept tos 104\n",           "allow accept ack-timeout 14\n",
		"allow accept retry-count 3\n",     "allow accept rnr-retry-count 3\n",
		"allow accept initiator-depth 3\n", "allow accept responder-resources 3\n",
	};
	struct rdma_conn_param p = param("");
	struct refusal refusal;
	struct id *request;

	pair_start_listening(7471);
	for (uint32_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		pair_set_policy("allow any\n");
		request = request_of(pair_resolve(i + 1, 7471));
		pair_set_policy(rules[i]);
		ck_assert_int_eq(conn_accept(request, &p, NULL, &why), STATUS_BAD_STATE);
		ck_assert_int_eq(why.error, ESTALE);
		ck_assert_int_eq(request->state, ID_FAILED);
		refusal = last_refusal();
		ck_assert_int_eq(refusal.code, REFUSAL_BUSY);
		ck_assert_uint_gt(refusal.retry_after_ms, 0);
	}
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_ACCEPT), 0);
	/* Settings that the new rule also allows do not prevent the accept. */
	pair_set_policy("allow session\nallow connect\n"
			"allow accept tos 104 ack-timeout 14 retry-count 3\n");
	request = request_of(pair_resolve(20, 7471));
	pair_set_policy("allow accept tos-max 104 ack-timeout 14 retry-count 4\n");
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
}
END_TEST

/* Puts both QP numbers of a connection into time wait. A request that offers one of them is held back. */
static void rest(struct id **ret_active, struct id **ret_passive)
{
	establish(ret_active, ret_passive);
	(*ret_active)->handshake.qp_timeout = (*ret_passive)->handshake.qp_timeout = 31;
	ck_assert_int_eq(conn_disconnect(*ret_active, &why), 0);
	run_loop();
}

/* Puts ACTIVE's QP number into time wait again, as a further connection of the same number would. */
static void rest_again(struct id *active)
{
	active->handshake.timewait_over = false;
	timewait_enter(active);
}

static void end_rest(struct id *active, struct id *passive)
{
	fake_send_event_to(core->fabric, active->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	fake_send_event_to(core->fabric, passive->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	run_loop();
}

START_TEST(a_connect_that_was_held_back)
{
	struct id *active, *passive, *allowed, *denied, *moved;
	struct rdma_conn_param p = param("");
	unsigned n, n_connects;

	rest(&active, &passive);
	denied = pair_resolve(2, 7471);
	n_connects = fake_count(core->fabric, FAKE_CONNECT);
	ck_assert_int_eq(conn_connect(denied, &p, NULL, &why), 0);
	pair_set_policy("allow session\nreject connect reason \"closed\"\nallow any\n");
	end_rest(active, passive);
	run_loop();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n_connects);
	n = client.n - 1;
	pair_expect(&client, n, RDMA_CM_EVENT_CONNECT_ERROR, -EACCES);
	ck_assert_uint_eq(client.events[n].id, 2);
	ck_assert_ptr_nonnull(strstr(client.events[n].text, "closed"));
	ck_assert_int_eq(denied->state, ID_FAILED);
	ck_assert_ptr_null(denied->handshake.held);

	/*
	 * A held connect is refused if the new rule requires other settings than its route has. A connect that is
	 * still allowed is sent.
	 */
	pair_set_policy("allow any\n");
	rest_again(active);
	allowed = pair_resolve(3, 7471);
	moved = pair_resolve(4, 7472);
	ck_assert_int_eq(conn_connect(allowed, &p, NULL, &why), 0);
	ck_assert_int_eq(conn_connect(moved, &p, NULL, &why), 0);
	pair_set_policy("allow session\nallow connect port 7471 max 1\nallow connect tos 104\n"
			"allow any\n");
	fake_send_event_to(core->fabric, active->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	run_loop();
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), n_connects + 1);
	ck_assert_int_eq(allowed->state, ID_CONNECTING);
	ck_assert_uint_eq(tally_of(1)->n_now, 1);
	ck_assert_int_eq(moved->state, ID_FAILED);
	pair_expect(&client, client.n - 1, RDMA_CM_EVENT_CONNECT_ERROR, -ESTALE);
}
END_TEST

/*
 * While an accept is held back, the private data of its connection request is kept, because a new policy can need it.
 */
START_TEST(an_accept_that_was_held_back)
{
	static const struct {
		const char *rules;
		bool goes_out;
	} table[] = {
		{ "allow session\nallow accept data \"hello\"\n", true },
		{ "allow session\nreject accept data \"hello\"\nallow any\n", false },
	};
	struct id *active, *passive, *request, *asking;
	struct rdma_conn_param p = param("");
	unsigned n, n_accepts;

	rest(&active, &passive);
	for (uint32_t i = 0; i < 2; i++) {
		pair_set_policy("allow any\n");
		rest_again(active);
		p.qp_num = QPN + 1; /* unlike QPN, this number is not in time wait */
		asking = pair_resolve(2 + i, 7471);
		p.private_data = "hello";
		p.private_data_len = 5;
		n = server.n;
		ck_assert_int_eq(conn_connect(asking, &p, NULL, &why), 0);
		pair_expect(&server, n, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		ck_assert_int_eq(
			table_find(server.session, server.events[n].request, &request, &why), 0);
		n_accepts = fake_count(core->fabric, FAKE_ACCEPT);
		p = param("");
		ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
		ck_assert_ptr_nonnull(request->handshake.held);
		ck_assert_ptr_null(request->handshake.request);
		pair_set_policy(table[i].rules);
		n = server.n;
		fake_send_event_to(core->fabric, active->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		if (i == 0)
			fake_send_event_to(core->fabric, passive->fabric,
					   RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		run_loop();
		ck_assert_uint_eq(fake_count(core->fabric, FAKE_ACCEPT),
				  n_accepts + table[i].goes_out);
		ck_assert_int_eq(request->state, table[i].goes_out ? ID_ACCEPTED : ID_FAILED);
		ck_assert_ptr_null(request->handshake.request);
		if (table[i].goes_out)
			continue;
		pair_expect(&server, server.n - 1, RDMA_CM_EVENT_CONNECT_ERROR, -EACCES);
		ck_assert_int_eq(last_refusal().code, REFUSAL_DENIED);
	}
}
END_TEST

START_TEST(a_port_below_1024_that_was_bound_before)
{
	struct id *id = make(&server, 1);

	pair_set_policy("allow session\nallow listen port 443\n");
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 443), &why), 0);
	pair_set_policy("allow session\nallow listen\n");
	ck_assert_int_eq(listen_start(id, 0, &why), STATUS_DENIED);
	ck_assert_ptr_nonnull(strstr(why.text, "below 1024"));
	pair_set_policy("allow session\nallow listen port 1-1023\n");
	ck_assert_int_eq(listen_start(id, 0, &why), 0);
}
END_TEST

UNIT_MAIN("reload", pair_set_up, pair_tear_down, connect_is_decided_by_the_policy_in_force,
	  the_limits_are_those_of_the_rule_in_force, resolving_a_route_is_decided,
	  the_traffic_class_of_a_route, caps_ack_timeout_and_reuseaddr_of_the_new_rule,
	  accept_is_decided_by_the_policy_in_force, accept_is_decided_with_the_requests_data,
	  a_request_past_the_new_rules_limit, a_kept_rule_counts_an_object_once,
	  a_request_reported_with_other_settings, a_connect_that_was_held_back,
	  an_accept_that_was_held_back, a_port_below_1024_that_was_bound_before)

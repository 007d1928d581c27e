/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/admit/rule_settings.h"
#include "core/rule/admin.h"
#include "core/verbs/bind.h"
#include "core/verbs/conn.h"
#include "core/verbs/lease.h"
#include "core/verbs/listen.h"
#include "core/verbs/option.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "core/verbs/id_life.h"
#include "core/verbs/session_life.h"
#include "proto/status.h"
#include "tests/unit/pair.h"
#include "util/diag.h"

/* Ids in all their states, and the effects of policy on ids. Everything must be freed in the end. */

START_TEST(a_connection_from_end_to_end)
{
	struct id *active, *passive;

	establish(&active, &passive);
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	pair_expect(&server, 2, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_int_eq(active->state, ID_DISCONNECTED);
	ck_assert_int_eq(passive->state, ID_DISCONNECTED);
	ck_assert_uint_eq(core->n_connections, 0);
	/* One call was the client's request. The two others replied to DISCONNECTED, one for each end. */
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_DISCONNECT), 3);
	ck_assert_int_eq(conn_disconnect(passive, &why), 0);
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_DISCONNECT), 3);
}
END_TEST

START_TEST(the_end_of_a_session_disconnects_the_peer)
{
	struct id *active, *passive;

	establish(&active, &passive);
	client.session = session_free(client.session);
	pair_expect(&server, 2, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_uint_eq(core->n_sessions, 1);
}
END_TEST

/*
 * The table lists the states in which a verb is allowed. In other states it must fail with EINVAL and change nothing.
 */
START_TEST(verbs_and_states)
{
	static const struct {
		const char *verb;
		unsigned states;
	} table[] = {
#define S(s) (1u << ID_##s)
		{ "bind", S(IDLE) },
		{ "listen", S(IDLE) | S(BOUND) },
		{ "resolve_addr", S(IDLE) | S(BOUND) },
		{ "resolve_route", S(ADDR_RESOLVED) },
		{ "connect", S(ROUTE_RESOLVED) },
		{ "accept", S(REQUEST) },
		{ "establish", S(RESPONDED) },
		{ "reject", S(REQUEST) | S(RESPONDED) },
		{ "disconnect", S(LISTENING) | S(CONNECTING) | S(RESPONDED) | S(REQUEST) |
					S(ACCEPTED) | S(ESTABLISHED) | S(DISCONNECTING) |
					S(DISCONNECTED) | S(FAILED) | S(REMOVED) },
#undef S
	};
	struct rdma_conn_param p = param("");
	struct id *id = make(&client, 1);
	unsigned n_refused = 0;

	for (int state = 0; state < _ID_STATE_MAX; state++)
		for (unsigned v = 0; v < sizeof(table) / sizeof(table[0]); v++) {
			int r;

			if (table[v].states & (1u << state))
				continue;
			id_set_state(id, (enum id_state)state);
			why.error = 0;
			r = v == 0 ? bind_addr(id, pair_addr("10.9.0.1", 5000), &why) :
			    v == 1 ? listen_start(id, 1, &why) :
			    v == 2 ? resolve_addr(id, NULL, pair_addr("10.9.0.1", 1), 1,
						  ROUTE_LATER, &why) :
			    v == 3 ? resolve_route(id, 1, &why) :
			    v == 4 ? conn_connect(id, &p, NULL, &why) :
			    v == 5 ? conn_accept(id, &p, NULL, &why) :
			    v == 6 ? conn_establish(id, &why) :
			    v == 7 ? conn_reject(id, NULL, 0, false, &why) :
				     conn_disconnect(id, &why);
			ck_assert_msg(r == STATUS_BAD_STATE, "%s while %s: %d", table[v].verb,
				      id_state_to_string((enum id_state)state), r);
			ck_assert_int_eq(why.error, EINVAL);
			ck_assert_int_eq((int)id->state, state);
			n_refused++;
		}
	ck_assert_uint_eq(n_refused, 9 * _ID_STATE_MAX - 21);
	for (int call = FAKE_BIND; call <= FAKE_DISCONNECT; call++)
		ck_assert_uint_eq(fake_count(core->fabric, (enum fake_call)call), 0);
	id_set_state(id, ID_IDLE);
}
END_TEST

START_TEST(the_reason_of_a_reject_reaches_the_peer)
{
	struct rdma_conn_param p = param("");
	struct id *active, *request;
	unsigned n;

	pair_start_listening(7471);
	active = pair_resolve(1, 7471);
	n = client.n;
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	run_loop();
	ck_assert_int_eq(table_find(server.session, server.events[0].request, &request, &why), 0);
	ck_assert_int_eq(conn_reject(request, "RDBK forged", 11, false, &why), STATUS_BAD_REQUEST);
	ck_assert_int_eq(request->state, ID_REQUEST);
	ck_assert_int_eq(conn_reject(request, "go away", 7, false, &why), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_mem_eq(client.events[n].data, "go away", 7);
	ck_assert_int_eq(active->state, ID_FAILED);
}
END_TEST

START_TEST(policy_rejects_a_request)
{
	struct rdma_conn_param p = param("");
	struct refusal refusal;
	struct id *active;
	unsigned n;

	pair_set_policy("allow session\nallow listen\nallow connect\n"
			"reject accept peer 10.9.0.0/24 reason \"not a storage host\"\n");
	pair_start_listening(7471);
	active = pair_resolve(1, 7471);
	n = client.n;
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_uint_eq(server.n, 0);
	ck_assert(refusal_unpack(&refusal, client.events[n].data, 148));
	ck_assert_int_eq(refusal.code, REFUSAL_DENIED);
	ck_assert_str_eq(refusal.text, "not a storage host");
	ck_assert_uint_eq(core->n_ids, 2);
}
END_TEST

START_TEST(a_request_without_a_rule_is_rejected_as_no_rule)
{
	struct rdma_conn_param p = param("");
	struct refusal refusal;
	struct id *active;
	unsigned n;

	pair_set_policy("allow session\nallow listen\nallow connect\n");
	pair_start_listening(7471);
	active = pair_resolve(1, 7471);
	n = client.n;
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert(refusal_unpack(&refusal, client.events[n].data, 148));
	ck_assert_int_eq(refusal.code, REFUSAL_NO_RULE);
}
END_TEST

START_TEST(connect_is_decided_early_and_again)
{
	struct id *id;

	pair_set_policy("allow session\n"
			"reject connect peer 10.8.0.0/16 reason \"not there\"\n"
			"allow connect device other*\n"
			"reject connect reason \"wrong device\"\n");
	id = make(&client, 1);
	/* Rule 2 rejects the connect before the address is resolved. */
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.8.0.1", 1), 100, ROUTE_LATER, &why),
			 STATUS_DENIED);
	ck_assert_int_eq(why.error, EACCES);
	ck_assert_str_eq(why.rule, "test.rules:2");
	ck_assert_int_eq(id->state, ID_IDLE);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_RESOLVE_ADDR), 0);
	/* The device is known only when the address is resolved. Then rule 4 rejects the connect. */
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.1", 1), 100, ROUTE_LATER, &why),
			 0);
	pair_expect(&client, 0, RDMA_CM_EVENT_ADDR_ERROR, -EACCES);
	ck_assert_ptr_nonnull(strstr(client.events[0].text, "wrong device"));
	ck_assert_int_eq(id->state, ID_BOUND);
}
END_TEST

START_TEST(tos_by_policy)
{
	struct rdma_conn_param p = param("");
	struct id *active, *id;
	struct qp_attr rtr;

	pair_set_policy("allow session\nallow listen\nallow connect tos-max 32\n"
			"allow accept dscp af31\n");
	pair_start_listening(7471);
	id = make(&client, 2);
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 256, &why), STATUS_BAD_REQUEST);
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_TOS, 200, &why), 0);
	ck_assert_int_eq(
		resolve_addr(id, NULL, pair_addr("10.9.0.1", 7471), 100, ROUTE_LATER, &why), 0);
	run_loop();
	ck_assert_int_eq(id->options.now[OPTION_TOS], 32);
	active = pair_resolve(1, 7471);
	ck_assert_int_eq(active->options.now[OPTION_TOS], -1);
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	pair_expect(&server, 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_int_eq(table_find(server.session, server.events[0].request, &id, &why), 0);
	run_loop();
	ck_assert_int_eq(rule_settings_get_qp_attr(id, IBV_QPS_RTR, &rtr, &why), 0);
	ck_assert_uint_eq(rtr.attr.ah_attr.grh.traffic_class, 26 << 2);
}
END_TEST

START_TEST(reuseaddr_by_policy)
{
	struct id *a, *b, *c, *d;

	pair_set_policy("allow session\nallow listen port 9000\nallow connect reuseaddr yes\n");
	a = make(&client, 1);
	b = make(&client, 2);
	ck_assert_int_eq(bind_addr(a, pair_addr("10.9.0.1", 5000), &why), 0);
	ck_assert_int_eq(bind_addr(b, pair_addr("10.9.0.1", 5000), &why), 0);
	/* REUSEADDR is not set on a port where a rule allows the program to listen. */
	c = make(&client, 3);
	ck_assert_int_eq(bind_addr(c, pair_addr("10.9.0.1", 9000), &why), 0);
	ck_assert(!options_has_reuseaddr(&c->options));
	ck_assert_int_eq(listen_start(c, 1, &why), 0);
	ck_assert_int_eq(listen_start(a, 1, &why), STATUS_DENIED);

	pair_set_policy("allow session\nallow listen\nallow connect reuseaddr client\n");
	d = make(&client, 4);
	ck_assert_int_eq(bind_addr(d, pair_addr("10.9.0.1", 5000), &why), STATUS_FABRIC);
	ck_assert_int_eq(why.error, EADDRINUSE);
	ck_assert_int_eq(option_set(d, RDMA_OPTION_ID_REUSEADDR, 1, &why), 0);
	ck_assert_int_eq(bind_addr(d, pair_addr("10.9.0.1", 5000), &why), 0);
	/* The port is shared. */
	ck_assert_int_eq(listen_start(d, 1, &why), STATUS_FABRIC);
	ck_assert_int_eq(why.error, EADDRINUSE);

	pair_set_policy("allow session\nallow listen port 9000\nallow connect\n");
	a = make(&client, 5);
	ck_assert_int_eq(option_set(a, RDMA_OPTION_ID_REUSEADDR, 1, &why), 0);
	ck_assert_int_eq(bind_addr(a, pair_addr("10.9.0.1", 6000), &why), STATUS_DENIED);
	ck_assert_ptr_nonnull(strstr(why.text, "REUSEADDR"));
	ck_assert_str_eq(why.rule, "test.rules:3");
}
END_TEST

static struct id *make_reusing(uint32_t handle, unsigned port)
{
	struct id *id = make(&client, handle);

	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_REUSEADDR, 1, &why), 0);
	if (bind_addr(id, pair_addr("10.9.0.1", port), &why) == 0)
		return id;
	id_free(id);
	return NULL;
}

/* The kernel lets an id with REUSEADDR listen. Such an id shares its port with none. */
START_TEST(reuseaddr_of_a_listener)
{
	struct id *id;

	pair_set_policy(
		"allow session\nallow listen port 6000\n"
		"allow listen port 6001 reuseaddr no\nallow listen port 6002 reuseaddr yes\n"
		"allow connect\n");
	id = make_reusing(1, 6000);
	ck_assert_ptr_nonnull(id);
	ck_assert(options_has_reuseaddr(&id->options));
	ck_assert_int_eq(listen_start(id, 1, &why), 0);
	ck_assert_ptr_null(make_reusing(2, 6000));
	ck_assert_int_eq(why.error, EADDRINUSE);

	ck_assert_ptr_null(make_reusing(3, 6001));
	ck_assert_ptr_nonnull(strstr(why.text, "REUSEADDR"));
	ck_assert_str_eq(why.rule, "test.rules:3");

	/* A listener is not given the option if it has not asked for it. */
	id = make(&client, 4);
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 6002), &why), 0);
	ck_assert(!options_has_reuseaddr(&id->options));
	ck_assert_int_eq(listen_start(id, 1, &why), 0);

	/* The rule for listen lets it bind, and that for connect does not let it connect. */
	pair_set_policy("allow session\nallow listen\nallow connect\n");
	id = make_reusing(5, 6003);
	ck_assert_ptr_nonnull(id);
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.2", 1), 100, ROUTE_LATER, &why),
			 0);
	pair_expect(&client, 0, RDMA_CM_EVENT_ADDR_ERROR, -EACCES);
	ck_assert_ptr_nonnull(strstr(client.events[0].text, "REUSEADDR"));

	/* The rule for listen decides, and not that there is none for connect. */
	pair_set_policy("allow session\nallow listen reuseaddr no\n");
	ck_assert_ptr_null(make_reusing(7, 6005));
	ck_assert_str_eq(why.text, "bind 10.9.0.1:6005: policy does not allow REUSEADDR");
	ck_assert_str_eq(why.rule, "test.rules:2");

	/* Policy decides again when the program listens. */
	pair_set_policy("allow session\nallow listen\nallow connect\n");
	id = make_reusing(6, 6004);
	ck_assert_ptr_nonnull(id);
	pair_set_policy("allow session\nallow listen reuseaddr no\nallow connect\n");
	ck_assert_int_eq(listen_start(id, 1, &why), STATUS_DENIED);
	ck_assert_ptr_nonnull(strstr(why.text, "REUSEADDR"));
}
END_TEST

/* The peer is not known at the bind. When it is known, the rule that matches then decides again about REUSEADDR. */
START_TEST(reuseaddr_is_decided_again)
{
	struct id *id;

	pair_set_policy("allow session\n"
			"allow connect peer 10.9.0.0/24 reuseaddr client\n"
			"allow connect peer 10.8.0.0/24\n");
	id = make(&client, 1);
	ck_assert_int_eq(option_set(id, RDMA_OPTION_ID_REUSEADDR, 1, &why), 0);
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 5000), &why), 0);
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.8.0.1", 1), 100, ROUTE_LATER, &why),
			 0);
	pair_expect(&client, 0, RDMA_CM_EVENT_ADDR_ERROR, -EACCES);
	ck_assert_ptr_nonnull(strstr(client.events[0].text, "REUSEADDR"));
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.2", 1), 100, ROUTE_LATER, &why),
			 0);
	pair_expect(&client, 1, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}
END_TEST

/* The kernel can miss a reply, so the core divides the timeout among several attempts to resolve. */
START_TEST(resolving_goes_on_until_the_deadline)
{
	struct id *id = make(&client, 1);

	fake_fail_addresses(core->fabric, 2, -ETIMEDOUT);
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.2", 1), 60000, ROUTE_LATER, &why),
			 0);
	pair_expect(&client, 0, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_uint_eq(client.n, 1);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_RESOLVE_ADDR), 3);

	id = make(&client, 2);
	fake_fail_addresses(core->fabric, 1, -EHOSTUNREACH);
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.2", 1), 60000, ROUTE_LATER, &why),
			 0);
	pair_expect(&client, 1, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);

	fake_fail_addresses(core->fabric, 1, -ETIMEDOUT);
	ck_assert_int_eq(resolve_addr(id, NULL, pair_addr("10.9.0.2", 1), 60000, ROUTE_LATER, &why),
			 0);
	id->route.until_ms = 0;
	pair_expect(&client, 2, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	ck_assert_int_eq(id->state, ID_BOUND);
}
END_TEST

START_TEST(privileged_ports_need_a_rule_that_names_them)
{
	struct id *id = make(&client, 1);

	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 443), &why), STATUS_DENIED);
	ck_assert_int_eq(why.error, EACCES);
	pair_set_policy("allow session\nallow listen port 443\nallow any\n");
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 80), &why), STATUS_DENIED);
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 443), &why), 0);
}
END_TEST

START_TEST(binding_needs_a_purpose)
{
	struct id *id = make(&client, 1);

	pair_set_policy("allow session\nallow device\n");
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 5000), &why), STATUS_DENIED);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_BIND), 0);
}
END_TEST

START_TEST(backlog)
{
	struct id *id;

	pair_set_policy("allow session\nallow listen port 4421 backlog 2048\n"
			"allow listen port 1-5000 backlog 16\nallow listen\n");
	id = make(&server, 1);
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 4420), &why), 0);
	ck_assert_int_eq(listen_start(id, 512, &why), 0);
	ck_assert_int_eq(fake_get_backlog(core->fabric, 4420), 16);
	id = make(&server, 2);
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 4421), &why), 0);
	ck_assert_int_eq(listen_start(id, 0, &why), 0);
	ck_assert_int_eq(fake_get_backlog(core->fabric, 4421), 2048);
	id = make(&server, 3);
	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 6000), &why), 0);
	ck_assert_int_eq(listen_start(id, 0, &why), 0);
	ck_assert_int_eq(fake_get_backlog(core->fabric, 6000), 128);
}
END_TEST

START_TEST(a_qp_of_another_process)
{
	struct rdma_conn_param p = param("");
	struct id *active, *request;

	pair_start_listening(7471);
	active = pair_resolve(1, 7471);
	fake_estrange_qp(core->fabric, STRANGER);
	p.qp_num = STRANGER;
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), STATUS_NOT_OWNER);
	ck_assert_int_eq(why.error, EPERM);
	ck_assert_int_eq(active->state, ID_ROUTE_RESOLVED);
	ck_assert_uint_eq(fake_count(core->fabric, FAKE_CONNECT), 0);
	p.qp_num = QPN;
	/* If the owner of the QP cannot be found out, the connect fails. */
	fake_fail_next(core->fabric, FAKE_QP_BELONGS, -EIO);
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), STATUS_FABRIC);
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	run_loop();
	ck_assert_int_eq(table_find(server.session, server.events[0].request, &request, &why), 0);
	p.qp_num = STRANGER;
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), STATUS_NOT_OWNER);
	ck_assert_int_eq(why.error, EPERM);
	p.qp_num = QPN;
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
}
END_TEST

START_TEST(ids_are_limited)
{
	struct id *id;

	core->settings.max_ids_per_session = 2;
	make(&client, 1);
	make(&client, 2);
	ck_assert_int_eq(id_new(&id, client.session, 1, RDMA_PS_TCP, &why), STATUS_QUOTA);
	ck_assert_int_eq(why.error, EDQUOT);
	ck_assert_int_eq(id_new(&id, client.session, 3, RDMA_PS_TCP, &why), STATUS_QUOTA);
	core->settings.max_ids_per_session = 100;
	ck_assert_int_eq(id_new(&id, client.session, 1, RDMA_PS_TCP, &why), STATUS_BAD_REQUEST);
	ck_assert_int_eq(id_new(&id, client.session, 101, RDMA_PS_TCP, &why), STATUS_BAD_REQUEST);
	core->account.limit_per_user[ACCOUNT_IDS] = 2;
	ck_assert_int_eq(id_new(&id, client.session, 3, RDMA_PS_TCP, &why), STATUS_QUOTA);
	ck_assert_ptr_nonnull(strstr(why.text, "IdsPerUser="));
	ck_assert_uint_eq(core->n_ids, 2);
}
END_TEST

START_TEST(requests_past_the_limit_are_busy)
{
	struct rdma_conn_param p = param("");
	struct refusal refusal;
	struct id *active;
	unsigned n;

	pair_start_listening(7471);
	active = pair_resolve(1, 7471);
	n = client.n;
	core->account.limit_per_user[ACCOUNT_IDS] = 2;
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert(refusal_unpack(&refusal, client.events[n].data, 148));
	ck_assert_int_eq(refusal.code, REFUSAL_BUSY);
	ck_assert_uint_gt(refusal.retry_after_ms, 0);
}
END_TEST

/* A rule decides who needs an entry in the ACL. */
START_TEST(access_of_leases)
{
	static const struct {
		const char *rules;
		enum fabric_access access;
	} cases[] = {
		{ "allow any\n", FABRIC_ACCESS_DEFAULT },
		{ "allow device access acl\nallow any\n", FABRIC_ACCESS_ACL },
		{ "allow device access open\nallow any\n", FABRIC_ACCESS_OPEN },
	};
	struct fabric_device *device;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pair_set_policy(cases[i].rules);
		ck_assert_int_eq(lease_open(client.session, "fake0", &device, &why), 0);
		ck_assert_int_eq(fake_last_access(core->fabric), cases[i].access);
		lease_close(client.session, "fake0");
		ck_assert_uint_eq(lease_count(client.session), 0);
	}
}
END_TEST

START_TEST(leases_are_counted)
{
	struct fabric_device *device;

	ck_assert_int_eq(lease_open(client.session, "", &device, &why), 0);
	ck_assert_str_eq(fabric_device_name(device), "fake0");
	ck_assert_int_eq(lease_open(client.session, "fake0", &device, &why), 0);
	ck_assert_uint_eq(core->n_leases, 1);
	ck_assert_int_eq(lease_close(client.session, "fake0"), 0);
	ck_assert_uint_eq(fabric_device_n_leases(device), 1);
	ck_assert_int_eq(lease_close(client.session, "fake0"), 0);
	ck_assert_uint_eq(fabric_device_n_leases(device), 0);
	ck_assert_int_eq(lease_close(client.session, "fake0"), 0);
	ck_assert_int_eq(lease_open(client.session, "fake1", &device, &why), STATUS_NO_DEVICE);
	pair_set_policy("allow session\nreject device device fake* reason \"in repair\"\n");
	ck_assert_int_eq(lease_open(client.session, "fake0", &device, &why), STATUS_DENIED);
	ck_assert_ptr_nonnull(strstr(why.text, "in repair"));
}
END_TEST

/* A lease is charged from its request to its end, whoever ends it, and each only once. */
START_TEST(leases_are_charged)
{
	const uint64_t *used = &core->account.used[ACCOUNT_LEASES];
	struct fabric_device *device;

	fake_add_device(core->fabric, "fake1");
	fake_add_device(core->fabric, "fake2");
	core->account.limit_per_user[ACCOUNT_LEASES] = 2;
	ck_assert_int_eq(lease_open(client.session, "fake0", &device, &why), 0);
	ck_assert_int_eq(lease_open(client.session, "fake0", &device, &why), 0);
	ck_assert_int_eq(lease_open(server.session, "fake1", &device, &why), 0);
	ck_assert_uint_eq(*used, 2);
	ck_assert_int_eq(lease_open(client.session, "fake2", &device, &why), STATUS_QUOTA);
	ck_assert_int_eq(why.error, EDQUOT);
	ck_assert_ptr_nonnull(strstr(why.text, " is at its limit of 2 leases"));
	ck_assert_int_eq(lease_open(client.session, "fake0", &device, &why), 0);
	fake_remove_device(core->fabric, "fake1");
	ck_assert_uint_eq(*used, 1);
	/* What is refused is not charged. */
	fake_fail_next(core->fabric, FAKE_LEASE_NEW, -EIO);
	ck_assert_int_eq(lease_open(client.session, "fake2", &device, &why), STATUS_FABRIC);
	pair_set_policy("allow session\nallow device device fake0\n");
	ck_assert_int_eq(lease_open(client.session, "fake2", &device, &why), STATUS_DENIED);
	ck_assert_uint_eq(*used, 1);
	client.session = session_free(client.session);
	ck_assert_uint_eq(*used, 0);
}
END_TEST

START_TEST(a_device_is_removed_and_added)
{
	struct fabric_device *device;
	struct id *listener, *id;

	listener = pair_start_listening(7471);
	ck_assert_int_eq(lease_open(server.session, "fake0", &device, &why), 0);
	fake_remove_device(core->fabric, "fake0");
	pair_expect(&server, 0, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	ck_assert_int_eq(listener->state, ID_REMOVED);
	ck_assert_uint_eq(core->n_leases, 0);
	ck_assert_uint_eq(core->n_listeners, 0);
	ck_assert_int_eq(lease_open(server.session, "", &device, &why), STATUS_NO_DEVICE);
	ck_assert_int_eq(id_new(&id, client.session, 1, RDMA_PS_TCP, &why), STATUS_NO_DEVICE);
	ck_assert_int_eq(why.error, ENODEV);

	fake_add_device(core->fabric, "fake0");
	run_loop();
	id_free(listener);
	pair_start_listening(7471);
	pair_resolve(1, 7471);
}
END_TEST

/*
 * If a call to the fabric fails, the request fails or an event reports the failure. The id can still be used or
 * destroyed.
 */
START_TEST(fabric_calls_that_fail)
{
	struct rdma_conn_param p = param("");
	struct id *listener, *active, *request;

	fake_fail_next(core->fabric, FAKE_ID_NEW, -EDQUOT);
	ck_assert_int_eq(id_new(&listener, server.session, 1, RDMA_PS_TCP, &why), STATUS_QUOTA);
	fake_fail_next(core->fabric, FAKE_ID_NEW, -ENOMEM);
	ck_assert_int_eq(id_new(&listener, server.session, 1, RDMA_PS_TCP, &why), STATUS_FABRIC);
	ck_assert_uint_eq(core->n_ids, 0);
	listener = make(&server, 1);
	fake_fail_next(core->fabric, FAKE_BIND, -EADDRNOTAVAIL);
	ck_assert_int_eq(bind_addr(listener, pair_addr("10.9.0.1", 7471), &why), STATUS_FABRIC);
	ck_assert_int_eq(why.error, EADDRNOTAVAIL);
	ck_assert_ptr_nonnull(strstr(why.text, "or the port is in use"));
	fake_fail_next(core->fabric, FAKE_BIND, -ENODEV);
	ck_assert_int_eq(bind_addr(listener, pair_addr("127.0.0.1", 7471), &why), STATUS_FABRIC);
	ck_assert_int_eq(why.error, ENODEV);
	ck_assert_ptr_nonnull(strstr(why.text, "the loopback address"));
	ck_assert_int_eq(bind_addr(listener, pair_addr("10.9.0.1", 7471), &why), 0);
	fake_fail_next(core->fabric, FAKE_LISTEN, -EADDRINUSE);
	ck_assert_int_eq(listen_start(listener, 0, &why), STATUS_FABRIC);
	ck_assert_int_eq(listen_start(listener, 0, &why), 0);

	active = make(&client, 1);
	fake_fail_next(core->fabric, FAKE_RESOLVE_ADDR, -ENODEV);
	ck_assert_int_eq(resolve_addr(active, NULL, pair_addr("10.9.0.1", 7471), 1, ROUTE_LATER,
				      &why),
			 STATUS_FABRIC);
	ck_assert_ptr_null(strstr(why.text, "the loopback address"));
	for (int i = 0; i < 2; i++) {
		const char *from = i == 0 ? "127.0.0.1" : "10.9.0.1";
		const char *to = i == 0 ? "10.9.0.1" : "127.0.0.1";

		fake_fail_next(core->fabric, FAKE_RESOLVE_ADDR, -ENODEV);
		ck_assert_int_eq(resolve_addr(active, pair_addr(from, 0), pair_addr(to, 7471), 1,
					      ROUTE_LATER, &why),
				 STATUS_FABRIC);
		ck_assert_int_eq(why.error, ENODEV);
		ck_assert_ptr_nonnull(strstr(why.text, "the loopback address"));
	}
	ck_assert_int_eq(
		resolve_addr(active, NULL, pair_addr("10.9.0.1", 7471), 1, ROUTE_LATER, &why), 0);
	fake_fail_next(core->fabric, FAKE_QP_ATTR, -EINVAL);
	pair_expect(&client, 0, RDMA_CM_EVENT_ADDR_ERROR, -EINVAL);
	ck_assert_int_eq(
		resolve_addr(active, NULL, pair_addr("10.9.0.1", 7471), 1, ROUTE_LATER, &why), 0);
	pair_expect(&client, 1, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	fake_fail_next(core->fabric, FAKE_RESOLVE_ROUTE, -ENODEV);
	ck_assert_int_eq(resolve_route(active, 1, &why), STATUS_FABRIC);
	ck_assert_str_eq(why.text, "cannot resolve the route: No such device");
	fake_fail_next(core->fabric, FAKE_RESOLVE_ROUTE, -EIO);
	ck_assert_int_eq(resolve_route(active, 1, &why), STATUS_FABRIC);
	ck_assert_int_eq(resolve_route(active, 1, &why), 0);
	pair_expect(&client, 2, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fake_fail_next(core->fabric, FAKE_CONNECT, -EIO);
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), STATUS_FABRIC);
	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	run_loop();
	ck_assert_int_eq(table_find(server.session, server.events[0].request, &request, &why), 0);
	fake_fail_next(core->fabric, FAKE_ACCEPT, -EIO);
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), STATUS_FABRIC);
	ck_assert_int_eq(conn_accept(request, &p, NULL, &why), 0);
	fake_fail_next(core->fabric, FAKE_QP_ATTR, -EINVAL);
	pair_expect(&client, 3, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	ck_assert_int_eq(active->state, ID_FAILED);

	/* The kernel resolves the loopback address, and then finds no route. */
	active = make(&client, 2);
	ck_assert_int_eq(
		resolve_addr(active, NULL, pair_addr("127.0.0.1", 7471), 1, ROUTE_LATER, &why), 0);
	pair_expect(&client, 4, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	fake_fail_next(core->fabric, FAKE_RESOLVE_ROUTE, -ENODEV);
	ck_assert_int_eq(resolve_route(active, 1, &why), STATUS_FABRIC);
	ck_assert_int_eq(why.error, ENODEV);
	ck_assert_ptr_nonnull(strstr(why.text, "the loopback address"));
}
END_TEST

/* An event that does not fit the id's state is reported to the client, and does not change the state. */
START_TEST(events_that_do_not_fit_the_state)
{
	struct id *id = make(&client, 1);

	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", 5000), &why), 0);
	fake_send_event(core->fabric, 5000, RDMA_CM_EVENT_ESTABLISHED, 0);
	fake_send_event(core->fabric, 5000, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	fake_send_event(core->fabric, 5000, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	pair_expect(&client, 2, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	ck_assert_int_eq(id->state, ID_BOUND);
	ck_assert_uint_eq(core->n_connections, 0);

	/* An ADDR_RESOLVED for a listener must not cause a decision about a connect. */
	ck_assert_int_eq(listen_start(id, 1, &why), 0);
	pair_set_policy("allow session\nallow listen\n");
	fake_send_event(core->fabric, 5000, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	pair_expect(&client, 3, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(id->state, ID_LISTENING);
}
END_TEST

START_TEST(a_listener_is_destroyed_with_requests_pending)
{
	struct rdma_conn_param p = param("");
	struct id *listener = pair_start_listening(7471), *active = pair_resolve(1, 7471);
	unsigned n = client.n;

	ck_assert_int_eq(conn_connect(active, &p, NULL, &why), 0);
	id_free(listener);
	pair_expect(&client, n, RDMA_CM_EVENT_REJECTED, 28);
	ck_assert_uint_eq(core->n_ids, 1);
}
END_TEST

START_TEST(an_admins_reason_reaches_the_client)
{
	struct id *active, *passive;
	unsigned n;

	establish(&active, &passive);
	n = client.n;
	fake_fail_next(core->fabric, FAKE_DISCONNECT, -EIO);
	ck_assert_int_eq(admin_kick_id(server.session, client.session->number, 1, &why), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_CONNECT_ERROR, -EACCES);
	ck_assert_str_eq(client.events[n].text, "ended by an admin");
}
END_TEST

UNIT_MAIN("core", pair_set_up, pair_tear_down, a_connection_from_end_to_end,
	  the_end_of_a_session_disconnects_the_peer, verbs_and_states,
	  the_reason_of_a_reject_reaches_the_peer, policy_rejects_a_request,
	  a_request_without_a_rule_is_rejected_as_no_rule, connect_is_decided_early_and_again,
	  tos_by_policy, reuseaddr_by_policy, reuseaddr_of_a_listener, reuseaddr_is_decided_again,
	  resolving_goes_on_until_the_deadline, privileged_ports_need_a_rule_that_names_them,
	  binding_needs_a_purpose, backlog, a_qp_of_another_process, ids_are_limited,
	  requests_past_the_limit_are_busy, leases_are_counted, leases_are_charged,
	  access_of_leases, a_device_is_removed_and_added, fabric_calls_that_fail,
	  events_that_do_not_fit_the_state, a_listener_is_destroyed_with_requests_pending,
	  an_admins_reason_reaches_the_client)

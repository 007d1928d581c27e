/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "core/rule/core_life.h"
#include "core/verbs/bind.h"
#include "core/verbs/conn.h"
#include "core/verbs/id_life.h"
#include "core/verbs/listen.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "core/verbs/session_life.h"
#include "tests/unit/pair.h"
#include "util/diag.h"

sd_event *loop;
struct core *core;
struct record server, client;
struct failure why;
int sockets[2];

static void on_event(void *userdata, const struct session_event *event)
{
	struct record *record = userdata;
	typeof(record->events[0]) *e = &record->events[record->n++ % 64];

	*e = (typeof(*e)){
		.type = event->type,
		.status = event->status,
		.id = event->id->handle,
		.request = event->request ? event->request->handle : 0,
		.with_info = event->with_info,
		.routed = event->routed,
		.with_init = event->init.mask != 0,
		.traffic_class = event->rtr.mask & IBV_QP_AV ?
					 event->rtr.attr.ah_attr.grh.traffic_class :
					 -1,
	};
	if (event->fabric) {
		e->conn = event->fabric->conn;
		memcpy(e->data, event->fabric->private_data, sizeof(e->data));
	}
	if (event->failure)
		strcpy(e->text, event->failure->text);
}

static void on_resume(void *userdata, uint32_t handle)
{
	struct record *record = userdata;

	record->n_resumed++;
}

static const struct session_ops session_ops = { .event = on_event, .resume = on_resume };

struct policy *load(const char *rules)
{
	struct policy *policy = NULL;
	struct diag *diag = NULL;

	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_msg(policy_load_text(&policy, "test.rules", rules, strlen(rules), diag) == 0,
		      "%s", complaints_at(&diag->errors, 0));
	diag_free(diag);
	return policy;
}

void pair_set_policy(const char *rules)
{
	struct policy *policy = load(rules);

	core_set_policy(core, policy);
	policy_unref(policy);
}

void run_loop(void)
{
	while (sd_event_run(loop, 0) > 0)
		;
}

void pair_set_up(void)
{
	struct policy *policy = load("allow any\n");

	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(core_new(&core, loop, FABRIC_ACCESS_ACL, policy), 0);
	policy_unref(policy);
	core->settings = (struct core_settings){
		.max_ids_per_session = 100,
		.backlog = 128,
		.tos = -1,
		.resolve_timeout_ms = 1000,
	};
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
	memset(&server, 0, sizeof(server));
	memset(&client, 0, sizeof(client));
	ck_assert_int_eq(session_new(&server.session, core, sockets[0], DOOR_ADMIN, NULL,
				     &session_ops, &server),
			 0);
	ck_assert_int_eq(session_new(&client.session, core, sockets[0], DOOR_ADMIN, NULL,
				     &session_ops, &client),
			 0);
	/* Without SO_PEERPIDFD the sessions would have to prove their identity. check_identity tests that. */
	server.session->identity.proven = client.session->identity.proven = true;
	ck_assert_int_eq(session_greet(server.session, &why), 0);
	ck_assert_int_eq(session_greet(client.session, &why), 0);
	run_loop();
}

void pair_tear_down(void)
{
	session_free(client.session);
	session_free(server.session);
	ck_assert_uint_eq(core->n_sessions, 0);
	ck_assert_uint_eq(core->n_ids, 0);
	ck_assert_uint_eq(core->n_listeners, 0);
	ck_assert_uint_eq(core->n_connections, 0);
	ck_assert_uint_eq(core->n_leases, 0);
	ck_assert_uint_eq(fake_n_ids(core->fabric), 0);
	core_free(core);
	sd_event_unref(loop);
	close(sockets[0]);
	close(sockets[1]);
}

const struct sockaddr *pair_addr(const char *ip, uint16_t port)
{
	static struct sockaddr_in in[8];
	static unsigned n;
	struct sockaddr_in *a = &in[n++ % 8];

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	ck_assert_int_eq(inet_pton(AF_INET, ip, &a->sin_addr), 1);
	return (struct sockaddr *)a;
}

struct id *make(struct record *record, uint32_t handle)
{
	struct id *id;

	ck_assert_int_eq(id_new(&id, record->session, handle, RDMA_PS_TCP, &why), 0);
	ck_assert_uint_eq(id->handle, handle);
	return id;
}

void pair_expect(struct record *record, unsigned i, enum rdma_cm_event_type type, int status)
{
	run_loop();
	ck_assert_uint_gt(record->n, i);
	ck_assert_str_eq(rdma_event_str(record->events[i].type), rdma_event_str(type));
	ck_assert_int_eq(record->events[i].status, status);
}

struct id *pair_start_listening(uint16_t port)
{
	struct id *id = make(&server, 1);

	ck_assert_int_eq(bind_addr(id, pair_addr("10.9.0.1", port), &why), 0);
	ck_assert_int_eq(listen_start(id, 0, &why), 0);
	ck_assert_int_eq(id->state, ID_LISTENING);
	return id;
}

struct id *pair_resolve(uint32_t handle, uint16_t port)
{
	struct id *id = make(&client, handle);
	unsigned n = client.n;

	ck_assert_int_eq(
		resolve_addr(id, NULL, pair_addr("10.9.0.1", port), 100, ROUTE_LATER, &why), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(resolve_route(id, 100, &why), 0);
	pair_expect(&client, n + 1, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

struct rdma_conn_param param(const char *data)
{
	return (struct rdma_conn_param){
		.qp_num = QPN,
		.private_data = data,
		.private_data_len = (uint8_t)strlen(data),
	};
}

void establish(struct id **ret_active, struct id **ret_passive)
{
	struct rdma_conn_param p = param("hello"), q = param("welcome");
	unsigned n;

	pair_start_listening(7471);
	*ret_active = pair_resolve(1, 7471);
	n = client.n;
	ck_assert_int_eq(conn_connect(*ret_active, &p, NULL, &why), 0);
	pair_expect(&server, 0, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	ck_assert_mem_eq(server.events[0].data, "hello", 5);
	ck_assert_uint_eq(server.events[0].id, 1);
	ck_assert_uint_ge(server.events[0].request, SESSION_FIRST_REQUEST);
	ck_assert_int_eq(table_find(server.session, server.events[0].request, ret_passive, &why),
			 0);
	ck_assert_int_eq(conn_accept(*ret_passive, &q, NULL, &why), 0);
	pair_expect(&client, n, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ck_assert_mem_eq(client.events[n].data, "welcome", 7);
	ck_assert_int_eq(conn_establish(*ret_active, &why), 0);
	pair_expect(&server, 1, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_uint_eq(core->n_connections, 2);
}

void pair_enter_time_wait(struct id **ret_active, struct id **ret_passive)
{
	establish(ret_active, ret_passive);
	(*ret_active)->handshake.qp_timeout = (*ret_passive)->handshake.qp_timeout = 31;
	ck_assert_int_eq(conn_disconnect(*ret_active, &why), 0);
	pair_expect(&server, 2, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_int_eq((*ret_active)->state, ID_DISCONNECTED);
	ck_assert_int_eq((*ret_passive)->state, ID_DISCONNECTED);
}

void pair_end_time_wait(struct id *active, struct id *passive)
{
	fake_send_event_to(core->fabric, active->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	fake_send_event_to(core->fabric, passive->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	run_loop();
}

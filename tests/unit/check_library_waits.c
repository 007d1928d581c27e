/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/hooks/hooks.h"
#include "tests/unit/liar.h"

/*
 * In a session with RDMABROKER_NONBLOCK, only the calls that librdmabroker(3) lists wait. The broker does not reply,
 * so a call that waits ends at its deadline. The tests count deadlines.
 */

#define DEADLINE_MS 1000

static struct rdmabroker_id *id, *listener, *request;
static struct ibv_context *verbs;
static int value, fd;

static const struct sockaddr *addr(void)
{
	static const struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = 0x2f1d,
		.sin_addr.s_addr = 0x0100090a,
	};

	return (const struct sockaddr *)&in;
}

static void drop_events(void)
{
	struct rdmabroker_event *event;

	while (rdmabroker_get_event(session, 0, &event) == 0)
		rdmabroker_free_event(event);
}

/* Sends an event of TYPE about HANDLE. REQUEST_ID: the id of a CONNECT_REQUEST, with ECE or NULL; 0: none. */
static void send_event(uint32_t handle, enum rdmabroker_event_type type, uint32_t request_id,
		       Rdmabroker__Ece *ece)
{
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	Rdmabroker__IdInfo info = RDMABROKER__ID_INFO__INIT;
	Rdmabroker__QpAttr attr = RDMABROKER__QP_ATTR__INIT;

	attr.mask = attr.rtr_mask = attr.rts_mask = IBV_QP_STATE;
	info.device = (char *)"fake0";
	event.id = handle;
	event.type = type;
	event.request_id = request_id;
	event.info = &info;
	event.qp = &attr;
	event.remote_ece = ece;
	liar_send_event(&event);
}

/* ID is resolved, LISTENER has received REQUEST, and no device is open. From then on the broker does not reply. */
static void set_up(void)
{
	struct rdmabroker_event *event;

	liar_set_up();
	liar_open(RDMABROKER_NONBLOCK, DEADLINE_MS);
	id = liar_make_id();
	listener = liar_make_id();
	ck_assert_int_eq(rdmabroker_listen(listener, 0), 0);
	send_event(1, RDMABROKER_EVENT_ADDR_RESOLVED, 0, NULL);
	drop_events();
	send_event(2, RDMABROKER_EVENT_CONNECT_REQUEST, 0x80000000u, NULL);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_CONNECT_REQUEST);
	request = event->id;
	rdmabroker_free_event(event);
	liar.answer = NULL;
}

static void open_device(void)
{
	liar.answer = liar_say_yes;
	ck_assert_int_eq(rdmabroker_open_device(session, NULL, &verbs), 0);
	drop_events();
	liar.answer = NULL;
}

#define WAITS(call, error)                                                                      \
	do {                                                                                    \
		unsigned before = hooks_count_deadlines();                                      \
                                                                                                \
		ck_assert_int_eq((call), -(error));                                             \
		ck_assert_msg(hooks_count_deadlines() == before + 1, "%s did not wait", #call); \
	} while (0)

#define DOES_NOT_WAIT(call, error)                                                        \
	do {                                                                              \
		unsigned before = hooks_count_deadlines();                                \
                                                                                          \
		ck_assert_int_eq((call), -(error));                                       \
		ck_assert_msg(hooks_count_deadlines() == before, "%s has waited", #call); \
	} while (0)

START_TEST(calls_that_do_not_wait)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct addrinfo info = { .ai_flags = AI_PASSIVE, .ai_addr = (struct sockaddr *)addr() };
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_INIT };
	struct rdmabroker_event *event;
	struct rdmabroker_notice *notice;
	struct rdmabroker_id *other;
	struct ibv_context *context;
	struct ibv_pd *pd;

	DOES_NOT_WAIT(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &other), 0);
	DOES_NOT_WAIT(rdmabroker_set_option(other, RDMABROKER_OPTION_TOS, 1), 0);
	DOES_NOT_WAIT(rdmabroker_bind_addr(other, addr()), 0);
	DOES_NOT_WAIT(rdmabroker_listen(other, 0), 0);
	DOES_NOT_WAIT(rdmabroker_resolve_addr(other, NULL, addr(), 1), 0);
	DOES_NOT_WAIT(rdmabroker_resolve_route(other, 1), 0);
	DOES_NOT_WAIT(rdmabroker_resolve(other, NULL, addr(), 1), 0);
	DOES_NOT_WAIT(rdmabroker_connect(other, &param), 0);
	DOES_NOT_WAIT(rdmabroker_establish(other), 0);
	DOES_NOT_WAIT(rdmabroker_notify(other, IBV_EVENT_COMM_EST), 0);
	DOES_NOT_WAIT(rdmabroker_join_multicast(other, addr(), 1, NULL), 0);
	DOES_NOT_WAIT(rdmabroker_leave_multicast(other, addr()), 0);
	DOES_NOT_WAIT(rdmabroker_reject(other, NULL, 0), 0);
	DOES_NOT_WAIT(rdmabroker_reject_ece(other, NULL, 0), 0);
	DOES_NOT_WAIT(rdmabroker_disconnect(other), 0);
	DOES_NOT_WAIT((rdmabroker_destroy_id(other), 0), 0);
	DOES_NOT_WAIT(rdmabroker_create_ep(session, &info, RDMABROKER_PS_TCP, NULL, NULL,
					   DEADLINE_MS, &other),
		      0);
	DOES_NOT_WAIT(rdmabroker_get_event(session, 0, &event), EAGAIN);
	DOES_NOT_WAIT(rdmabroker_get_notice(session, 0, &notice), EINVAL);

	/* If the device is open, calls that need a device do not wait either. */
	open_device();
	DOES_NOT_WAIT(rdmabroker_init_qp_attr(id, &qp_attr, &value), 0);
	DOES_NOT_WAIT(rdmabroker_get_verbs(id, &context), 0);
	DOES_NOT_WAIT(rdmabroker_get_pd(id, &pd), 0);
	DOES_NOT_WAIT(rdmabroker_create_qp(id, NULL, &attr), 0);
	DOES_NOT_WAIT(rdmabroker_connect(id, NULL), 0);
	DOES_NOT_WAIT(rdmabroker_create_qp(request, NULL, &attr), 0);
	DOES_NOT_WAIT(rdmabroker_accept(request, NULL), 0);
	/* When this event is taken, the library moves the QP and confirms the connection. */
	send_event(1, RDMABROKER_EVENT_CONNECT_RESPONSE, 0, NULL);
	DOES_NOT_WAIT(rdmabroker_get_event(session, 0, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_ESTABLISHED);
	rdmabroker_free_event(event);
	DOES_NOT_WAIT((rdmabroker_destroy_qp(id), 0), 0);
	DOES_NOT_WAIT((rdmabroker_destroy_id(id), 0), 0);
	DOES_NOT_WAIT((rdmabroker_destroy_id(listener), 0), 0);
	DOES_NOT_WAIT((rdmabroker_destroy_id(request), 0), 0);
	DOES_NOT_WAIT((rdmabroker_close_device(session, verbs), 0), 0);
}
END_TEST

START_TEST(calls_with_a_deadline)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct addrinfo info = { .ai_addr = (struct sockaddr *)addr() };
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	struct rdmabroker_event *event;
	struct rdmabroker_id *other;

	WAITS(rdmabroker_get_event(session, DEADLINE_MS, &event), EAGAIN);
	WAITS(rdmabroker_get_request(listener, DEADLINE_MS, &other), ETIMEDOUT);
	WAITS(rdmabroker_wait_disconnected(id, DEADLINE_MS), ETIMEDOUT);
	WAITS(rdmabroker_resolve_addr_wait(id, NULL, addr(), DEADLINE_MS), ETIMEDOUT);
	WAITS(rdmabroker_resolve_route_wait(id, DEADLINE_MS), ETIMEDOUT);
	WAITS(rdmabroker_resolve_wait(id, NULL, addr(), DEADLINE_MS), ETIMEDOUT);
	WAITS(rdmabroker_connect_wait(id, &param, DEADLINE_MS), ETIMEDOUT);
	WAITS(rdmabroker_accept_wait(request, &param, DEADLINE_MS), ETIMEDOUT);
	WAITS(rdmabroker_disconnect_wait(id, DEADLINE_MS), ETIMEDOUT);
	WAITS(rdmabroker_join_multicast_wait(id, addr(), 1, DEADLINE_MS, &ud), ETIMEDOUT);
	WAITS(rdmabroker_create_ep(session, &info, RDMABROKER_PS_TCP, NULL, NULL, DEADLINE_MS,
				   &other),
	      ETIMEDOUT);
	WAITS(rdmabroker_destroy_id_wait(id, DEADLINE_MS), ETIMEDOUT);
}
END_TEST

START_TEST(calls_that_release_something)
{
	struct rdmabroker_question question = { .operation = "listen" };
	struct rdmabroker_reload_result *reloaded;
	struct rdmabroker_explanation *explanation;
	struct rdmabroker_status *status;
	struct rdmabroker_notice *notice;
	struct rdmabroker_list *list;
	struct rdmabroker_rules *rules;
	struct ibv_context **devices;
	struct rdmabroker_id *other;
	char *metrics;
	size_t n;

	WAITS(rdmabroker_open_device(session, NULL, &verbs), ETIMEDOUT);
	WAITS(rdmabroker_get_devices(session, &devices, &n), ETIMEDOUT);
	WAITS(rdmabroker_lease_devices(session, NULL), ETIMEDOUT);
	WAITS(rdmabroker_lease_devices(session, "fake0"), ETIMEDOUT);
	WAITS(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), ETIMEDOUT);
	WAITS(rdmabroker_export_id(id, &fd), ETIMEDOUT);
	WAITS(rdmabroker_import_id(session, STDIN_FILENO, &other), ETIMEDOUT);
	WAITS(rdmabroker_migrate_id(id, session), ETIMEDOUT);
	WAITS(rdmabroker_get_status(session, &status), ETIMEDOUT);
	WAITS(rdmabroker_get_rules(session, &rules), ETIMEDOUT);
	WAITS(rdmabroker_get_list(session, 0, &list), ETIMEDOUT);
	WAITS(rdmabroker_kick(session, 1, 0), ETIMEDOUT);
	WAITS(rdmabroker_drain(session, false), ETIMEDOUT);
	WAITS(rdmabroker_get_metrics(session, &metrics), ETIMEDOUT);
	WAITS(rdmabroker_watch(session, NULL), ETIMEDOUT);
	WAITS(rdmabroker_get_notice(session, DEADLINE_MS, &notice), EAGAIN);
	WAITS(rdmabroker_explain(session, &question, &explanation), ETIMEDOUT);
	WAITS(rdmabroker_reload(session, false, &reloaded), ETIMEDOUT);
}
END_TEST

START_TEST(calls_that_open_the_device)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_pd *pd;

	WAITS(rdmabroker_get_verbs(id, &verbs), ETIMEDOUT);
	WAITS(rdmabroker_get_pd(id, &pd), ETIMEDOUT);
	WAITS(rdmabroker_create_qp(id, NULL, &attr), ETIMEDOUT);
}
END_TEST

START_TEST(attributes_that_no_event_has_carried)
{
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	WAITS(rdmabroker_init_qp_attr(listener, &qp_attr, &value), ETIMEDOUT);
	open_device();
	ck_assert_int_eq(rdmabroker_create_qp(request, NULL, &attr), 0);
	ck_assert_int_eq(rdmabroker_set_option(request, RDMABROKER_OPTION_TOS, 1), 0);
	WAITS(rdmabroker_accept(request, NULL), ETIMEDOUT);
}
END_TEST

static Rdmabroker__ConnParam asked;
static Rdmabroker__Ece answered;

static void keep_param(const Rdmabroker__Request *sent)
{
	if (sent->op_case == OP(CONNECT))
		asked = *sent->connect->param;
	if (sent->op_case == OP(ACCEPT))
		asked = *sent->accept->param;
	if (sent->op_case == OP(ACCEPT) && sent->accept->local_ece)
		answered = *sent->accept->local_ece;
	liar_say_yes(sent);
}

/* get_option waits, so all that was sent before is read. This broker's reply has no value. */
static void await_broker(void)
{
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), -EPROTO);
}

/* The fake device's maximum of both is 16. A rule's cap can be larger, so the broker must not get 255 to reduce. */
START_TEST(parameters_of_a_known_qp)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct rdmabroker_conn_param much = RDMABROKER_CONN_PARAM_INIT;

	open_device();
	liar.answer = keep_param;
	ck_assert_int_eq(rdmabroker_create_qp(id, NULL, &attr), 0);
	much.initiator_depth = 17;
	ck_assert_int_eq(rdmabroker_connect(id, &much), -EINVAL);
	ck_assert_int_eq(rdmabroker_connect(id, NULL), 0);
	await_broker();
	ck_assert_uint_eq(asked.responder_resources, 16);
	ck_assert_uint_eq(asked.initiator_depth, 16);
	/* The request has asked for nothing. */
	ck_assert_int_eq(rdmabroker_create_qp(request, NULL, &attr), 0);
	ck_assert_int_eq(rdmabroker_accept(request, NULL), 0);
	await_broker();
	ck_assert_uint_eq(asked.responder_resources, 0);
	ck_assert_uint_eq(asked.initiator_depth, 0);
}
END_TEST

/* The fake device is of vendor 0x15b3. Another vendor's options are not the QP's. */
static void accept_ece(uint32_t handle, uint32_t vendor, uint32_t options)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	Rdmabroker__Ece ece = RDMABROKER__ECE__INIT;
	struct rdmabroker_event *event;

	ece.vendor_id = vendor;
	ece.options = 6;
	send_event(2, RDMABROKER_EVENT_CONNECT_REQUEST, handle, &ece);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
	ck_assert_int_eq(rdmabroker_create_qp(event->id, NULL, &attr), 0);
	ck_assert_int_eq(rdmabroker_accept(event->id, NULL), 0);
	rdmabroker_free_event(event);
	await_broker();
	ck_assert_uint_eq(hooks_get_last_qp().ece_options, options);
	ck_assert_uint_eq(answered.vendor_id, vendor);
}

START_TEST(ece_of_a_request)
{
	open_device();
	liar.answer = keep_param;
	accept_ece(0x80000001u, 0x15b3, 6);
	accept_ece(0x80000002u, 0x1077, 0);
}
END_TEST

START_TEST(qp_of_the_program)
{
	struct ibv_qp qp = { .qp_type = IBV_QPT_RC, .qp_num = 17 };

	ck_assert_int_eq(rdmabroker_move_qp(request, &qp, IBV_QPS_RTR, -1, -1), -EINVAL);
	DOES_NOT_WAIT(rdmabroker_move_qp(request, &qp, IBV_QPS_INIT, -1, -1), 0);
	ck_assert_int_eq(qp.state, IBV_QPS_INIT);
	DOES_NOT_WAIT(rdmabroker_move_qp(request, &qp, IBV_QPS_RTS, 3, 2), 0);
	ck_assert_int_eq(qp.state, IBV_QPS_RTS);
	ck_assert_uint_eq(hooks_get_last_qp().responder_resources, 3);
	ck_assert_uint_eq(hooks_get_last_qp().initiator_depth, 2);
}
END_TEST

/* Calls that cannot return -EAGAIN wait until their deadline for room in the socket. */
START_TEST(a_full_socket)
{
	struct rdmabroker_id *other = liar_make_id(), *more[8];

	open_device();
	liar.is_deaf = true;
	while (rdmabroker_set_option(other, RDMABROKER_OPTION_TOS, 1) == 0)
		;
	DOES_NOT_WAIT(rdmabroker_bind_addr(other, addr()), EAGAIN);
	DOES_NOT_WAIT(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &more[0]), EAGAIN);
	WAITS((rdmabroker_close_device(session, verbs), 0), 0);
	WAITS((rdmabroker_destroy_id(other), 0), 0);
	/* The session is lost, because the request of destroy_id could not be sent. */
	DOES_NOT_WAIT(rdmabroker_bind_addr(id, addr()), ECONNRESET);
}
END_TEST

/*
 * If all handles are in use, create_id sends a request, whose reply would free the handles of destroyed ids. Here the
 * socket is full.
 */
START_TEST(a_full_socket_and_no_free_handle)
{
	struct rdmabroker_id *other;

	rdmabroker_close(session);
	close(liar.sock);
	liar.max_ids = 2;
	liar.answer = liar_say_yes;
	liar_open(RDMABROKER_NONBLOCK, DEADLINE_MS);
	id = liar_make_id();
	other = liar_make_id();
	drop_events();
	liar.answer = NULL;
	rdmabroker_destroy_id(other);
	liar.is_deaf = true;
	while (rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 1) == 0)
		;
	DOES_NOT_WAIT(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &other), EAGAIN);
}
END_TEST

UNIT_MAIN("library_waits", set_up, liar_tear_down, calls_that_do_not_wait, calls_with_a_deadline,
	  calls_that_release_something, calls_that_open_the_device,
	  attributes_that_no_event_has_carried, parameters_of_a_known_qp, ece_of_a_request,
	  qp_of_the_program, a_full_socket, a_full_socket_and_no_free_handle)

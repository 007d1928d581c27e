/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/status.h"
#include "tests/unit/harness.h"

/* The library's calls, as programs use them. */

START_TEST(a_connection)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = {
		.size = sizeof(param), .qp_num = 17, .private_data = "hello", .private_data_len = 5
	};
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471);
	struct rdmabroker_id *passive;
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_ptr_eq(event->listen_id, listener);
	ck_assert_ptr_eq(rdmabroker_get_context(event->id), s);
	ck_assert_uint_ge(event->conn->private_data_len, 5);
	ck_assert_mem_eq(event->conn->private_data, "hello", 5);
	passive = event->id;
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_accept(passive, &param), 0);
	event = expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_establish(active), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	ck_assert_int_eq(rdmabroker_disconnect_wait(passive, T), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_DISCONNECTED));
	rdmabroker_destroy_id(passive);
	rdmabroker_destroy_id(active);
	await_counts(2, 1);
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

START_TEST(rejects_have_an_origin_and_a_reason)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	const struct rdmabroker_event *reject;
	struct rdmabroker_event *event;
	struct rdmabroker_id *active;

	active = resolve(c, 7471);
	expect_failure(rdmabroker_connect_wait(active, &param, T), ECONNREFUSED, "no listener");
	ck_assert_int_eq(rdmabroker_get_reject_event(active)->rejected_by,
			 RDMABROKER_REJECTED_NO_LISTENER);
	rdmabroker_destroy_id(active);

	start_listening(s, 7471);
	set_policy("allow session\nallow connect\nreject accept reason \"in repair\"");
	active = resolve(c, 7471);
	expect_failure(rdmabroker_connect_wait(active, &param, T), ECONNREFUSED,
		       "connect: rejected by policy of the peer's broker: in repair");
	reject = rdmabroker_get_reject_event(active);
	ck_assert_int_eq(reject->rejected_by, RDMABROKER_REJECTED_BY_POLICY);
	ck_assert_int_eq(reject->reject_code, RDMABROKER_REJECT_DENIED);
	ck_assert_str_eq(reject->text, "in repair");

	set_policy("allow any");
	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_reject(event->id, "not today", 9), 0);
	rdmabroker_destroy_id(event->id);
	rdmabroker_free_event(event);
	event = expect(c, RDMABROKER_EVENT_REJECTED);
	ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_BY_PEER);
	ck_assert_mem_eq(event->conn->private_data, "not today", 9);
	rdmabroker_free_event(event);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

/* The private data tell who has rejected. */
START_TEST(rejects_of_iwarp)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct rdmabroker_event *event;
	struct rdmabroker_id *active;

	start_listening(s, 7471);
	for (size_t i = 0; i < 2; i++) {
		fake_reject_as(fake_last(), i == 0 ? -ECONNRESET : -ECONNREFUSED);
		set_policy("allow session\nallow connect\nreject accept reason \"in repair\"");
		active = resolve(c, 7471);
		ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
		event = expect(c, RDMABROKER_EVENT_REJECTED);
		ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_BY_POLICY);
		ck_assert_str_eq(event->text, "in repair");
		rdmabroker_free_event(event);
		set_policy("allow any");
		active = resolve(c, 7471);
		ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
		event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
		ck_assert_int_eq(rdmabroker_reject(event->id, NULL, 0), 0);
		rdmabroker_destroy_id(event->id);
		rdmabroker_free_event(event);
		event = expect(c, RDMABROKER_EVENT_REJECTED);
		ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_BY_TRANSPORT);
		rdmabroker_free_event(event);
	}
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(a_session_that_does_not_block)
{
	struct rdmabroker *s = open_session(RDMABROKER_NONBLOCK);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;
	unsigned n_asked;
	int mask;

	/* Several requests are sent before any reply is taken: */
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_listen(id, 1), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	expect_done(s, "create_id", 0);
	expect_done(s, "bind_addr", 0);
	ck_assert_uint_ne(rdmabroker_get_local_port(id), 0);
	expect_done(s, "listen", 0);
	expect_done(s, "bind_addr", -EINVAL);
	/* The library has no attributes for a listener, so the broker has to query the kernel. */
	n_asked = fake_count(harness.core->fabric, FAKE_QP_ATTR);
	ck_assert_int_eq(rdmabroker_init_qp_attr(id, &attr, &mask), 0);
	ck_assert_uint_eq(fake_count(harness.core->fabric, FAKE_QP_ATTR), n_asked + 1);
	rdmabroker_destroy_id(id);

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(1), T), 0);
	expect_done(s, "create_id", 0);
	event = expect(s, RDMABROKER_EVENT_ADDR_RESOLVED);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_get_event(s, 0, &event), -EAGAIN);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	rdmabroker_close(s);
}
END_TEST

START_TEST(events_of_a_destroyed_id_are_dropped)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(s, 7471);
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	/*
	 * The broker has created the connection request. When the listener is destroyed, the request must be
	 * rejected.
	 */
	await_counts(1, 3);
	rdmabroker_destroy_id(listener);
	event = expect(s, RDMABROKER_EVENT_REJECTED);
	rdmabroker_free_event(event);
	rdmabroker_destroy_id(active);
	await_counts(1, 0);
	/* The handles of destroyed ids can be used again. */
	for (int i = 0; i < 100; i++)
		rdmabroker_destroy_id(resolve(s, 7471));
	rdmabroker_close(s);
}
END_TEST

START_TEST(refusals_have_a_text)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *ids[9], *id = NULL;
	struct rdmabroker_options options = { .size = sizeof(options),
					      .socket = harness.socket_path };
	struct rdmabroker *more[4], *extra;

	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &ids[i]), 0);
	expect_failure(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &ids[8]), EDQUOT, "limit");
	rdmabroker_destroy_id(ids[0]);
	expect_failure(rdmabroker_create_id(s, (enum rdmabroker_port_space)0x999, NULL, &id),
		       EINVAL, "port space");
	expect_failure(rdmabroker_resolve_route(ids[1], T), EINVAL, "idle");
	expect_failure(rdmabroker_resolve_addr(ids[1], NULL, NULL, T), EINVAL, "IPv4");
	expect_failure(rdmabroker_connect(ids[1], NULL), EINVAL, "QP");
	expect_failure(rdmabroker_establish(ids[1]), EINVAL, "establish");
	set_policy("allow session\nreject listen reason \"no servers\"\nallow connect");
	ck_assert_int_eq(rdmabroker_bind_addr(ids[1], addr(9000)), 0);
	expect_failure(rdmabroker_listen(ids[1], 1), EACCES, "no servers");

	for (int i = 0; i < 3; i++)
		more[i] = open_session(0);
	ck_assert_int_eq(rdmabroker_open(&options, &extra), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(rdmabroker_last_failure()->text, "SessionsPerUser="));
	for (int i = 0; i < 3; i++)
		rdmabroker_close(more[i]);
	rdmabroker_close(s);
	await_counts(0, 0);
	unlink(harness.socket_path);
	ck_assert_int_eq(rdmabroker_open(&options, &extra), -ENOENT);
}
END_TEST

/* The broker does not reply when it has destroyed an id. The id's handle must become free nevertheless. */
START_TEST(handles_are_reused)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .size = sizeof(param) };
	struct rdmabroker_id *ids[8], *id;
	struct rdmabroker_event *event;
	unsigned max = sizeof(ids) / sizeof(ids[0]);

	ck_assert_uint_eq(harness.core->settings.max_ids_per_session, max);
	for (int round = 0; round < 3; round++) {
		for (unsigned i = 0; i < max; i++)
			ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &ids[i]),
					 0);
		expect_failure(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &id), EDQUOT,
			       "its limit");
		for (unsigned i = 0; i < max; i++)
			rdmabroker_destroy_id(ids[i]);
	}
	start_listening(s, 7471);
	for (int round = 0; round < 40; round++) {
		id = resolve(c, 7471);
		param.qp_num = 100 + (unsigned)round;
		ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
		event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
		/* The broker uses the handle of the destroyed id for the next connection request. */
		rdmabroker_destroy_id(event->id);
		rdmabroker_free_event(event);
		event = expect(c, RDMABROKER_EVENT_REJECTED);
		rdmabroker_free_event(event);
		rdmabroker_destroy_id(id);
	}
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

/* One request resolves the address and the route. A failure's text names the step that failed. */
START_TEST(address_and_route)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0), *n;
	struct rdmabroker_id *id;

	start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_wait(id, NULL, addr(7471), T), 0);
	expect_failure(rdmabroker_resolve_route_wait(id, T), EINVAL, "route resolved");
	rdmabroker_destroy_id(id);

	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve(id, NULL, addr(7471), T), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ADDR_RESOLVED));
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ROUTE_RESOLVED));
	rdmabroker_destroy_id(id);

	/*
	 * The first resolve_wait fails in the library. In the second one, the route fails in advance, and again when
	 * the program requests it.
	 */
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &id), 0);
	expect_failure(rdmabroker_resolve_wait(id, NULL, addr(7471), 0), EINVAL, "timeout");
	fake_fail_times(harness.core->fabric, FAKE_RESOLVE_ROUTE, 2, -ENOMEM);
	expect_failure(rdmabroker_resolve_wait(id, NULL, addr(7471), T), ENOMEM,
		       "resolve the route");
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	rdmabroker_destroy_id(id);

	n = open_session(RDMABROKER_NONBLOCK);
	ck_assert_int_eq(rdmabroker_create_id(n, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve(id, NULL, addr(7471), T), 0);
	rdmabroker_free_event(expect(n, RDMABROKER_EVENT_DONE));
	rdmabroker_free_event(expect(n, RDMABROKER_EVENT_ADDR_RESOLVED));
	rdmabroker_free_event(expect(n, RDMABROKER_EVENT_ROUTE_RESOLVED));
	/* The event of a failure names the program's call. */
	ck_assert_int_eq(rdmabroker_resolve(id, NULL, addr(7471), T), 0);
	expect_done(n, "resolve", -EINVAL);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(7471), T), 0);
	expect_done(n, "resolve_addr", -EINVAL);
	rdmabroker_close(n);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(attributes_that_no_event_carries)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = resolve(s, 7471);
	int mask;

	/* No event has carried these attributes, so the broker queries the connection manager. */
	ck_assert_int_eq(rdmabroker_init_qp_attr(id, &attr, &mask), 0);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER);
	ck_assert_int_eq(attr.ah_attr.is_global, 1);
	for (int i = 0; i < 16; i++)
		ck_assert_uint_eq(attr.ah_attr.grh.dgid.raw[i], FAKE_DGID);
	rdmabroker_close(s);
}
END_TEST

/* As with librdmacm, listen gives an id without an address the wildcard address and a free port. */
START_TEST(an_id_that_listens_unbound)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_listen(id, 0), 0);
	ck_assert_int_eq(rdmabroker_get_local_addr(id)->sa_family, AF_INET);
	ck_assert_uint_ne(rdmabroker_get_local_port(id), 0);
	expect_failure(rdmabroker_listen(id, 0), EINVAL, "listening");
	rdmabroker_close(s);
}
END_TEST

static void do_remove_device(void *arg)
{
	fake_remove_device(harness.core->fabric, "fake0");
}

static void do_add_device(void *arg)
{
	fake_add_device(harness.core->fabric, "fake0");
}

/*
 * The broker creates an id with the first request about it. In a session that does not block, create_id sends this
 * request at once.
 */
START_TEST(an_id_without_a_device)
{
	struct rdmabroker *s = open_session(0), *n = open_session(RDMABROKER_NONBLOCK);
	struct rdmabroker_id *id;

	in_server(do_remove_device, NULL);
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	expect_failure(rdmabroker_bind_addr(id, addr(7471)), ENODEV, "device");
	in_server(do_add_device, NULL);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7471)), 0);
	in_server(do_remove_device, NULL);
	ck_assert_int_eq(rdmabroker_create_id(n, RDMABROKER_PS_TCP, NULL, &id), 0);
	expect_done(n, "create_id", -ENODEV);
	rdmabroker_close(n);
	rdmabroker_close(s);
}
END_TEST

START_TEST(the_server_dies)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = start_listening(s, 7471);
	struct rdmabroker_event *event;

	stop_server();
	event = expect(s, RDMABROKER_EVENT_LOST);
	ck_assert_ptr_null(event->id);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_get_event(s, T, &event), -ECONNRESET);
	expect_failure(rdmabroker_bind_addr(id, addr(1)), ECONNRESET, "lost");
	rdmabroker_destroy_id(id);
	rdmabroker_close(s);
}
END_TEST

START_TEST(a_forked_child_cannot_use_the_session)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = start_listening(s, 7471);
	struct rdmabroker_event *event;
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		int ok = rdmabroker_listen(id, 1) == -EPERM &&
			 rdmabroker_get_event(s, T, &event) == -EPERM;

		rdmabroker_destroy_id(id);
		rdmabroker_close(s);
		_exit(ok ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	rdmabroker_destroy_id(resolve(s, 7471));
	await_counts(1, 1);
	rdmabroker_close(s);
}
END_TEST

START_TEST(status_counts)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_status *status;

	start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_get_status(s, &status), 0);
	ck_assert_str_eq(status->version, rdmabroker_get_version());
	ck_assert_uint_eq(status->n_sessions, 1);
	ck_assert_uint_eq(status->n_listeners, 1);
	ck_assert_uint_eq(status->n_ids, 1);
	ck_assert_uint_eq(status->n_rules, 1);
	ck_assert_uint_gt(status->n_fds, 3);
	ck_assert_uint_eq(status->n_devices, 1);
	ck_assert_str_eq(status->devices[0].name, "fake0");
	ck_assert_ptr_null(status->policy_error);
	rdmabroker_free(status);
	rdmabroker_close(s);
}
END_TEST

START_TEST(a_look_up)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = {
		.size = sizeof(param), .qp_num = 17, .private_data = "hello", .private_data_len = 5
	};
	struct rdmabroker_id *listener, *active, *request;
	static const char too_long[181];

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_UDP, NULL, &listener), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(listener, addr(7471)), 0);
	ck_assert_int_eq(rdmabroker_listen(listener, 0), 0);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_UDP, NULL, &active), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(active, NULL, addr(7471), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(active, T), 0);
	param.private_data = too_long;
	param.private_data_len = sizeof(too_long);
	expect_failure(rdmabroker_connect(active, &param), E2BIG, "private data");
	param.private_data = "hello";
	param.private_data_len = 5;
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, T, &request), 0);
	ck_assert_mem_eq(rdmabroker_get_request_event(request)->conn->private_data, "hello", 5);
	ck_assert_int_eq(rdmabroker_accept_wait(request, &param, T), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ESTABLISHED));
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(ece_travels_both_ways)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct ibv_ece ece = { .vendor_id = 0x15b3, .options = 0x10000001 }, got;
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471);
	struct rdmabroker_id *request;
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_set_local_ece(active, &(struct ibv_ece){ 0 }), -EINVAL);
	ck_assert_int_eq(rdmabroker_set_local_ece(active, &ece), 0);
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, T, &request), 0);
	ck_assert_int_eq(rdmabroker_get_remote_ece(request, &got), 0);
	ck_assert_uint_eq(got.vendor_id, 0x15b3);
	ck_assert_uint_eq(got.options, 0x10000001);
	ece.options = 3;
	ck_assert_int_eq(rdmabroker_set_local_ece(request, &ece), 0);
	ck_assert_int_eq(rdmabroker_accept(request, &param), 0);
	event = expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE);
	ck_assert_uint_eq(event->remote_ece.options, 3);
	rdmabroker_free_event(event);
	rdmabroker_destroy_id(active);

	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, T, &request), 0);
	ck_assert_int_eq(rdmabroker_get_remote_ece(request, &got), 0);
	ck_assert_uint_eq(got.vendor_id, 0);
	ck_assert_int_eq(rdmabroker_reject_ece(request, "no", 2), 0);
	event = expect(c, RDMABROKER_EVENT_REJECTED);
	ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_ECE);
	rdmabroker_free_event(event);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(groups)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;
	int tag;

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_UDP, NULL, &id), 0);
	expect_failure(rdmabroker_join_multicast(id, addr(0), 1, NULL), EINVAL, "not bound");
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_join_multicast(id, addr(1), 1, &tag), 0);
	event = expect(s, RDMABROKER_EVENT_MULTICAST_JOIN);
	ck_assert_ptr_eq(event->join_context, &tag);
	ck_assert_uint_eq(event->ud->qkey, 0x1234567);
	rdmabroker_free_event(event);
	expect_failure(rdmabroker_join_multicast(id, addr(1), 1, NULL), EEXIST, "joined");
	ck_assert_int_eq(rdmabroker_leave_multicast(id, addr(1)), 0);
	expect_failure(rdmabroker_leave_multicast(id, addr(1)), EADDRNOTAVAIL, "not joined");
	ck_assert_int_eq(rdmabroker_join_multicast_wait(id, addr(1), 1, T, &ud), 0);
	set_policy("allow session\nreject join reason \"no groups\"");
	ck_assert_int_eq(rdmabroker_leave_multicast(id, addr(1)), 0);
	expect_failure(rdmabroker_join_multicast(id, addr(1), 1, NULL), EACCES, "no groups");
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

START_TEST(options_are_read_back)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id;
	int value;

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), 0);
	ck_assert_int_eq(value, -1);
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, 14), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, &value), 0);
	ck_assert_int_eq(value, 14);
	expect_failure(rdmabroker_set_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, 256), EINVAL,
		       "0..255");
	expect_failure(rdmabroker_set_option(id, (enum rdmabroker_option)77, 1), ENOSYS, "77");
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_AFONLY, 1), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_AFONLY, &value), 0);
	ck_assert_int_eq(value, 1);
	set_policy("allow session\nallow connect tos-max 8");
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 32), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(1), T), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), 0);
	ck_assert_int_eq(value, 8);
	rdmabroker_close(s);
}
END_TEST

/*
 * A connection request is exported, and the session that imports it accepts it. The export cannot be imported twice.
 */
START_TEST(an_id_is_handed_over)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0), *worker = open_session(0);
	struct rdmabroker_conn_param param = {
		.size = sizeof(param), .qp_num = 17, .private_data = "hello", .private_data_len = 5
	};
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471);
	struct rdmabroker_id *request, *moved, *again;
	int fd, pair[2];

	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, T, &request), 0);
	ck_assert_int_eq(rdmabroker_export_id(request, &fd), 0);
	expect_failure(rdmabroker_export_id(request, &pair[0]), EINVAL, "exported");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	expect_failure(rdmabroker_import_id(worker, pair[0], &moved), EBADF,
		       "does not belong to an exported id");
	ck_assert_int_eq(rdmabroker_import_id(worker, fd, &moved), 0);
	expect_failure(rdmabroker_import_id(worker, fd, &again), EBADF,
		       "does not belong to an exported id");
	ck_assert_mem_eq(rdmabroker_get_request_event(moved)->conn->private_data, "hello", 5);
	ck_assert_uint_eq(rdmabroker_get_request_event(moved)->n_paths, 2);
	ck_assert_uint_eq(rdmabroker_get_request_event(moved)->paths[1].preference, 8);
	ck_assert_str_eq(rdmabroker_get_device_name(moved), "fake0");
	expect_failure(rdmabroker_accept(request, &param), EINVAL, "owned by another session");
	rdmabroker_destroy_id(request);
	ck_assert_int_eq(rdmabroker_accept(moved, &param), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(rdmabroker_establish(active), 0);
	rdmabroker_free_event(expect(worker, RDMABROKER_EVENT_ESTABLISHED));
	close(fd);

	/* Closing the descriptor leaves the id in its session. Closing the session destroys the exported id. */
	rdmabroker_destroy_id(moved);
	ck_assert_int_eq(rdmabroker_export_id(listener, &fd), 0);
	close(fd);
	await_counts(3, 2);
	AWAIT(rdmabroker_export_id(listener, &fd) != -EINVAL, "the end of an export");
	rdmabroker_close(s);
	await_counts(2, 1);
	expect_failure(rdmabroker_import_id(worker, fd, &moved), EBADF,
		       "does not belong to an exported id");
	close(fd);

	/* A listener that was migrated to another session still listens. */
	s = open_session(0);
	listener = start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_migrate_id(listener, worker), 0);
	rdmabroker_close(s);
	rdmabroker_destroy_id(active);
	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, T, &request), 0);
	close(pair[0]);
	close(pair[1]);
	rdmabroker_close(c);
	rdmabroker_close(worker);
	await_counts(0, 0);
}
END_TEST

static void do_reject_stale(void *arg)
{
	fake_reject_stale(harness.core->fabric, *(unsigned *)arg);
}

static int connect_once_stale(struct rdmabroker *c, const struct rdmabroker_conn_param *param)
{
	struct rdmabroker_id *id = resolve(c, 7471);
	unsigned n = 2;
	int r;

	in_server(do_reject_stale, &n);
	r = rdmabroker_connect_wait(id, param, 9);
	if (r == -ETIMEDOUT)
		rdmabroker_destroy_id(id);
	return r;
}

/*
 * After a reject the kernel's id cannot be used again, so the broker creates a new one. The program's id keeps its
 * settings.
 */
START_TEST(stale_rejects_are_retried)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct rdmabroker_id *active, *request;
	unsigned n = 5;
	int r, tos;

	start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_TCP, s, &active), 0);
	ck_assert_int_eq(rdmabroker_set_option(active, RDMABROKER_OPTION_TOS, 32), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(active, addr(5000)), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(active, NULL, addr(7471), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(active, T), 0);
	in_server(do_reject_stale, &n);
	/* The sixth attempt is not rejected as stale, but reaches the rule for accepts, which rejects it. */
	set_policy("allow session\nallow connect\nreject accept reason \"fresh\"");
	expect_failure(rdmabroker_connect_wait(active, &param, T), ECONNREFUSED, "fresh");
	ck_assert_int_eq(rdmabroker_get_option(active, RDMABROKER_OPTION_TOS, &tos), 0);
	ck_assert_int_eq(tos, 32);
	ck_assert_uint_eq(rdmabroker_get_local_port(active), 5000);
	ck_assert_ptr_eq(rdmabroker_get_context(active), s);
	await_counts(2, 2);

	n = 6;
	in_server(do_reject_stale, &n);
	request = resolve(c, 7471);
	expect_failure(rdmabroker_connect_wait(request, &param, T), ECONNREFUSED,
		       "earlier connection");
	rdmabroker_destroy_id(request);
	/* The timeout leaves no time for another attempt. On a slow machine it can end before the first reject. */
	AWAIT((r = connect_once_stale(c, &param)) != -ETIMEDOUT, "a reject within 9 ms");
	expect_failure(r, ECONNREFUSED, "earlier connection");
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

static void expect_leases(struct rdmabroker *session, unsigned n)
{
	struct rdmabroker_status *status;

	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	ck_assert_uint_eq(status->n_devices, 1);
	ck_assert_uint_eq(status->devices[0].n_leases, n);
	rdmabroker_free(status);
}

/* The fake fabric's device cannot be opened: a lease does not need this. */
START_TEST(devices_are_leased)
{
	struct rdmabroker *admin = open_session(0), *session = open_session(0);
	struct ibv_context *verbs;

	expect_failure(rdmabroker_lease_devices(session, "fake1"), ENODEV, "fake1");
	ck_assert_int_lt(rdmabroker_open_device(session, "fake0", &verbs), 0);
	expect_leases(admin, 0);
	ck_assert_int_eq(rdmabroker_lease_devices(session, "fake0"), 0);
	expect_leases(admin, 1);
	rdmabroker_close(session);

	session = open_session(0);
	set_policy("allow session\nallow admin\nreject device reason \"none today\"");
	expect_failure(rdmabroker_lease_devices(session, "fake0"), EACCES, "none today");
	expect_failure(rdmabroker_lease_devices(session, NULL), ENODEV, "");
	rdmabroker_close(session);
	expect_leases(admin, 0);
	rdmabroker_close(admin);
}
END_TEST

UNIT_MAIN("library", set_up, tear_down, a_connection, rejects_have_an_origin_and_a_reason,
	  rejects_of_iwarp, a_session_that_does_not_block, events_of_a_destroyed_id_are_dropped,
	  refusals_have_a_text, handles_are_reused, address_and_route,
	  attributes_that_no_event_carries, an_id_that_listens_unbound, an_id_without_a_device,
	  the_server_dies, a_forked_child_cannot_use_the_session, status_counts, a_look_up,
	  ece_travels_both_ways, groups, options_are_read_back, an_id_is_handed_over,
	  stale_rejects_are_retried, devices_are_leased)

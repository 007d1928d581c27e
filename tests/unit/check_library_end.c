/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#include "tests/unit/harness.h"

/* Calls that wait for the begin and the end of a connection. */

static void do_remove_device(void *arg)
{
	fake_remove_device(harness.core->fabric, "fake0");
}

static struct rdmabroker_id *accept_one(struct rdmabroker_id *listener,
					struct rdmabroker_id *active)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct rdmabroker_id *passive;

	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, T, &passive), 0);
	ck_assert_int_eq(rdmabroker_accept(passive, &param), 0);
	rdmabroker_free_event(
		expect(rdmabroker_get_session(active), RDMABROKER_EVENT_CONNECT_RESPONSE));
	return passive;
}

static void *disconnect(void *id)
{
	return (void *)(intptr_t)rdmabroker_disconnect(id);
}

START_TEST(a_wait_for_the_end_of_a_connection)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471),
			     *passive = accept_one(listener, active);
	pthread_t thread;
	void *r;

	ck_assert_int_eq(rdmabroker_establish(active), 0);
	expect_failure(rdmabroker_wait_disconnected(passive, 1), ETIMEDOUT, "wait_disconnected");
	ck_assert_int_eq(pthread_create(&thread, NULL, disconnect, active), 0);
	ck_assert_int_eq(rdmabroker_wait_disconnected(passive, T), 0);
	pthread_join(thread, &r);
	ck_assert_ptr_null(r);
	/* A second wait returns the same result at once. Events from before the disconnect can still be taken. */
	ck_assert_int_eq(rdmabroker_wait_disconnected(passive, 0), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	/* The wait also returns at once if the program has taken DISCONNECTED as an event. */
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_DISCONNECTED));
	ck_assert_int_eq(rdmabroker_wait_disconnected(active, 0), 0);
	rdmabroker_destroy_id(passive);
	rdmabroker_destroy_id(active);

	/* The client destroys its id before it has confirmed the connection. */
	active = resolve(c, 7471);
	passive = accept_one(listener, active);
	rdmabroker_destroy_id(active);
	expect_failure(rdmabroker_wait_disconnected(passive, T), ECONNREFUSED, "rejected");
	rdmabroker_destroy_id(passive);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

/* The wait also ends if the connection's device is removed, or if the broker is gone. */
START_TEST(a_wait_for_the_end_that_ends_otherwise)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_id *active = resolve(c, 7471), *datagrams,
			     *passive = accept_one(start_listening(s, 7471), active);

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_UDP, NULL, &datagrams), 0);
	expect_failure(rdmabroker_wait_disconnected(datagrams, T), EINVAL, "datagram id");
	ck_assert_int_eq(rdmabroker_establish(active), 0);
	in_server(do_remove_device, NULL);
	expect_failure(rdmabroker_wait_disconnected(passive, T), ENODEV, "removed");
	stop_server();
	expect_failure(rdmabroker_wait_disconnected(active, T), ENODEV, "removed");
	expect_failure(rdmabroker_wait_disconnected(active, T), ECONNRESET, "lost");
	/* Nor is there any use in another id. */
	expect_failure(rdmabroker_create_id(c, RDMABROKER_PS_TCP, NULL, &datagrams), ECONNRESET,
		       "lost");
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

static void do_disconnect(void *arg)
{
	fake_send_event(harness.core->fabric, 7471, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static void *accept_and_wait(void *passive)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };

	return (void *)(intptr_t)rdmabroker_accept_wait(passive, &param, T);
}

/* The peer is connected when it gets the response. It disconnects, and its confirmation has got lost. */
START_TEST(an_accept_that_is_not_confirmed)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471),
			     *passive;
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	pthread_t thread;
	void *r;

	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, T, &passive), 0);
	/* Now the fabric finds PASSIVE by its port. */
	rdmabroker_destroy_id(listener);
	ck_assert_int_eq(pthread_create(&thread, NULL, accept_and_wait, passive), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	in_server(do_disconnect, NULL);
	pthread_join(thread, &r);
	ck_assert_int_eq((int)(intptr_t)r, 0);
	ck_assert_int_eq(rdmabroker_wait_disconnected(passive, 0), 0);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

UNIT_MAIN("library_end", set_up, tear_down, a_wait_for_the_end_of_a_connection,
	  a_wait_for_the_end_that_ends_otherwise, an_accept_that_is_not_confirmed)

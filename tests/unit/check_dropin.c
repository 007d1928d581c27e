/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker.h"
#include "client/admin.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/ends.h"
#include "tests/unit/fds.h"
#include "tests/unit/place.h"
#include "tests/unit/unit.h"

/* Counts the packets and the waits of programs that use the drop-in. */

START_TEST(bound_connection)
{
	warm_up();
	connect_ends(addr(0));
	COUNTS(&client, 7, 3);
	client.traffic = (struct hooks_traffic){ 0 };
	end_connection();
	COUNTS(&client, 4, 2);
	COUNTS(&server, 6, 4);
}
END_TEST

START_TEST(unbound_connection)
{
	warm_up();
	connect_ends(NULL);
	COUNTS(&client, 5, 2);
	client.traffic = (struct hooks_traffic){ 0 };
	end_connection();
	COUNTS(&client, 4, 2);
	COUNTS(&server, 6, 4);
}
END_TEST

/* The program can bind its chosen port again as soon as rdma_destroy_id() has returned. */
START_TEST(connection_from_a_chosen_port)
{
	warm_up();
	for (int i = 0; i < 3; i++) {
		forget_traffic();
		connect_ends(addr(7000));
		COUNTS(&client, 7, 3);
		client.traffic = (struct hooks_traffic){ 0 };
		end_connection();
		COUNTS(&client, 4, 2);
	}
}
END_TEST

#define N_OTHERS 10

/*
 * rdma_destroy_id() does not wait for the daemon. Another channel can bind the port at once, even if the daemon reads
 * this bind before the destroy.
 */
START_TEST(ports_are_free_after_destroy)
{
	struct end *ends[] = { &client, &server };
	struct rdma_cm_id *others[N_OTHERS];

	for (int i = 0; i < 8; i++) {
		struct end *one = ends[i % 2], *other = ends[1 - i % 2];

		DO(one, rdma_create_id(one->channel, &one->id, NULL, RDMA_PS_TCP));
		DO(other, rdma_create_id(other->channel, &other->id, NULL, RDMA_PS_TCP));
		DO(one, rdma_bind_addr(one->id, addr(7001)));
		ck_assert_int_lt(BY(other, rdma_bind_addr(other->id, addr(7001))), 0);
		ck_assert_int_eq(errno, EADDRINUSE);
		for (int k = 0; k < N_OTHERS; k++) {
			DO(one, rdma_create_id(one->channel, &others[k], NULL, RDMA_PS_TCP));
			DO(one, rdma_resolve_addr(others[k], NULL, addr(PORT), 1000));
		}
		DO(one, rdma_destroy_id(one->id));
		DO(other, rdma_bind_addr(other->id, addr(7001)));
		DO(other, rdma_destroy_id(other->id));
		for (int k = 0; k < N_OTHERS; k++)
			DO(one, rdma_destroy_id(others[k]));
	}
}
END_TEST

/* If a call that does not wait succeeds, the daemon sends no reply. */
START_TEST(many_connections)
{
	const unsigned n = 50;

	warm_up();
	for (unsigned i = 0; i < n; i++) {
		connect_ends(NULL);
		end_connection();
	}
	COUNTS(&client, n * (5 + 4), n * (2 + 2));
	COUNTS(&server, n * 6, n * 4);
}
END_TEST

/* A server whose client has disconnected confirms that, and nobody waits for the daemon's reply. */
START_TEST(a_confirmed_disconnect)
{
	warm_up();
	connect_ends(NULL);
	DO(&client, rdma_disconnect(client.id));
	await(&client, RDMA_CM_EVENT_DISCONNECTED);
	await(&server, RDMA_CM_EVENT_DISCONNECTED);
	server.traffic = (struct hooks_traffic){ 0 };
	DO(&server, rdma_disconnect(server.id));
	COUNTS(&server, 1, 0);
	rdma_destroy_qp(client.id);
	rdma_destroy_qp(server.id);
	DO(&client, rdma_destroy_id(client.id));
	DO(&server, rdma_destroy_id(server.id));
}
END_TEST

#define N_BEFORE 64

/*
 * While the program takes no event, a reply does not settle the requests before it sooner than the events that were sent
 * before the reply are received. So the library does not ask for one with each request.
 */
START_TEST(many_requests_before_the_first_event)
{
	struct rdma_cm_id *ids[N_BEFORE];

	warm_up();
	for (int i = 0; i < N_BEFORE; i++) {
		DO(&client, rdma_create_id(client.channel, &ids[i], NULL, RDMA_PS_TCP));
		DO(&client, rdma_resolve_addr(ids[i], NULL, addr(PORT), 1000));
	}
	COUNTS(&client, N_BEFORE + 2 * 3, 3);
	for (int i = 0; i < N_BEFORE; i++)
		ck_assert_ptr_eq(await(&client, RDMA_CM_EVENT_ADDR_RESOLVED), ids[i]);
	for (int i = 0; i < N_BEFORE; i++)
		DO(&client, rdma_destroy_id(ids[i]));
}
END_TEST

#define LOOKS(end, n)                                         \
	do {                                                  \
		ck_assert_uint_eq((end)->traffic.looks, n);   \
		(end)->traffic = (struct hooks_traffic){ 0 }; \
	} while (0)

/* The library looks at a descriptor once before each use of it, and not at all in calls that use none. */
START_TEST(looks_at_descriptors)
{
	struct rdma_conn_param p = { .qp_num = 17 };

	warm_up();
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	LOOKS(&client, 0);
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	LOOKS(&client, 1);
	/* Besides the socket, at both of the device. */
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	LOOKS(&client, 3);
	/* The event is there already: the bell rings, and is silenced again, each time after looks at bell and socket. */
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	LOOKS(&client, 4);
	DO(&client, rdma_connect(client.id, &p));
	LOOKS(&client, 1);
	/* One to send, and one to receive the reply. */
	DO(&client, rdma_destroy_id(client.id));
	LOOKS(&client, 2);
}
END_TEST

START_TEST(options_travel_with_the_first_request)
{
	uint8_t tos = 32;
	int yes = 1;

	warm_up();
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	DO(&client,
	   rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
	DO(&client,
	   rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)));
	COUNTS(&client, 0, 0);
	DO(&client, rdma_bind_addr(client.id, addr(7000)));
	COUNTS(&client, 2, 1);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* The TOS is part of the route, so the route that was resolved with the address cannot be used. */
START_TEST(tos_between_address_and_route)
{
	uint8_t tos = 32;
	uint16_t port;

	warm_up();
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	port = rdma_get_src_port(client.id);
	DO(&client, rdma_set_option(client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	COUNTS(&client, 4, 2);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	COUNTS(&client, 6, 3);
	ck_assert_uint_eq(rdma_get_src_port(client.id), port);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

START_TEST(migration_between_address_and_route)
{
	struct end other = { .channel = rdma_create_event_channel() };

	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_migrate_id(client.id, other.channel));
	forget_traffic();
	DO(&other, rdma_resolve_route(client.id, 1000));
	ck_assert_ptr_eq(await(&other, RDMA_CM_EVENT_ROUTE_RESOLVED), client.id);
	COUNTS(&other, 0, 0);
	DO(&other, rdma_destroy_id(client.id));
	rdma_destroy_event_channel(other.channel);
}
END_TEST

/* A call that librdmacm refuses at once because of the id's state is refused at once here, too. */
START_TEST(calls_that_the_state_does_not_allow)
{
	struct rdma_conn_param p = { .qp_num = 17 };

	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	REFUSES(rdma_resolve_route(client.id, 1000), EINVAL);
	REFUSES(rdma_connect(client.id, &p), EINVAL);
	REFUSES(rdma_disconnect(client.id), EINVAL);
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	REFUSES(rdma_resolve_addr(client.id, NULL, addr(PORT), 1000), EINVAL);
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	/* The broker has resolved the route, but the program has not requested it. */
	REFUSES(rdma_connect(client.id, &p), EINVAL);
	REFUSES(rdma_accept(client.id, &p), EINVAL);
	REFUSES(rdma_establish(client.id), EINVAL);
	REFUSES(rdma_disconnect(client.id), EINVAL);
	DO(&client, rdma_resolve_route(client.id, 1000));
	REFUSES(rdma_resolve_route(client.id, 1000), EINVAL);
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	REFUSES(rdma_disconnect(client.id), EINVAL);
	DO(&client, rdma_connect(client.id, &p));
	REFUSES(rdma_connect(client.id, &p), EINVAL);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* A program that has polled the channel's descriptor takes its event by one system call, not counting looks at descriptors. */
START_TEST(one_system_call_for_an_event)
{
	struct rdma_cm_event *event;
	unsigned n_received, n_polled;

	warm_up();
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	hooks_run(hooks_get_loop());
	n_received = hooks_count_calls(HOOK_CLIENT, HOOK_RECEIVE);
	n_polled = hooks_count_calls(HOOK_CLIENT, HOOK_LOOP);
	ck_assert_int_eq(rdma_get_cm_event(client.channel, &event), 0);
	ck_assert_int_eq(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_uint_eq(hooks_count_calls(HOOK_CLIENT, HOOK_RECEIVE), n_received + 1);
	ck_assert_uint_eq(hooks_count_calls(HOOK_CLIENT, HOOK_LOOP), n_polled);
	rdma_ack_cm_event(event);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* The program requests the route before it takes ADDR_RESOLVED. It gets each event once, and can connect. */
START_TEST(a_route_that_is_requested_early)
{
	struct rdma_conn_param p = { .qp_num = 17 };

	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	REFUSES(rdma_resolve_route(client.id, 1000), EINVAL);
	DO(&client, rdma_connect(client.id, &p));
	server.id = await(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	DO(&server, rdma_destroy_id(server.id));
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

static void expect_error(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;

	DO(&client, rdma_get_cm_event(client.channel, &event));
	ck_assert_str_eq(rdma_event_str(event->event), rdma_event_str(type));
	ck_assert_int_eq(event->status, status);
	rdma_ack_cm_event(event);
}

/* Rejections by policy come as events, because the calls do not wait for them. */
START_TEST(refusals_of_policy)
{
	struct sockaddr_in forbidden = *(struct sockaddr_in *)addr(PORT);
	struct rdma_conn_param p = { .qp_num = 17 };
	struct rdma_cm_id *first;

	forbidden.sin_addr.s_addr = htonl(0x0a090009);
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&forbidden, 1000));
	expect_error(RDMA_CM_EVENT_ADDR_ERROR, -EACCES);
	DO(&client, rdma_destroy_id(client.id));

	/* With a source address the call waits, because it also binds. */
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	REFUSES(rdma_resolve_addr(client.id, addr(0), (struct sockaddr *)&forbidden, 1000), EACCES);
	DO(&client, rdma_destroy_id(client.id));

	/* The rule for this port admits one connection. */
	DO(&server, rdma_create_id(server.channel, &server.id, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(server.id, addr(7472)));
	DO(&server, rdma_listen(server.id, 8));
	for (int i = 0; i < 2; i++) {
		first = client.id;
		DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
		DO(&client, rdma_resolve_addr(client.id, NULL, addr(7472), 1000));
		await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
		DO(&client, rdma_resolve_route(client.id, 1000));
		await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
		DO(&client, rdma_connect(client.id, &p));
	}
	expect_error(RDMA_CM_EVENT_CONNECT_ERROR, -EBUSY);
	DO(&client, rdma_destroy_id(client.id));
	DO(&client, rdma_destroy_id(first));
	DO(&server, rdma_destroy_id(server.id));
}
END_TEST

static void accept_capped(struct rdma_conn_param *param, unsigned responder_resources,
			  unsigned initiator_depth)
{
	struct rdma_conn_param request = { .responder_resources = 16, .initiator_depth = 16 };
	struct hooks_qp qp;

	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(7474), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(&client);
	DO(&client, rdma_connect(client.id, &request));
	server.id = await(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(&server);
	DO(&server, rdma_accept(server.id, param));
	qp = hooks_get_last_qp();
	ck_assert_uint_eq(qp.responder_resources, responder_resources);
	ck_assert_uint_eq(qp.initiator_depth, initiator_depth);
	await(&client, RDMA_CM_EVENT_ESTABLISHED);
	await(&server, RDMA_CM_EVENT_ESTABLISHED);
	end_connection();
}

/* The QP gets no more than the peer is told, which the rule's caps limit. */
START_TEST(caps_of_the_rule)
{
	struct rdma_conn_param much = { .responder_resources = 9, .initiator_depth = 9 };
	struct rdma_conn_param little = { .responder_resources = 3, .initiator_depth = 1 };
	struct rdma_cm_id *capped;

	DO(&server, rdma_create_id(server.channel, &capped, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(capped, addr(7474)));
	DO(&server, rdma_listen(capped, 8));
	accept_capped(&much, 4, 2);
	accept_capped(NULL, 4, 2);
	accept_capped(&little, 3, 1);
	DO(&server, rdma_destroy_id(capped));
}
END_TEST

/* Without a channel each call waits for its outcome, and returns it. */
/* Makes stderr the file at the end of it; returns the descriptor for end_capture(). */
static int begin_capture(FILE **ret)
{
	int old = dup(STDERR_FILENO);

	*ret = tmpfile();
	ck_assert_int_eq(dup2(fileno(*ret), STDERR_FILENO), STDERR_FILENO);
	return old;
}

static void end_capture(int old, FILE *file, char *ret, size_t size)
{
	dup2(old, STDERR_FILENO);
	close(old);
	rewind(file);
	ret[fread(ret, 1, size - 1, file)] = '\0';
	fclose(file);
}

/* With RDMABROKER_DEBUG the reason of each event that reports a failure is printed. */
START_TEST(reasons_are_printed)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	struct sockaddr_in loopback = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_cm_id *second;
	char said[4096];
	FILE *file;
	int old;

	setenv("RDMABROKER_DEBUG", "1", 1);
	old = begin_capture(&file);
	DO(&server, rdma_create_id(server.channel, &second, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(second, addr(7473)));
	DO(&server, rdma_listen(second, 8));
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(7473), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(&client);
	DO(&client, rdma_connect(client.id, &param));
	await(&client, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_qp(client.id);
	DO(&client, rdma_destroy_id(client.id));
	DO(&server, rdma_destroy_id(second));

	for (int i = 0; i < 2; i++) {
		DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
		fake_fail_addresses(fake_last(), 1, -ENODEV);
		DO(&client,
		   rdma_resolve_addr(client.id, NULL,
				     i == 0 ? (struct sockaddr *)&loopback : addr(PORT), 1000));
		await(&client, RDMA_CM_EVENT_ADDR_ERROR);
		DO(&client, rdma_destroy_id(client.id));
	}
	end_capture(old, file, said, sizeof(said));
	unsetenv("RDMABROKER_DEBUG");
	ck_assert_str_eq(said,
			 "librdmabroker-rdmacm: RDMA_CM_EVENT_REJECTED: rejected by policy of the "
			 "peer's broker: in repair\n"
			 "librdmabroker-rdmacm: RDMA_CM_EVENT_ADDR_ERROR: no RDMA device has the "
			 "loopback address; give another address of this host\n"
			 "librdmabroker-rdmacm: RDMA_CM_EVENT_ADDR_ERROR: No such device\n");
}
END_TEST

/* Without it the first refusal is printed, whether a call returns it or an event reports it. */
START_TEST(the_first_refusal_is_printed)
{
	struct sockaddr_in forbidden = *(struct sockaddr_in *)addr(PORT);
	struct rdma_conn_param p = { .qp_num = 17 };
	char said[4096], expected[256];
	FILE *file;
	int old;

	forbidden.sin_addr.s_addr = htonl(0x0a090009);
	snprintf(expected, sizeof(expected),
		 "librdmabroker-rdmacm: resolve_addr: uid %u may not connect to 10.9.0.9:7471: "
		 "denied\n",
		 geteuid());
	old = begin_capture(&file);
	resolve(NULL);
	DO(&client, rdma_connect(client.id, &p));
	server.id = await(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	DO(&server, rdma_destroy_id(server.id));
	DO(&client, rdma_destroy_id(client.id));
	for (int i = 0; i < 2; i++) {
		DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
		DO(&client,
		   rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&forbidden, 1000));
		expect_error(RDMA_CM_EVENT_ADDR_ERROR, -EACCES);
		DO(&client, rdma_destroy_id(client.id));
	}
	end_capture(old, file, said, sizeof(said));
	ck_assert_str_eq(said, expected);
}
END_TEST

START_TEST(refusals_without_a_channel)
{
	struct sockaddr_in forbidden = *(struct sockaddr_in *)addr(PORT);

	forbidden.sin_addr.s_addr = htonl(0x0a090009);
	DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
	REFUSES(rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&forbidden, 1000), EACCES);
	DO(&client, rdma_destroy_id(client.id));
	DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	DO(&client, rdma_resolve_route(client.id, 1000));
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* Returns how many sessions were opened since the last call. */
static unsigned n_opened(void)
{
	static uint64_t before;
	struct rdmabroker_list *list;
	struct rdmabroker *session;
	uint64_t now;
	unsigned n;

	hooks_run(hooks_get_loop());
	ck_assert_int_eq(rdmabroker_open(NULL, &session), 0);
	ck_assert_int_eq(rdmabroker_get_list(session, 0, &list), 0);
	now = list->sessions[list->n_sessions - 1].number;
	n = (unsigned)(now - before) - 1; /* without SESSION */
	before = now;
	rdmabroker_free(list);
	rdmabroker_close(session);
	return n;
}

/* As libfabric does for each connection: the id is created without a channel, and migrated to one before it connects. */
static void connect_migrated(void)
{
	int fd;

	DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
	fd = client.id->channel->fd;
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	DO(&client, rdma_resolve_route(client.id, 1000));
	/* The next id without a channel must not inherit this. */
	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	DO(&client, rdma_migrate_id(client.id, client.channel));
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	connect_resolved();
}

START_TEST(ids_without_a_channel_share_a_session)
{
	connect_migrated();
	end_connection();
	n_opened();
	for (int i = 0; i < 5; i++) {
		connect_migrated();
		end_connection();
	}
	/* It makes no difference whether the id is migrated or destroyed. */
	for (int i = 0; i < 5; i++) {
		DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
		DO(&client, rdma_bind_addr(client.id, addr(0)));
		DO(&client, rdma_destroy_id(client.id));
	}
	ck_assert_uint_eq(n_opened(), 0);
}
END_TEST

/* At a time, each id has a session of its own: its descriptor is readable only for its own events. */
START_TEST(ids_without_a_channel_at_a_time)
{
	struct rdma_cm_id *ids[8];

	n_opened();
	for (int i = 0; i < 8; i++) {
		DO(&client, rdma_create_id(NULL, &ids[i], NULL, RDMA_PS_TCP));
		DO(&client, rdma_resolve_addr(ids[i], NULL, addr(PORT), 1000));
	}
	ck_assert_uint_eq(n_opened(), 8);
	for (int i = 0; i < 8; i++)
		DO(&client, rdma_destroy_id(ids[i]));
	/* Four sessions are kept. */
	for (int i = 0; i < 8; i++)
		DO(&client, rdma_create_id(NULL, &ids[i], NULL, RDMA_PS_TCP));
	ck_assert_uint_eq(n_opened(), 4);
	for (int i = 0; i < 8; i++)
		DO(&client, rdma_destroy_id(ids[i]));
}
END_TEST

/* The broker would take the next id for one of the user who has opened the session. */
START_TEST(a_kept_session_of_another_user)
{
	gid_t gid = getegid();

	if (geteuid() != 0) {
		fprintf(stderr, "skipped: only root can change its group\n");
		return;
	}
	DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_destroy_id(client.id));
	n_opened();
	ck_assert_int_eq(setegid(gid + 1), 0);
	DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
	ck_assert_int_eq(setegid(gid), 0);
	/* With the session that gets the replies of the other group's sessions. */
	ck_assert_uint_eq(n_opened(), 2);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

/* The daemon has ended the kept session meanwhile. */
START_TEST(a_kept_session_that_is_lost)
{
	struct rdmabroker_list *list;
	struct rdmabroker *admin;

	DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_destroy_id(client.id));
	hooks_run(hooks_get_loop());
	ck_assert_int_eq(rdmabroker_open(NULL, &admin), 0);
	ck_assert_int_eq(rdmabroker_get_list(admin, 0, &list), 0);
	/* The last session but ADMIN. */
	ck_assert_int_eq(rdmabroker_kick(admin, list->sessions[list->n_sessions - 2].number, 0), 0);
	rdmabroker_free(list);
	rdmabroker_close(admin);
	n_opened();
	DO(&client, rdma_create_id(NULL, &client.id, NULL, RDMA_PS_TCP));
	DO(&client, rdma_bind_addr(client.id, addr(0)));
	ck_assert_uint_eq(n_opened(), 1);
	DO(&client, rdma_destroy_id(client.id));
}
END_TEST

#define N_MANY 20

/* Returns the descriptors for each of what MAKE makes, with those of the daemon, which is in this process. */
static unsigned count_for_each(void *(*make)(void), void (*end)(void *made))
{
	unsigned before, n;
	void *made[N_MANY];

	hooks_run(hooks_get_loop());
	before = count_fds();
	for (int i = 0; i < N_MANY; i++)
		made[i] = make();
	n = count_fds() - before;
	for (int i = 0; i < N_MANY; i++)
		end(made[i]);
	ck_assert_uint_eq(n % N_MANY, 0);
	return n / N_MANY;
}

/* A session with the least that a client can have, one descriptor. */
static void *make_session(void)
{
	const struct rdmabroker_options options = { .size = sizeof(options),
						    .flags = RDMABROKER_NO_POLL };
	struct rdmabroker *session;

	DO(&client, rdmabroker_open(&options, &session));
	return session;
}

static void end_session(void *session)
{
	rdmabroker_close(session);
}

static void *make_channel(void)
{
	void *channel;

	ck_assert_ptr_nonnull(channel = BY(&client, rdma_create_event_channel()));
	return channel;
}

static void end_channel(void *channel)
{
	rdma_destroy_event_channel(channel);
}

static void *make_sync_id(void)
{
	struct rdma_cm_id *id;

	DO(&client, rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	return id;
}

static void end_sync_id(void *id)
{
	DO(&client, rdma_destroy_id(id));
}

START_TEST(descriptors)
{
	unsigned one = count_for_each(make_session, end_session);

	/* The epoll instance that the program sees. */
	ck_assert_uint_eq(count_for_each(make_channel, end_channel), one + 1);
	ck_assert_uint_eq(count_for_each(make_sync_id, end_sync_id), one + 1);
}
END_TEST

UNIT_MAIN("dropin", set_up, tear_down, bound_connection, unbound_connection,
	  connection_from_a_chosen_port, ports_are_free_after_destroy, many_connections,
	  a_confirmed_disconnect, many_requests_before_the_first_event, looks_at_descriptors,
	  options_travel_with_the_first_request, tos_between_address_and_route,
	  migration_between_address_and_route, one_system_call_for_an_event,
	  a_route_that_is_requested_early, calls_that_the_state_does_not_allow, refusals_of_policy,
	  caps_of_the_rule, reasons_are_printed, the_first_refusal_is_printed,
	  refusals_without_a_channel, ids_without_a_channel_share_a_session,
	  ids_without_a_channel_at_a_time, a_kept_session_of_another_user,
	  a_kept_session_that_is_lost, descriptors)

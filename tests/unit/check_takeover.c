/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/admin.h"
#include "takeover/ledger.h"
#include "takeover/fdstore.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/manager.h"
#include "tests/unit/place.h"
#include "tests/unit/ranges.h"
#include "tests/unit/succession.h"
#include "tests/unit/unit.h"

static uid_t shown_uid; /* of whoever connects; 0: the test's own */

int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	int r = (int)syscall(SYS_getsockopt, fd, level, option, value, len);

	if (r == 0 && shown_uid != 0 && level == SOL_SOCKET && option == SO_PEERCRED)
		((struct ucred *)value)->uid = shown_uid;
	return r;
}

START_TEST(connections_and_listeners_go_on)
{
	struct rdmabroker_status *status;

	start_listening();
	connect_ids(17);
	for (unsigned i = 0; i < 5; i++) {
		restart();
		expect_nothing(client);
		expect_nothing(server);
		status = get_status();
		ck_assert_uint_eq(status->generation, i + 2);
		ck_assert_uint_eq(status->n_taken_sessions, 2);
		ck_assert_uint_eq(status->n_ended_sessions, 0);
		ck_assert_uint_eq(status->n_sessions, 2);
		ck_assert_uint_eq(status->n_ids, 3);
		ck_assert_uint_eq(status->n_connections, 2);
		ck_assert_uint_eq(status->n_listeners, 1);
		rdmabroker_free(status);
		/* What the dead processes have stored is not needed any more. */
		ck_assert_uint_eq(manager_count("ledger"), 1);
		ck_assert_uint_eq(manager_count("vault"), 1);
		ck_assert_uint_eq(manager_count("cm"), 1);
	}
	end_connection();
	connect_ids(19);
	restart();
	end_connection();
}
END_TEST

/* The broker resolves the route in advance, and learns only by the connect that the client wanted it. */
START_TEST(connection_whose_route_was_not_requested)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	start_listening();
	id = new_id(client);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(PORT), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	accept_and_establish(18);
	restart();
	expect_nothing(client);
	expect_nothing(server);
	end_connection();
}
END_TEST

/* The connection manager is opened after the start, when there is a device. */
START_TEST(device_that_comes_later)
{
	rdmabroker_close(client);
	rdmabroker_close(server);
	manager_drop();
	fake_start_with_devices(0);
	restart_with("allow any\n");
	fake_start_with_devices(1);
	ck_assert_uint_eq(manager_count("cm"), 0);
	fake_add_device(fake_last(), "fake0");
	server = open_session();
	client = open_session();
	start_listening();
	connect_ids(17);
	restart();
	expect_nothing(client);
	end_connection();
}
END_TEST

static void open_and_close(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		rdmabroker_close(open_session());
		run_all();
	}
}

/* What systemd has stays as it is until systemd reads, so that all goes on if the daemon dies before. */
START_TEST(manager_that_does_not_read)
{
	struct rdmabroker_status *status;
	unsigned socketstore;

	start_listening();
	connect_ids(17);
	/* The sessions that have ended would fill a socket store. */
	manager_set_reading(false);
	open_and_close(200);
	kill_broker();
	manager_set_reading(true);
	start_broker();
	expect_nothing(client);
	expect_nothing(server);
	status = get_status();
	ck_assert_uint_eq(status->n_taken_sessions, 2);
	ck_assert_uint_eq(status->n_connections, 2);
	rdmabroker_free(status);

	/* It reads again. */
	socketstore = manager_number("vault");
	manager_set_reading(false);
	open_and_close(200);
	ck_assert_uint_eq(manager_number("vault"), socketstore);
	manager_set_reading(true);
	open_and_close(100);
	ck_assert_uint_gt(manager_number("vault"), socketstore);
	ck_assert_uint_eq(manager_count("vault"), 1);
	restart();
	expect_nothing(client);
	end_connection();
}
END_TEST

/* The daemon starts while systemd does not read: it waits for it for some time, and then serves. */
START_TEST(start_without_a_manager_that_reads)
{
	start_listening();
	connect_ids(17);
	kill_broker();
	manager_set_reading(false);
	start_broker();
	expect_nothing(client);
	end_connection();
	connect_ids(19);
	manager_set_reading(true);
	run_all();
	restart();
	ck_assert_uint_eq(manager_count("ledger"), 1);
	ck_assert_uint_eq(manager_count("vault"), 1);
	ck_assert_uint_eq(manager_count("cm"), 1);
	expect_nothing(client);
	end_connection();
}
END_TEST

START_TEST(the_other_side_ends_the_connection)
{
	start_listening();
	connect_ids(17);
	restart();
	ck_assert_int_eq(rdmabroker_disconnect(accepted), 0);
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
}
END_TEST

/* The kernel's event waits when the daemon dies. */
START_TEST(connection_that_ends_meanwhile)
{
	start_listening();
	connect_ids(17);
	kill_broker();
	rdmabroker_close(client);
	start_broker();
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
	client = open_session();
	connect_ids(19);
}
END_TEST

START_TEST(client_that_ends_meanwhile)
{
	struct rdmabroker_status *status;

	start_listening();
	connect_ids(17);
	kill_broker();
	rdmabroker_close(server);
	start_broker();
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	server = open_session();
	hooks_run(hooks_get_loop());
	status = get_status();
	ck_assert_uint_eq(status->n_sessions, 2);
	ck_assert_uint_eq(status->n_listeners, 0);
	rdmabroker_free(status);
	start_listening();
}
END_TEST

START_TEST(requests_that_come_meanwhile)
{
	kill_broker();
	/* What the client sends waits in its socket. */
	id = new_id(client);
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 32), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(PORT), T), 0);
	start_broker();
	expect(client, RDMABROKER_EVENT_ADDR_RESOLVED, id);
}
END_TEST

START_TEST(ids_that_have_not_begun)
{
	struct rdmabroker_id *bound = new_id(client), *idle = new_id(client), *other;

	ck_assert_int_eq(rdmabroker_bind_addr(bound, addr(7000)), 0);
	ck_assert_int_eq(rdmabroker_set_option(bound, RDMABROKER_OPTION_TOS, 96), 0);
	start_listening();
	restart();
	other = new_id(server);
	ck_assert_int_eq(rdmabroker_bind_addr(other, addr(7000)), -EADDRINUSE);
	ck_assert_int_eq(rdmabroker_get_local_port(bound), 7000);
	resolve(bound);
	resolve(idle);
	expect_nothing(client);
}
END_TEST

/* An id whose address is resolved resolves it again, without its client. */
START_TEST(resolved_address)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	start_listening();
	id = new_id(client);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(PORT), T), 0);
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 96), 0);
	restart();
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	expect(server, RDMABROKER_EVENT_CONNECT_REQUEST, listener);
}
END_TEST

/* The daemon is restarted after each step of a connection. */
START_TEST(handshakes)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };

	start_listening();
	request_connection(17);
	restart();
	expect_nothing(client);
	expect_nothing(server);
	ck_assert_int_eq(rdmabroker_accept(accepted, &param), 0);
	restart();
	expect(client, RDMABROKER_EVENT_CONNECT_RESPONSE, id);
	restart();
	expect_nothing(client);
	expect_nothing(server);
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	expect(server, RDMABROKER_EVENT_ESTABLISHED, accepted);
	restart();
	end_connection();
	connect_ids(17);
	expect_nothing(client);
	expect_nothing(server);
}
END_TEST

static void compare_private_data(struct rdmabroker *session, const void *data, size_t len)
{
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_get_event(session, T, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_ptr_eq(event->listen_id, listener);
	ck_assert_uint_eq(event->conn->private_data_len, len);
	ck_assert_mem_eq(event->conn->private_data, data, len);
	accepted = event->id;
	rdmabroker_free_event(event);
}

/* The kernel's event of the request waits when the daemon dies. The peer notices nothing. */
START_TEST(connection_request_that_waits)
{
	const struct rdmabroker_conn_param param = {
		.size = sizeof(param),
		.qp_num = 17,
		.private_data = "hello",
		.private_data_len = 5,
	};

	start_listening();
	id = new_id(client);
	resolve(id);
	fake_hold_events(fake_last(), true);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	restart();
	compare_private_data(server, "hello", 5);
	accept_and_establish(18);
	end_connection();
}
END_TEST

/* The rules of a listener give its requests a type of service and timeouts. */
START_TEST(connection_request_with_settings)
{
	static const enum rdmabroker_option options[] = { RDMABROKER_OPTION_TOS,
							  RDMABROKER_OPTION_ACK_TIMEOUT,
							  RDMABROKER_OPTION_MIN_RNR_TIMER };
	static const int values[] = { 40, 14, 12 };
	int value;

	restart_with("allow accept port 7471 tos 40 ack-timeout 14 min-rnr-timer 12\nallow any\n");
	start_listening();
	request_connection(17);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned j = 0; j < 3; j++) {
			ck_assert_int_eq(rdmabroker_get_option(accepted, options[j], &value), 0);
			ck_assert_int_eq(value, values[j]);
		}
		if (i == 0)
			restart();
	}
	accept_and_establish(18);
	end_connection();
}
END_TEST

START_TEST(connection_request_without_listener)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	start_listening();
	id = new_id(client);
	resolve(id);
	fake_hold_events(fake_last(), true);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	kill_broker();
	rdmabroker_close(server);
	start_broker();
	expect(client, RDMABROKER_EVENT_REJECTED, id);
	server = open_session();
}
END_TEST

/* The accept waits for the owner of its QP when the daemon is restarted: the next process carries it out. */
START_TEST(request_that_waits)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };
	start_listening();
	request_connection(17);
	fake_hold_lookups(fake_last(), true);
	kills_in_wait = true;
	ck_assert_int_eq(rdmabroker_accept(accepted, &param), 0);
	ck_assert(!kills_in_wait);
	expect(client, RDMABROKER_EVENT_CONNECT_RESPONSE, id);
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	expect(server, RDMABROKER_EVENT_ESTABLISHED, accepted);
	end_connection();
}
END_TEST

/* A connect and an accept are set aside (rpc/kept.h) when the daemon is killed: the next process carries them out. */
START_TEST(requests_that_are_set_aside)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	be_quiet();
	start_listening();
	id = new_id(client);
	resolve(id);
	fake_hold_lookups(fake_last(), true);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	run_all();
	restart();
	expect(server, RDMABROKER_EVENT_CONNECT_REQUEST, listener);
	fake_hold_lookups(fake_last(), true);
	param.qp_num = 18;
	ck_assert_int_eq(rdmabroker_accept(accepted, &param), 0);
	run_all();
	restart();
	expect(client, RDMABROKER_EVENT_CONNECT_RESPONSE, id);
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	expect(server, RDMABROKER_EVENT_ESTABLISHED, accepted);
	end_connection();

	/* Of a request that has outlived two processes nobody knows whether it ends them. */
	id = new_id(client);
	resolve(id);
	fake_hold_lookups(fake_last(), true);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	run_all();
	restart();
	fake_hold_lookups(fake_last(), true);
	run_all();
	restart();
	ck_assert_int_eq(expect(client, RDMABROKER_EVENT_CONNECT_ERROR, id), -EAGAIN);
}
END_TEST

static const struct sockaddr *group(uint8_t last)
{
	static struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_addr.s_addr = htonl(0xefc00000 | last);
	return (struct sockaddr *)&in;
}

static void join(uint8_t last)
{
	ck_assert_int_eq(
		rdmabroker_join_multicast(id, group(last), RDMABROKER_JOIN_FULL_MEMBER, NULL), 0);
}

START_TEST(multicast_groups)
{
	ck_assert_int_eq(rdmabroker_create_id(client, RDMABROKER_PS_UDP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7000)), 0);
	join(1);
	expect(client, RDMABROKER_EVENT_MULTICAST_JOIN, id);
	fake_hold_events(fake_last(), true);
	join(2);
	restart();
	/* The outcome of the second join was not known yet, so the group is joined again. */
	expect(client, RDMABROKER_EVENT_MULTICAST_JOIN, id);
	restart();
	expect_nothing(client);
	ck_assert_int_eq(rdmabroker_join_multicast(id, group(1), RDMABROKER_JOIN_FULL_MEMBER, NULL),
			 -EEXIST);
	join(3);
	expect(client, RDMABROKER_EVENT_MULTICAST_JOIN, id);
	for (uint8_t last = 1; last <= 3; last++)
		ck_assert_int_eq(rdmabroker_leave_multicast(id, group(last)), 0);
	ck_assert_int_eq(rdmabroker_leave_multicast(id, group(1)), -EADDRNOTAVAIL);
	restart();
	join(1);
	expect(client, RDMABROKER_EVENT_MULTICAST_JOIN, id);
}
END_TEST

#define BOUND \
	60 /* ids, each of which gets EVENTS events: more than the kernel queues for a socket */
#define EVENTS 8

static void take_event(struct rdmabroker *session, struct rdmabroker_id *about, int status)
{
	ck_assert_int_eq(expect(session, RDMABROKER_EVENT_UNREACHABLE, about), status);
}

static void call(struct rdmabroker_id *one)
{
	int value;

	ck_assert_int_eq(rdmabroker_get_option(one, RDMABROKER_OPTION_TOS, &value), 0);
}

/* CALLS: between the restarts the client calls all the same. */
static void read_nothing(bool calls)
{
	struct rdmabroker_id *ids[BOUND];
	struct rdmabroker_status *status;

	for (uint16_t i = 0; i < BOUND; i++) {
		ids[i] = new_id(server);
		ck_assert_int_eq(rdmabroker_bind_addr(ids[i], addr(8000 + i)), 0);
	}
	for (int n = 1; n <= EVENTS; n++)
		for (uint16_t i = 0; i < BOUND; i++)
			fake_send_event(fake_last(), 8000 + i, RDMA_CM_EVENT_UNREACHABLE, n);
	hooks_run(hooks_get_loop());
	for (int i = 0; i < 2; i++) {
		if (calls)
			call(ids[i]);
		restart();
	}
	if (calls)
		call(ids[2]);
	for (int n = 1; n <= EVENTS; n++)
		for (uint16_t i = 0; i < BOUND; i++)
			take_event(server, ids[i], n);
	expect_nothing(server);
	status = get_status();
	ck_assert_uint_eq(status->n_sessions, n_sessions());
	ck_assert_uint_eq(status->n_ids, BOUND);
	rdmabroker_free(status);
	for (uint16_t i = 0; i < BOUND; i++)
		rdmabroker_destroy_id(ids[i]);
	start_listening();
	connect_ids(17);
}

/* What the socket has not accepted waits in the daemon, and is not lost with it. */
START_TEST(client_that_does_not_read)
{
	read_nothing(/* calls= */ false);
}
END_TEST

START_TEST(client_that_calls_and_does_not_read)
{
	be_apart();
	read_nothing(/* calls= */ true);
}
END_TEST

START_TEST(policy_on_disk_is_in_force)
{
	start_listening();
	connect_ids(17);
	restart_with("reject connect peer 10.9.0.1\nallow any\n");
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
}
END_TEST

/* What the author of a policy with an error wanted is not known, so nothing that exists is ended. */
/* A path to the own address, in the partition PKEY, as the subnet manager tells it. */
static struct ibv_path_record make_path(uint16_t pkey)
{
	struct ibv_path_record path = {
		.dlid = htons(0x1001),
		.slid = htons(0x1002),
		.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1,
		.pkey = htons(pkey),
		.qosclass_sl = htons(3),
	};

	fake_gid_of(&path.sgid, addr(0));
	fake_gid_of(&path.dgid, addr(0));
	return path;
}

/* What the subnet manager had told is gone with the dead process, so a path has nothing to be compared with. */
START_TEST(path_that_is_set_after_a_restart)
{
	struct ibv_path_record path = make_path(0xffff);

	fake_be_infiniband(true);
	restart_with("allow any\n");
	path.dlid = htons(0x99);
	id = new_id(client);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(PORT), T), 0);
	restart();
	ck_assert_int_eq(rdmabroker_set_path(id, &path, T), 0);
	ck_assert_int_eq(expect(client, RDMABROKER_EVENT_ROUTE_ERROR, id), -EINVAL);
}
END_TEST

/* The path is not kept, but the partition that it has named is. */
START_TEST(connection_in_a_partition_that_was_named)
{
	static const char rules[] = "allow connect pkey 1\nallow any\n";
	const struct ibv_path_record path = make_path(0x8001);
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	fake_be_infiniband(true);
	restart_with(rules);
	start_listening();
	id = new_id(client);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(PORT), T), 0);
	ck_assert_int_eq(rdmabroker_set_path(id, &path, T), 0);
	ck_assert_int_eq(expect(client, RDMABROKER_EVENT_ROUTE_RESOLVED, id), 0);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	accept_and_establish(18);
	for (int i = 0; i < 2; i++) {
		restart_with(rules);
		expect_nothing(client);
		expect_nothing(server);
	}
	restart_with("allow any\n");
	expect(client, RDMABROKER_EVENT_DISCONNECTED, id);
	expect(server, RDMABROKER_EVENT_DISCONNECTED, accepted);
}
END_TEST

START_TEST(policy_on_disk_has_an_error)
{
	start_listening();
	connect_ids(17);
	restart_with("reject connect peer 10.9.0.1\nallow anything\n");
	expect_nothing(client);
	expect_nothing(server);
	end_connection();
}
END_TEST

#define ASKS                                                          \
	"allow session\nallow listen\nallow connect\nallow observe\n" \
	"reject accept peer-group 77\nallow accept peer-user 1234\n"

/* The client connects. HELPER says who the peer of the request is, and the server gets it. */
static void request_asked_connection(struct rdmabroker *helper, uint32_t qpn)
{
	const struct rdmabroker_who who = { .uid = 1234 };
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = qpn };
	struct rdmabroker_notice *question;

	id = new_id(client);
	resolve(id);
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	ck_assert_int_eq(rdmabroker_get_notice(helper, T, &question), 0);
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, &who, NULL), 0);
	rdmabroker_free(question);
	expect(server, RDMABROKER_EVENT_CONNECT_REQUEST, listener);
}

/* The answer is lost with the daemon, but what it has allowed stays allowed, and nobody is asked again. */
START_TEST(connection_whose_peer_was_asked)
{
	const struct passwd *me = getpwuid(geteuid());
	struct rdmabroker *helper;
	char config[160];

	if (!me)
		return;
	snprintf(config, sizeof(config),
		 "[Daemon]\nLogLevel=error\nOnReload=enforce\n[Peers]\nHelper=%s\n", me->pw_name);
	kill_broker();
	place_write(ASKS, config);
	start_broker();
	start_listening();
	helper = open_helper();
	ck_assert_int_eq(rdmabroker_serve_peers(helper), 0);
	request_asked_connection(helper, 17);
	restart();
	/* A helper has to begin anew. */
	expect_end(helper);
	rdmabroker_close(helper);
	expect_nothing(server);
	accept_and_establish(18);
	restart();
	expect_nothing(client);
	expect_nothing(server);
	end_connection();

	/* A rule that needs no answer decides. */
	helper = open_helper();
	ck_assert_int_eq(rdmabroker_serve_peers(helper), 0);
	request_asked_connection(helper, 19);
	rdmabroker_close(helper);
	kill_broker();
	place_write("allow session\nallow listen\nallow connect\nreject accept\n", config);
	start_broker();
	expect(client, RDMABROKER_EVENT_REJECTED, id);
}
END_TEST

/* After a restart with another policy, a rule about peers does not decide about a request as if the peer were known. */
START_TEST(request_whose_peer_was_not_asked)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };

	start_listening();
	request_connection(17);
	restart_with(ASKS);
	ck_assert_int_eq(rdmabroker_accept(accepted, &param), -EACCES);
	expect(client, RDMABROKER_EVENT_REJECTED, id);
}
END_TEST

/* UID is charged for one session. */
static void assert_charged(struct rdmabroker *session, uid_t uid)
{
	struct rdmabroker_list *list;
	unsigned n = 0;

	ck_assert_int_eq(rdmabroker_get_list(session, 0, &list), 0);
	for (size_t i = 0; i < list->n_sessions; i++)
		n += list->sessions[i].who.charged_uid == uid;
	ck_assert_uint_eq(n, 1);
	rdmabroker_free(list);
}

/* Who has to answer for a session is decided once: later the client, and what makes its uid his, can be gone. */
START_TEST(session_keeps_its_owner)
{
	struct rdmabroker *session;

	owners_use(read_ranges("4711:300000:65536\n"));
	shown_uid = 300007;
	session = open_session();
	assert_charged(session, 4711);
	owners_use(NULL);
	restart();
	assert_charged(server, 4711);
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("takeover", succession_set_up, succession_tear_down, connections_and_listeners_go_on,
	  connection_whose_route_was_not_requested, device_that_comes_later,
	  manager_that_does_not_read, start_without_a_manager_that_reads,
	  the_other_side_ends_the_connection, connection_that_ends_meanwhile,
	  client_that_ends_meanwhile, requests_that_come_meanwhile, ids_that_have_not_begun,
	  resolved_address, handshakes, connection_request_that_waits,
	  connection_request_with_settings, connection_request_without_listener, request_that_waits,
	  requests_that_are_set_aside, multicast_groups, client_that_does_not_read,
	  client_that_calls_and_does_not_read, policy_on_disk_is_in_force,
	  connection_in_a_partition_that_was_named, path_that_is_set_after_a_restart,
	  policy_on_disk_has_an_error, connection_whose_peer_was_asked,
	  request_whose_peer_was_not_asked, session_keeps_its_owner)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/unit/apart.h"

/*
 * Sessions whose replies come by another session's socket (options.replies): ids that move, how sessions end, and what
 * other clients can say.
 */

/* Moving ids */

START_TEST(migration_with_an_event)
{
	struct rdmabroker *third = open_session(0), *stations[] = { other, third, session };
	struct rdmabroker_id *id = new_resolving(session), *stays = new_resolving(session);

	await_readable(session);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(rdmabroker_migrate_id(id, stations[i]), 0);
		await_readable(stations[i]);
	}
	/* The event of the other id was in the way. */
	take(session, RDMABROKER_EVENT_ADDR_RESOLVED, stays);
	take(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	expect_no_event(session);
	expect_no_event(other);
	ck_assert(!is_readable(third));
	ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(stays, T), 0);
	rdmabroker_close(third);
}
END_TEST

static void *expect_end_of_connection(void *arg)
{
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_await_event(other), 0);
	ck_assert_int_eq(rdmabroker_get_event(other, 0, &event), 0);
	ck_assert_str_eq(rdmabroker_event_str(event->type),
			 rdmabroker_event_str(RDMABROKER_EVENT_DISCONNECTED));
	ck_assert_ptr_eq(event->id, arg);
	rdmabroker_free_event(event);
	return NULL;
}

static void *disconnect(void *arg)
{
	rdmabroker_disconnect(arg);
	return NULL;
}

/*
 * The peer disconnects while the id moves. The event comes by the old session or by the new one, perhaps before the reply
 * that says which number the id has there.
 */
START_TEST(migration_while_the_peer_disconnects)
{
	struct rdmabroker *server = open_session(0);
	struct rdmabroker_id *listener = start_listening(server, 7471), *id, *request;
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct rdmabroker_event *event;
	pthread_t threads[2];

	for (int i = 0; i < 50; i++) {
		id = resolve(session, 7471);
		ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
		event = expect(server, RDMABROKER_EVENT_CONNECT_REQUEST);
		request = event->id;
		rdmabroker_free_event(event);
		ck_assert_int_eq(rdmabroker_accept(request, &param), 0);
		take(session, RDMABROKER_EVENT_CONNECT_RESPONSE, id);
		ck_assert_int_eq(rdmabroker_establish(id), 0);
		rdmabroker_free_event(expect(server, RDMABROKER_EVENT_ESTABLISHED));
		pthread_create(&threads[0], NULL, expect_end_of_connection, id);
		pthread_create(&threads[1], NULL, disconnect, request);
		ck_assert_int_eq(rdmabroker_migrate_id(id, other), 0);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		expect_no_event(session);
		rdmabroker_free_event(expect(server, RDMABROKER_EVENT_DISCONNECTED));
		rdmabroker_destroy_id_wait(request, T);
		ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
	}
	rdmabroker_destroy_id(listener);
	rdmabroker_close(server);
}
END_TEST

/* A listener is destroyed with requests that were not taken, while a thread blocks: they are rejected. */
START_TEST(listener_that_is_destroyed)
{
	struct rdmabroker_id *listener = start_listening(session, 7471), *ids[8];
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	for (int i = 0; i < 8; i++) {
		ids[i] = resolve(other, 7471);
		ck_assert_int_eq(rdmabroker_connect(ids[i], &param), 0);
	}
	await_readable(session);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(listener, T), 0);
	for (int i = 0; i < 8; i++) {
		struct rdmabroker_event *event;

		await_readable(other);
		ck_assert_int_eq(rdmabroker_get_event(other, T, &event), 0);
		ck_assert_int_eq(event->type, RDMABROKER_EVENT_REJECTED);
		rdmabroker_free_event(event);
	}
	expect_no_event(session);
	for (int i = 0; i < 8; i++)
		rdmabroker_destroy_id_wait(ids[i], T);
	await_counts(3, 0);
}
END_TEST

/* How sessions end */

static void expect_lost(struct rdmabroker *of)
{
	struct rdmabroker_event *event;

	await_readable(of);
	ck_assert_int_eq(rdmabroker_await_event(of), 0);
	ck_assert_int_eq(rdmabroker_get_event(of, 0, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_LOST);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_get_event(of, 0, &event), -ECONNRESET);
}

START_TEST(broker_that_ends)
{
	start_waiter(&waiters[0], wait_once);
	await_sleep(&waiters[0]);
	stop_server();
	pthread_join(waiters[0].thread, NULL);
	ck_assert_int_eq(waiters[0].r, 0);
	expect_lost(session);
	expect_lost(other);
	expect_failure(rdmabroker_check(session), ECONNRESET, "lost");
}
END_TEST

/* An admin ends the session for replies: calls fail, and the broker ends those that have waited for them. */
START_TEST(session_for_replies_that_is_ended)
{
	struct rdmabroker *admin = open_session(RDMABROKER_NO_POLL);
	struct rdmabroker_id *id = new_id(session);
	int value;

	ck_assert_int_eq(rdmabroker_kick(admin, number_of(admin, 0), 0), 0);
	expect_failure(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), ECONNRESET,
		       "lost");
	expect_failure(rdmabroker_bind_addr(id, addr(0)), ECONNRESET, "lost");
	rdmabroker_destroy_id(id);
	rdmabroker_close(admin);
}
END_TEST

/* It stays until the sessions are closed whose replies it gets. */
START_TEST(session_for_replies_that_is_closed_first)
{
	struct rdmabroker *first = open_session(RDMABROKER_NO_POLL), *kept = replies;
	struct rdmabroker *one, *two;
	struct rdmabroker_id *id;

	replies = first;
	one = open_apart();
	two = open_apart();
	replies = kept;
	rdmabroker_close(first);
	await_counts(6, 0);
	rdmabroker_close(one);
	id = new_id(two);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
	rdmabroker_close(two);
	await_counts(3, 0);
}
END_TEST

static int in_child(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(run());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int use_parents(void)
{
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	if (rdmabroker_await_event(session) != -EPERM ||
	    rdmabroker_get_event(session, 0, &event) != -EPERM ||
	    rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id) != -EPERM)
		return 1;
	rdmabroker_close(session);
	rdmabroker_close(replies);
	return 0;
}

START_TEST(child_process)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(in_child(use_parents), 0);
	id = new_resolving(session);
	take(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
}
END_TEST

/* Without RDMABROKER_TRUST_FD. */
START_TEST(descriptor_that_the_program_has_closed)
{
	int fd = rdmabroker_get_fd(session), pair[2], value;
	struct rdmabroker_id *id = new_resolving(session);
	struct rdmabroker_event *event;
	char byte = 'x';

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	ck_assert_int_eq(send(pair[0], &byte, 1, 0), 1);
	ck_assert_int_eq(dup2(pair[1], fd), fd);
	expect_failure(rdmabroker_resolve_route(id, T), ECONNRESET, "closed the socket");
	expect_failure(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), ECONNRESET,
		       "closed the socket");
	ck_assert_int_eq(rdmabroker_await_event(session), 0);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_LOST);
	rdmabroker_free_event(event);
	rdmabroker_close(session);
	session = NULL;
	/* What the program has opened there is as it was. */
	ck_assert_int_eq(recv(pair[0], &byte, 1, 0), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(recv(fd, &byte, 1, 0), 1);
	close(fd);
}
END_TEST

START_TEST(what_does_not_go_together)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = harness.socket_path,
		.replies = replies,
		.flags = RDMABROKER_NONBLOCK,
	};
	struct rdmabroker *ret;

	expect_failure(rdmabroker_open(&options, &ret), EINVAL, "does not go with");
	options.flags = RDMABROKER_NO_POLL;
	expect_failure(rdmabroker_open(&options, &ret), EINVAL, "does not go with");
	options.flags = RDMABROKER_TRUST_FD;
	options.replies = NULL;
	expect_failure(rdmabroker_open(&options, &ret), EINVAL, "only for options.replies");
	options.flags = 0;
	options.replies = session;
	expect_failure(rdmabroker_open(&options, &ret), EINVAL, "has options.replies itself");
	expect_failure(rdmabroker_watch(session, NULL), EINVAL, "gets no notices");
	expect_failure(rdmabroker_await_event(replies), EINVAL, "RDMABROKER_NO_POLL");
}
END_TEST

/* What other clients can say */

static int connect_raw(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, harness.socket_path);
	ck_assert_int_eq(connect(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return sock;
}

/* Sends REQUEST, and returns the next packet of SOCK, which has to be the reply. */
static Rdmabroker__Frame *ask_raw(int sock, Rdmabroker__Request *request)
{
	static uint32_t serial = 1000;
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT, *ret;
	uint8_t buf[PACKET_MAX];
	ssize_t n;

	request->serial = ++serial;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	ck_assert_int_eq(packet_send(sock, buf, rdmabroker__frame__pack(&frame, buf), NULL, 0), 0);
	n = recv(sock, buf, sizeof(buf), 0);
	ck_assert_int_gt(n, 0);
	ret = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
	ck_assert_ptr_nonnull(ret);
	ck_assert_int_eq(ret->body_case, RDMABROKER__FRAME__BODY_REPLY);
	ck_assert_uint_eq(ret->reply->serial, serial);
	return ret;
}

/* Says Hello with REPLIES_TO. Returns whether it is in force. */
static bool is_apart(int sock, uint64_t replies_to, uint64_t *ret_number)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;
	Rdmabroker__Frame *frame;
	bool ret;

	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	hello.version = 1;
	hello.replies_to = replies_to;
	frame = ask_raw(sock, &request);
	ck_assert_int_eq(frame->reply->result_case, RDMABROKER__REPLY__RESULT_HELLO);
	ret = frame->reply->hello->apart;
	if (ret_number)
		*ret_number = frame->reply->hello->session;
	rdmabroker__frame__free_unpacked(frame, NULL);
	return ret;
}

static uint64_t wanted;

/* As another process, and as another user if possible. */
static int claim_parents(void)
{
	int sock = connect_raw();

	if (is_apart(sock, wanted, NULL))
		return 1;
	close(sock);
	if (geteuid() != 0)
		return 0;
	if (chown(harness.socket_path, 4711, 0) < 0 || chmod(harness.dir, 0755) < 0 ||
	    seteuid(4711) < 0)
		return 2;
	sock = connect_raw();
	return is_apart(sock, wanted, NULL) ? 3 : 0;
}

START_TEST(numbers_of_other_sessions)
{
	int sock = connect_raw(), own;
	uint64_t number;

	ck_assert(!is_apart(sock, UINT64_MAX, &wanted));
	ck_assert_int_eq(in_child(claim_parents), 0);
	/* The same process may. */
	own = connect_raw();
	ck_assert(is_apart(own, wanted, &number));
	/* But not if that one gets its replies by another one. */
	ck_assert(!is_apart(connect_raw(), number, &number));
	/* Its own number, which is the next one. */
	ck_assert(!is_apart(connect_raw(), number + 1, &number));
	/* One that has ended. */
	close(sock);
	await_counts(6, 0);
	ck_assert(!is_apart(connect_raw(), wanted, NULL));
}
END_TEST

START_TEST(requests_without_another_session)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__ListDevices devices = RDMABROKER__LIST_DEVICES__INIT;
	Rdmabroker__Wake wake = RDMABROKER__WAKE__INIT;
	Rdmabroker__Frame *frame;
	int sock = connect_raw();

	ck_assert(!is_apart(sock, 0, NULL));
	request.apart = true;
	request.op_case = RDMABROKER__REQUEST__OP_LIST_DEVICES;
	request.list_devices = &devices;
	frame = ask_raw(sock, &request);
	ck_assert_ptr_null(frame->reply->failure);
	rdmabroker__frame__free_unpacked(frame, NULL);
	request.op_case = RDMABROKER__REQUEST__OP_WAKE;
	request.wake = &wake;
	frame = ask_raw(sock, &request);
	ck_assert_str_eq(frame->reply->failure->text,
			 "wake: the session gets its replies by its own socket");
	rdmabroker__frame__free_unpacked(frame, NULL);
	close(sock);
}
END_TEST

/* A program that was built before options.replies, and one that does not poll. */
START_TEST(ordinary_session)
{
	struct rdmabroker *one = open_session(0);
	struct rdmabroker_id *id = new_resolving(one);

	take(one, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	ck_assert_int_eq(fcntl(rdmabroker_get_fd(one), F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(rdmabroker_await_event(one), -EAGAIN);
	rdmabroker_close(one);
}
END_TEST

UNIT_MAIN("apart_life", set_up_apart, tear_down_apart, migration_with_an_event,
	  migration_while_the_peer_disconnects, listener_that_is_destroyed, broker_that_ends,
	  session_for_replies_that_is_ended, session_for_replies_that_is_closed_first,
	  child_process, descriptor_that_the_program_has_closed, what_does_not_go_together,
	  numbers_of_other_sessions, requests_without_another_session, ordinary_session)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/unit/fds.h"
#include "tests/unit/harness.h"

/*
 * Sessions whose replies come by another session's socket (options.replies): their own socket is what the program polls,
 * and it is readable once for each event. Threads block in it as in librdmacm's descriptor.
 */

static struct rdmabroker *replies, *session, *other;

static struct rdmabroker *open_apart(void)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = harness.socket_path,
		.call_timeout_ms = T,
		.replies = replies,
	};
	struct rdmabroker *ret;

	ck_assert_msg(rdmabroker_open(&options, &ret) == 0, "%s", rdmabroker_last_failure()->text);
	return ret;
}

static void do_raise_limits(void *arg)
{
	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = 1000;
	harness.core->settings.max_ids_per_session = 1000;
}

static void set_up_apart(void)
{
	set_up();
	in_server(do_raise_limits, NULL);
	replies = open_session(RDMABROKER_NO_POLL);
	session = open_apart();
	other = open_apart();
	/* From now on their programs poll. */
	ck_assert_int_ge(rdmabroker_get_fd(session), 0);
	ck_assert_int_ge(rdmabroker_get_fd(other), 0);
}

static void tear_down_apart(void)
{
	rdmabroker_close(session);
	rdmabroker_close(other);
	rdmabroker_close(replies);
	tear_down();
}

static bool is_readable(struct rdmabroker *one)
{
	struct pollfd p = { rdmabroker_get_fd(one), POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

static void await_readable(struct rdmabroker *one)
{
	AWAIT_INPUT(rdmabroker_get_fd(one), "an event");
}

static struct rdmabroker_id *new_id(struct rdmabroker *of)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(of, RDMABROKER_PS_TCP, NULL, &id), 0);
	return id;
}

/* An id whose ADDR_RESOLVED comes. */
static struct rdmabroker_id *new_resolving(struct rdmabroker *of)
{
	struct rdmabroker_id *id = new_id(of);

	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(7471), T), 0);
	return id;
}

/* Takes the event that a thread has waited for. */
static void take_awaited(struct rdmabroker *of, enum rdmabroker_event_type type,
			 struct rdmabroker_id *id)
{
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_get_event(of, 0, &event), 0);
	ck_assert_str_eq(rdmabroker_event_str(event->type), rdmabroker_event_str(type));
	ck_assert_ptr_eq(event->id, id);
	rdmabroker_free_event(event);
}

/* Takes the event as a program does that has polled. */
static void take(struct rdmabroker *of, enum rdmabroker_event_type type, struct rdmabroker_id *id)
{
	await_readable(of);
	ck_assert_int_eq(rdmabroker_await_event(of), 0);
	take_awaited(of, type, id);
}

static void set_nonblocking(struct rdmabroker *of, bool on)
{
	ck_assert_int_eq(fcntl(rdmabroker_get_fd(of), F_SETFL, on ? O_NONBLOCK : 0), 0);
}

static void expect_no_event(struct rdmabroker *of)
{
	struct rdmabroker_event *event;

	ck_assert(!is_readable(of));
	ck_assert_int_eq(rdmabroker_get_event(of, 0, &event), -EAGAIN);
}

#define N_SESSIONS 100

/* The daemon's descriptors are in this process, too, and as many for each kind of session. */
START_TEST(one_descriptor)
{
	struct rdmabroker *sessions[N_SESSIONS];
	unsigned begin = count_fds(), n_polled, n_apart;

	for (int i = 0; i < N_SESSIONS; i++)
		sessions[i] = open_session(0);
	n_polled = count_fds() - begin;
	for (int i = 0; i < N_SESSIONS; i++)
		rdmabroker_close(sessions[i]);
	await_counts(3, 0);
	AWAIT(count_fds() == begin, "the daemon to close its sockets");
	for (int i = 0; i < N_SESSIONS; i++) {
		sessions[i] = open_apart();
		rdmabroker_get_fd(sessions[i]);
	}
	n_apart = count_fds() - begin;
	ck_assert_uint_eq(n_polled - n_apart, 2 * N_SESSIONS);
	for (int i = 0; i < N_SESSIONS; i++)
		rdmabroker_close(sessions[i]);
}
END_TEST

/* An epoll instance with EPOLLET reports each packet that comes. */
static int make_edge(int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	ck_assert_int_ge(epoll, 0);
	ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	return epoll;
}

static bool has_edge(int epoll, int timeout)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, timeout) == 1;
}

static bool was_readable;

/* Polls the session and the eventfd that ends this. */
static void *watch_session(void *arg)
{
	struct pollfd p[] = { { rdmabroker_get_fd(session), POLLIN, 0 },
			      { *(int *)arg, POLLIN, 0 } };

	poll(p, 2, -1);
	was_readable = p[0].revents != 0;
	return NULL;
}

START_TEST(replies_do_not_make_it_readable)
{
	int end = eventfd(0, EFD_CLOEXEC), value;
	struct rdmabroker_id *id;
	pthread_t thread;

	pthread_create(&thread, NULL, watch_session, &end);
	for (int i = 0; i < 100; i++) {
		id = new_id(session);
		ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
		ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), 0);
		ck_assert_int_eq(rdmabroker_listen(id, 0), 0);
		ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
	}
	eventfd_write(end, 1);
	pthread_join(thread, NULL);
	ck_assert(!was_readable);
	close(end);
}
END_TEST

/* The route is resolved with the address. Nevertheless the descriptor becomes readable for it, and only when it is asked. */
START_TEST(readable_for_a_route)
{
	int edge = make_edge(rdmabroker_get_fd(session));
	struct rdmabroker_id *id = new_resolving(session);

	ck_assert(has_edge(edge, T));
	take(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	expect_no_event(session);
	ck_assert_int_eq(rdmabroker_resolve_route(id, T), 0);
	ck_assert(has_edge(edge, T));
	take(session, RDMABROKER_EVENT_ROUTE_RESOLVED, id);
	expect_no_event(session);
	rdmabroker_destroy_id_wait(id, T);
	close(edge);
}
END_TEST

/*
 * A program that does not poll gets the route at once. What makes the descriptor readable comes later, and is received
 * with the next request.
 */
START_TEST(route_without_polling)
{
	struct rdmabroker_id *id = new_resolving(session);
	struct rdmabroker_event *event;
	int value;

	take(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	hang_server();
	ck_assert_int_eq(rdmabroker_resolve_route(id, T), 0);
	ck_assert_int_eq(rdmabroker_await_event(session), 0);
	ck_assert_int_eq(rdmabroker_get_event(session, 0, &event), 0);
	ck_assert_int_eq(event->type, RDMABROKER_EVENT_ROUTE_RESOLVED);
	rdmabroker_free_event(event);
	resume_server();
	await_readable(session);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), 0);
	expect_no_event(session);
	rdmabroker_destroy_id_wait(id, T);
}
END_TEST

/* Events of a destroyed id go with it, those of others stay, and the descriptor says so. */
START_TEST(events_of_a_destroyed_id)
{
	struct rdmabroker_id *gone[4], *left[4];

	for (int i = 0; i < 4; i++) {
		gone[i] = new_resolving(session);
		left[i] = new_resolving(session);
		await_readable(session);
	}
	/* All have come, because their replies come after them. */
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(rdmabroker_destroy_id_wait(gone[i], T), 0);
	for (int i = 0; i < 4; i++)
		take(session, RDMABROKER_EVENT_ADDR_RESOLVED, left[i]);
	expect_no_event(session);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(rdmabroker_destroy_id_wait(left[i], T), 0);
	expect_no_event(session);
}
END_TEST

/* A number is used again at once, and the events of its earlier id are not the new one's. */
START_TEST(number_that_is_used_again)
{
	struct rdmabroker_id *id;

	for (int i = 0; i < 300; i++) {
		id = new_resolving(session);
		if (i % 2 == 0)
			await_readable(session);
		ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
		id = new_id(session);
		ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
		expect_no_event(session);
		ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
	}
}
END_TEST

/* More calls than the library remembers without an answer. */
START_TEST(many_calls_without_a_reply)
{
	struct rdmabroker_id *ids[200];

	for (int k = 0; k < 5; k++) {
		for (int i = 0; i < 200; i++) {
			ids[i] = new_id(session);
			ck_assert_int_eq(rdmabroker_bind_addr(ids[i], addr(0)), 0);
		}
		for (int i = 0; i < 200; i++)
			rdmabroker_destroy_id(ids[i]);
	}
	expect_no_event(session);
	await_counts(3, 0);
}
END_TEST

START_TEST(descriptor_that_does_not_block)
{
	struct rdmabroker_id *id;

	set_nonblocking(session, true);
	ck_assert_int_eq(rdmabroker_await_event(session), -EAGAIN);
	id = new_resolving(session);
	await_readable(session);
	ck_assert_int_eq(rdmabroker_await_event(session), 0);
	take_awaited(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	ck_assert_int_eq(rdmabroker_await_event(session), -EAGAIN);
	set_nonblocking(session, false);
	rdmabroker_destroy_id_wait(id, T);
}
END_TEST

/* As deep as the kernel allows for a descriptor that is no epoll instance itself. */
START_TEST(descriptor_in_five_epolls)
{
	struct epoll_event event = { .events = EPOLLIN };
	int inner = rdmabroker_get_fd(session), epolls[5];
	struct rdmabroker_id *id;

	for (int i = 0; i < 5; i++) {
		epolls[i] = epoll_create1(EPOLL_CLOEXEC);
		ck_assert_int_eq(epoll_ctl(epolls[i], EPOLL_CTL_ADD, inner, &event), 0);
		inner = epolls[i];
	}
	id = new_resolving(session);
	ck_assert(has_edge(epolls[4], T));
	take(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	ck_assert(!has_edge(epolls[4], 0));
	for (int i = 0; i < 5; i++)
		close(epolls[i]);
	rdmabroker_destroy_id_wait(id, T);
}
END_TEST

/* Threads */

static struct waiter {
	pthread_t thread;
	pid_t tid;
	int r;
	unsigned n_taken;
} waiters[4];

static void note_tid(struct waiter *waiter)
{
	__atomic_store_n(&waiter->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

/* Waits until the thread sleeps in the kernel. */
static void await_sleep(const struct waiter *waiter)
{
	char name[64], text[256], state = 0;
	FILE *f;

	AWAIT(({
		      snprintf(name, sizeof(name), "/proc/self/task/%d/stat",
			       __atomic_load_n(&waiter->tid, __ATOMIC_ACQUIRE));
		      f = fopen(name, "re");
		      if (f && fgets(text, sizeof(text), f))
			      sscanf(strrchr(text, ')'), ") %c", &state);
		      if (f)
			      fclose(f);
		      state == 'S';
	      }),
	      "a thread to sleep");
}

static void *wait_once(void *arg)
{
	struct waiter *waiter = arg;

	note_tid(waiter);
	waiter->r = rdmabroker_await_event(session);
	return NULL;
}

static void start(struct waiter *waiter, void *(*run)(void *arg))
{
	*waiter = (struct waiter){ 0 };
	ck_assert_int_eq(pthread_create(&waiter->thread, NULL, run, waiter), 0);
}

/* An event comes for the thread that waits. */
static void end_wait(struct waiter *waiter)
{
	struct rdmabroker_id *id = new_resolving(session);

	pthread_join(waiter->thread, NULL);
	ck_assert_int_eq(waiter->r, 0);
	take_awaited(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	rdmabroker_destroy_id_wait(id, T);
}

static void on_signal(int sig)
{
}

START_TEST(signals)
{
	struct sigaction action = { .sa_handler = on_signal };

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_flags = SA_RESTART;
	ck_assert_int_eq(sigaction(SIGUSR2, &action, NULL), 0);
	start(&waiters[0], wait_once);
	await_sleep(&waiters[0]);
	pthread_kill(waiters[0].thread, SIGUSR1);
	pthread_join(waiters[0].thread, NULL);
	ck_assert_int_eq(waiters[0].r, -EINTR);

	start(&waiters[0], wait_once);
	await_sleep(&waiters[0]);
	pthread_kill(waiters[0].thread, SIGUSR2);
	await_sleep(&waiters[0]);
	end_wait(&waiters[0]);
}
END_TEST

/* One that blocks in the socket, and one that waits for it. */
START_TEST(threads_that_are_cancelled)
{
	void *result;

	for (int i = 0; i < 2; i++) {
		start(&waiters[i], wait_once);
		await_sleep(&waiters[i]);
	}
	for (int i = 0; i < 2; i++) {
		pthread_cancel(waiters[i].thread);
		pthread_join(waiters[i].thread, &result);
		ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	}
	start(&waiters[2], wait_once);
	await_sleep(&waiters[2]);
	end_wait(&waiters[2]);
}
END_TEST

/* While a thread blocks, the others get EAGAIN if the flag is set meanwhile. */
START_TEST(flag_that_is_set_while_a_thread_blocks)
{

	start(&waiters[0], wait_once);
	await_sleep(&waiters[0]);
	set_nonblocking(session, true);
	ck_assert_int_eq(rdmabroker_await_event(session), -EAGAIN);
	end_wait(&waiters[0]);
}
END_TEST

#define N_EVENTS 200

static unsigned n_left;

static void *take_many(void *arg)
{
	struct waiter *waiter = arg;
	struct rdmabroker_event *event;

	while (rdmabroker_await_event(session) == 0) {
		int r = rdmabroker_get_event(session, 0, &event);

		if (r == -ECONNRESET)
			break;
		ck_assert_int_eq(r, 0);
		if (event->type == RDMABROKER_EVENT_LOST) {
			rdmabroker_free_event(event);
			break;
		}
		ck_assert_int_eq(event->type, RDMABROKER_EVENT_ADDR_RESOLVED);
		rdmabroker_free_event(event);
		waiter->n_taken++;
		__atomic_sub_fetch(&n_left, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void shut_down(struct rdmabroker *one)
{
	ck_assert_int_eq(shutdown(rdmabroker_get_fd(one), SHUT_RDWR), 0);
}

/* No event is lost, and none is taken twice, while others call and destroy. */
START_TEST(threads_that_take_events)
{
	struct rdmabroker_id *ids[N_EVENTS], *id;
	int value;

	n_left = N_EVENTS;
	for (int i = 0; i < 4; i++)
		start(&waiters[i], take_many);
	for (int i = 0; i < N_EVENTS; i++) {
		ids[i] = new_resolving(session);
		id = new_id(other);
		ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
		ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), 0);
		ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
	}
	AWAIT(__atomic_load_n(&n_left, __ATOMIC_RELAXED) == 0, "%d events", N_EVENTS);
	for (int i = 0; i < N_EVENTS; i++)
		ck_assert_int_eq(rdmabroker_destroy_id_wait(ids[i], T), 0);
	expect_no_event(other);
	shut_down(session);
	for (int i = 0; i < 4; i++)
		pthread_join(waiters[i].thread, NULL);
}
END_TEST

static void *call_often(void *arg)
{
	struct waiter *waiter = arg;
	struct rdmabroker_id *id = new_id(waiter - waiters < 2 ? session : other);
	int value;

	note_tid(waiter);
	for (int i = 0; i < 200; i++)
		waiter->r |= rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value);
	waiter->r |= rdmabroker_destroy_id_wait(id, T);
	return NULL;
}

/* Their replies come by one socket, which one of them reads at a time. */
START_TEST(threads_that_call)
{
	for (int k = 0; k < 5; k++) {
		for (int i = 0; i < 4; i++)
			start(&waiters[i], call_often);
		for (int i = 0; i < 4; i++) {
			pthread_join(waiters[i].thread, NULL);
			ck_assert_int_eq(waiters[i].r, 0);
		}
	}
	expect_no_event(session);
}
END_TEST

/* The socket of the session for replies, which is the first that set_up_apart() opens with a timeout. */
static int find_socket(void)
{
	struct timeval timeout;

	for (int fd = 0; fd < 100; fd++) {
		socklen_t len = sizeof(timeout);

		if (getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, &len) == 0 &&
		    timeout.tv_sec == T / 1000)
			return fd;
	}
	ck_abort_msg("no socket has a timeout of %d ms", T);
}

/* All that wait for a reply learn that none comes. */
START_TEST(threads_that_call_when_the_broker_ends)
{
	hang_server();
	for (int i = 0; i < 4; i++)
		start(&waiters[i], call_often);
	for (int i = 0; i < 4; i++)
		await_sleep(&waiters[i]);
	ck_assert_int_eq(shutdown(find_socket(), SHUT_RDWR), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(waiters[i].thread, NULL);
		ck_assert_int_ne(waiters[i].r, 0);
	}
	resume_server();
}
END_TEST

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
	start(&waiters[0], wait_once);
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

UNIT_MAIN("apart", set_up_apart, tear_down_apart, one_descriptor, replies_do_not_make_it_readable,
	  readable_for_a_route, route_without_polling, events_of_a_destroyed_id,
	  number_that_is_used_again, many_calls_without_a_reply, descriptor_that_does_not_block,
	  descriptor_in_five_epolls, signals, threads_that_are_cancelled,
	  flag_that_is_set_while_a_thread_blocks, threads_that_take_events, migration_with_an_event,
	  migration_while_the_peer_disconnects, listener_that_is_destroyed, broker_that_ends,
	  session_for_replies_that_is_ended, session_for_replies_that_is_closed_first,
	  child_process, descriptor_that_the_program_has_closed, threads_that_call,
	  threads_that_call_when_the_broker_ends, what_does_not_go_together,
	  numbers_of_other_sessions, requests_without_another_session, ordinary_session)

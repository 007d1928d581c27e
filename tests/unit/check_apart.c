/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/apart.h"
#include "tests/unit/fds.h"

/*
 * Sessions whose replies come by another session's socket (options.replies): their own socket is what the program polls,
 * and it is readable once for each event. Threads block in it as in librdmacm's descriptor.
 */

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

#define N_UNTAKEN 1000 /* more events than the socket has room for */

/* Events that nobody takes fill the socket. Calls do not wait for that, as those of librdmacm do not. */
START_TEST(events_that_fill_the_socket)
{
	static struct rdmabroker_id *ids[N_UNTAKEN];
	int value;

	for (int i = 0; i < N_UNTAKEN; i++)
		ids[i] = new_resolving(session);
	ck_assert_int_eq(rdmabroker_get_option(ids[0], RDMABROKER_OPTION_TOS, &value), 0);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(ids[0], T), 0);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(ids[N_UNTAKEN - 1], T), 0);
	for (int i = 1; i < N_UNTAKEN - 1; i++)
		take(session, RDMABROKER_EVENT_ADDR_RESOLVED, ids[i]);
	expect_no_event(session);
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

/* The program's own epoll instance is readable while there is an event, received or not, and never writable. */
START_TEST(epoll_of_the_program)
{
	int epolls[] = { epoll_create1(EPOLL_CLOEXEC), epoll_create1(EPOLL_CLOEXEC) };
	struct pollfd p[] = { { epolls[0], POLLIN | POLLOUT, 0 },
			      { epolls[1], POLLIN | POLLOUT, 0 } };
	struct rdmabroker_id *id, *listener;

	ck_assert_int_eq(rdmabroker_set_epoll(session, epolls[0]), 0);
	ck_assert_int_eq(poll(p, 2, 0), 0);
	id = new_resolving(session);
	AWAIT_INPUT(epolls[0], "an event");
	/* Its reply comes after the event, which is received now. */
	listener = new_id(session);
	ck_assert_int_eq(rdmabroker_bind_addr(listener, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(listener, T), 0);
	ck_assert_int_eq(poll(p, 2, 0), 1);
	ck_assert_int_eq(p[0].revents, POLLIN);
	ck_assert_int_eq(rdmabroker_set_epoll(session, epolls[1]), 0);
	ck_assert_int_eq(poll(p, 2, 0), 1);
	ck_assert_int_eq(p[1].revents, POLLIN);
	take_awaited(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	ck_assert_int_eq(poll(p, 2, 0), 0);
	ck_assert_int_eq(rdmabroker_resolve_route(id, T), 0);
	ck_assert_int_eq(poll(p, 2, 0), 1);
	ck_assert_int_eq(rdmabroker_set_epoll(session, -1), 0);
	ck_assert_int_eq(poll(p, 2, 0), 0);
	take(session, RDMABROKER_EVENT_ROUTE_RESOLVED, id);
	rdmabroker_destroy_id_wait(id, T);
	expect_failure(rdmabroker_set_epoll(session, epolls[0] + 1000), EBADF, "set_epoll");
	expect_failure(rdmabroker_set_epoll(replies, epolls[0]), EINVAL, "NO_POLL");
	close(epolls[0]);
	close(epolls[1]);
}
END_TEST

/* A thread that blocks in the socket gets what another one has made. */
START_TEST(epoll_beside_a_thread_that_blocks)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_set_epoll(session, epoll), 0);
	for (int i = 0; i < 100; i++) {
		id = new_resolving(session);
		AWAIT_INPUT(epoll, "the address");
		take_awaited(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
		start_waiter(&waiters[0], wait_once);
		if (i % 2 == 0)
			await_sleep(&waiters[0]);
		ck_assert_int_eq(rdmabroker_resolve_route(id, T), 0);
		pthread_join(waiters[0].thread, NULL);
		ck_assert_int_eq(waiters[0].r, 0);
		take_awaited(session, RDMABROKER_EVENT_ROUTE_RESOLVED, id);
		ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
		expect_no_event(session);
	}
	close(epoll);
}
END_TEST

/* Threads */

static void on_signal(int sig)
{
}

START_TEST(signals)
{
	struct sigaction action = { .sa_handler = on_signal };

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_flags = SA_RESTART;
	ck_assert_int_eq(sigaction(SIGUSR2, &action, NULL), 0);
	start_waiter(&waiters[0], wait_once);
	await_sleep(&waiters[0]);
	pthread_kill(waiters[0].thread, SIGUSR1);
	pthread_join(waiters[0].thread, NULL);
	ck_assert_int_eq(waiters[0].r, -EINTR);

	start_waiter(&waiters[0], wait_once);
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
		start_waiter(&waiters[i], wait_once);
		await_sleep(&waiters[i]);
	}
	for (int i = 0; i < 2; i++) {
		pthread_cancel(waiters[i].thread);
		pthread_join(waiters[i].thread, &result);
		ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	}
	start_waiter(&waiters[2], wait_once);
	await_sleep(&waiters[2]);
	end_wait(&waiters[2]);
}
END_TEST

/* While a thread blocks, the others get EAGAIN if the flag is set meanwhile. */
/* A thread that is cancelled in the moment in which it has received an event leaves it to the others. */
START_TEST(threads_that_are_cancelled_with_an_event)
{
	for (int i = 0; i < 2000; i++) {
		struct rdmabroker_event *event;
		struct rdmabroker_id *id;

		start_waiter(&waiters[0], wait_once);
		await_sleep(&waiters[0]);
		id = new_resolving(session);
		pthread_cancel(waiters[0].thread);
		pthread_join(waiters[0].thread, NULL);
		ck_assert_int_eq(rdmabroker_get_event(session, 20000, &event), 0);
		ck_assert_ptr_eq(event->id, id);
		rdmabroker_free_event(event);
		ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
	}
}
END_TEST

START_TEST(flag_that_is_set_while_a_thread_blocks)
{

	start_waiter(&waiters[0], wait_once);
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

/* No event is lost, and none is taken twice, while others call and destroy. */
START_TEST(threads_that_take_events)
{
	struct rdmabroker_id *ids[N_EVENTS], *id;
	int value;

	n_left = N_EVENTS;
	for (int i = 0; i < 4; i++)
		start_waiter(&waiters[i], take_many);
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
			start_waiter(&waiters[i], call_often);
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
		start_waiter(&waiters[i], call_often);
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

UNIT_MAIN("apart", set_up_apart, tear_down_apart, one_descriptor, replies_do_not_make_it_readable,
	  readable_for_a_route, route_without_polling, events_of_a_destroyed_id,
	  number_that_is_used_again, many_calls_without_a_reply, events_that_fill_the_socket,
	  descriptor_that_does_not_block, descriptor_in_five_epolls, epoll_of_the_program,
	  epoll_beside_a_thread_that_blocks, signals, threads_that_are_cancelled,
	  threads_that_are_cancelled_with_an_event, flag_that_is_set_while_a_thread_blocks,
	  threads_that_take_events, threads_that_call, threads_that_call_when_the_broker_ends)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dropin.h"

#define ROUNDS 4

static void in_threads(void *(*run)(void *), void *arg)
{
	pthread_t threads[N_THREADS];

	for (int i = 0; i < N_THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, run, arg) == 0);
	for (int i = 0; i < N_THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Each thread has its own channel and ids. */

static void *connect_rounds(void *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	CHECK(channel);
	for (int i = 0; i < ROUNDS; i++)
		disconnect(connect_new(channel));
	rdma_destroy_event_channel(channel);
	return NULL;
}

void case_own_channels(void)
{
	struct server server;

	server_start(&server);
	in_threads(connect_rounds, NULL);
	server_stop(&server);
}

/* All threads share a channel: each takes events of any id. */

static struct rdma_event_channel *shared;
static atomic_int rounds_left;

static void step(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		CHECK(rdma_resolve_route(id, PATIENCE_MS) == 0);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		make_qp(id);
		CHECK(rdma_connect(id, &param) == 0);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		CHECK(rdma_disconnect(id) == 0);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_destroy_qp(id);
		CHECK(rdma_destroy_id(id) == 0);
		atomic_fetch_sub(&rounds_left, 1);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "%s\n", rdma_event_str(type));
		CHECK(false);
	}
}

static void *share_rounds(void *arg)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	for (int i = 0; i < ROUNDS; i++) {
		CHECK(rdma_create_id(shared, &id, NULL, RDMA_PS_TCP) == 0);
		CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, PATIENCE_MS) == 0);
	}
	while (atomic_load(&rounds_left) > 0) {
		struct pollfd p = { .fd = shared->fd, .events = POLLIN };

		CHECK(poll(&p, 1, 100) >= 0);
		if (rdma_get_cm_event(shared, &event) < 0) {
			CHECK(errno == EAGAIN);
			continue;
		}
		id = event->id;
		type = event->event;
		/*
		 * rdma_destroy_id() waits until all events of the id are acked, so DISCONNECTED is acked before
		 * step() destroys the id. Other events are acked after step() has used the id.
		 */
		if (type == RDMA_CM_EVENT_DISCONNECTED)
			CHECK(rdma_ack_cm_event(event) == 0);
		step(id, type);
		if (type != RDMA_CM_EVENT_DISCONNECTED)
			CHECK(rdma_ack_cm_event(event) == 0);
	}
	return NULL;
}

static void set_nonblock(int fd)
{
	CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

void case_one_channel(void)
{
	struct server server;

	server_start(&server);
	shared = rdma_create_event_channel();
	CHECK(shared);
	set_nonblock(shared->fd);
	rounds_left = N_THREADS * ROUNDS;
	in_threads(share_rounds, NULL);
	rdma_destroy_event_channel(shared);
	server_stop(&server);
}

/* rdma_destroy_id() blocks until another thread has acked the id's event. */

static atomic_bool acked;

static void *ack_later(void *arg)
{
	poll(NULL, 0, 300);
	atomic_store(&acked, true);
	CHECK(rdma_ack_cm_event(arg) == 0);
	return NULL;
}

void case_ack_elsewhere(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, PATIENCE_MS) == 0);
	CHECK(rdma_get_cm_event(channel, &event) == 0);
	CHECK(event->id == id && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	atomic_store(&acked, false);
	CHECK(pthread_create(&thread, NULL, ack_later, event) == 0);
	CHECK(rdma_destroy_id(id) == 0);
	CHECK(atomic_load(&acked));
	CHECK(pthread_join(thread, NULL) == 0);
	rdma_destroy_event_channel(channel);
}

static bool is_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static atomic_bool calling;

static void *make_calls(void *arg)
{
	struct rdma_cm_id *id;

	while (atomic_load(&calling)) {
		CHECK(rdma_create_id(arg, &id, NULL, RDMA_PS_TCP) == 0);
		CHECK(rdma_destroy_id(id) == 0);
	}
	return NULL;
}

void case_poll(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	struct rdma_cm_event *event;
	struct server server;
	struct rdma_cm_id *id;
	pthread_t thread;
	int epoll = epoll_create1(0);

	/*
	 * Calls of other threads do not make the descriptor readable: a program that finds it readable gets an event
	 * without waiting.
	 */
	atomic_store(&calling, true);
	CHECK(pthread_create(&thread, NULL, make_calls, channel) == 0);
	CHECK(!is_readable(channel->fd, 700));
	atomic_store(&calling, false);
	CHECK(pthread_join(thread, NULL) == 0);

	server_start(&server);
	id = connect_new(channel);
	CHECK(!is_readable(channel->fd, 0));
	set_nonblock(channel->fd);
	CHECK(rdma_get_cm_event(channel, &event) < 0 && errno == EAGAIN);
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &e) == 0);
	CHECK(epoll_wait(epoll, &e, 1, 0) == 0);
	CHECK(rdma_disconnect(id) == 0);
	CHECK(epoll_wait(epoll, &e, 1, PATIENCE_MS) == 1);
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
	close(epoll);
	rdma_destroy_event_channel(channel);
	server_stop(&server);
}

/* Without SA_RESTART, a signal ends the wait. */

static atomic_int signals;

static void on_signal(int number)
{
	atomic_fetch_add(&signals, 1);
}

static void *send_signals(void *arg)
{
	pthread_t *to = arg;

	for (int i = 0; i < 3; i++) {
		poll(NULL, 0, 100);
		pthread_kill(*to, SIGUSR1);
	}
	return NULL;
}

void case_signal(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t self = pthread_self(), thread;
	struct rdma_cm_event *event;

	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, send_signals, &self) == 0);
	CHECK(rdma_get_cm_event(channel, &event) < 0 && errno == EINTR);
	CHECK(atomic_load(&signals) == 1);
	CHECK(pthread_join(thread, NULL) == 0);
	rdma_destroy_event_channel(channel);
}

/* A thread that waits on a destroyed channel gets no error, which would end the program: it waits for ever. */

static atomic_int late;

static void *come_late(void *channel)
{
	struct rdma_cm_event *event;

	atomic_store(&late, gettid());
	rdma_get_cm_event(channel, &event);
	atomic_store(&late, 0);
	return NULL;
}

/* Returns the system call in which the thread TID waits; -1: none. */
static long system_call(int tid)
{
	char path[64];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "r");
	CHECK(file);
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

void case_late(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	pthread_t thread;

	rdma_destroy_event_channel(channel);
	CHECK(pthread_create(&thread, NULL, come_late, channel) == 0);
	while (!atomic_load(&late) || system_call(atomic_load(&late)) != SYS_pause)
		sched_yield();
	CHECK(atomic_load(&late));
}

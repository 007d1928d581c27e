/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/unit/unit.h"

/* Threads of a program that share a session. The test acts as the broker, so that it can refuse to read. */

#define N_IDS 2000 /* requests about this many ids do not fit into a socket */
#define N_EVENTS 2000 /* this many events do not fit into a socket */
#define CALL_MS (2 * PATIENCE_MS) /* a call that waits for ever is found by join() */

static char path[64];
static int listener = -1, broker = -1;
static struct rdmabroker *session;
static struct rdmabroker_id *ids[N_IDS];
static pid_t tids[2];

static void send_frame(Rdmabroker__Frame *frame)
{
	uint8_t buf[512];
	size_t n = rdmabroker__frame__pack(frame, buf);

	ck_assert_int_eq(send(broker, buf, n, MSG_NOSIGNAL), n);
}

static void send_event(void)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;

	event.id = 1;
	event.type = RDMABROKER_EVENT_ADDR_CHANGE;
	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = &event;
	send_frame(&frame);
}

static void *greet(void *arg)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__HelloResult hello = RDMABROKER__HELLO_RESULT__INIT;
	uint8_t buf[512];

	broker = accept(listener, NULL, NULL);
	ck_assert_int_ge(broker, 0);
	ck_assert_int_gt(recv(broker, buf, sizeof(buf), 0), 0);
	hello.version = 1;
	hello.max_ids = N_IDS;
	reply.serial = 1;
	reply.result_case = RDMABROKER__REPLY__RESULT_HELLO;
	reply.hello = &hello;
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	send_frame(&frame);
	return NULL;
}

static void set_up(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = path,
		.flags = RDMABROKER_FAIL_BY_EVENT,
		.call_timeout_ms = CALL_MS,
	};
	pthread_t thread;

	snprintf(path, sizeof(path), "/tmp/rdmabroker-threads-%d", getpid());
	strcpy(addr.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	pthread_create(&thread, NULL, greet, NULL);
	ck_assert_int_eq(rdmabroker_open(&options, &session), 0);
	pthread_join(thread, NULL);
	for (int i = 0; i < N_IDS; i++)
		ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &ids[i]),
				 0);
}

static void tear_down(void)
{
	close(broker);
	rdmabroker_close(session);
	close(listener);
	unlink(path);
}

/* Waits until thread I sleeps. */
static void await_sleep(int i)
{
	char name[64], text[256], state = 0;
	FILE *f;

	do {
		sched_yield();
		snprintf(name, sizeof(name), "/proc/self/task/%d/stat",
			 __atomic_load_n(&tids[i], __ATOMIC_ACQUIRE));
		f = fopen(name, "re");
		if (!f)
			continue;
		if (fgets(text, sizeof(text), f))
			sscanf(strrchr(text, ')'), ") %c", &state);
		fclose(f);
	} while (state != 'S');
}

static void *take_event(void *arg)
{
	struct rdmabroker_event *event;

	__atomic_store_n(&tids[0], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	ck_assert_int_eq(rdmabroker_get_event(session, CALL_MS, &event), 0);
	rdmabroker_free_event(event);
	return NULL;
}

static void *resolve_all(void *arg)
{
	const struct sockaddr_in dst = {
		.sin_family = AF_INET,
		.sin_port = htons(7471),
		.sin_addr.s_addr = htonl(0x0a090001),
	};

	__atomic_store_n(&tids[1], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	for (int i = 0; i < N_IDS; i++)
		ck_assert_int_eq(rdmabroker_resolve_addr(ids[i], NULL,
							 (const struct sockaddr *)&dst, 1000),
				 0);
	return NULL;
}

static void *serve(void *arg)
{
	uint8_t buf[512];

	for (int i = 0; i < N_EVENTS; i++)
		send_event();
	for (int i = 0; i < N_IDS; i++)
		ck_assert_int_gt(recv(broker, buf, sizeof(buf), 0), 0);
	return NULL;
}

static void join(pthread_t thread)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	if (pthread_timedjoin_np(thread, NULL, &end) != 0)
		WAITED("the end of a thread");
}

/*
 * A thread that waits for room in the socket must read the broker's packets, because only then the broker reads
 * requests. The thread that waited for an event does not call again.
 */
START_TEST(a_thread_that_waits_for_room_reads)
{
	pthread_t taker, resolver, server;

	pthread_create(&taker, NULL, take_event, NULL);
	await_sleep(0);
	pthread_create(&resolver, NULL, resolve_all, NULL);
	await_sleep(1);
	send_event();
	join(taker);
	pthread_create(&server, NULL, serve, NULL);
	join(resolver);
	join(server);
}
END_TEST

UNIT_MAIN("library threads", set_up, tear_down, a_thread_that_waits_for_room_reads)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/apart.h"

struct rdmabroker *replies, *session, *other;

struct rdmabroker *open_apart(void)
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

void set_up_apart(void)
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

void tear_down_apart(void)
{
	rdmabroker_close(session);
	rdmabroker_close(other);
	rdmabroker_close(replies);
	tear_down();
}

bool is_readable(struct rdmabroker *one)
{
	struct pollfd p = { rdmabroker_get_fd(one), POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

void await_readable(struct rdmabroker *one)
{
	AWAIT_INPUT(rdmabroker_get_fd(one), "an event");
}

struct rdmabroker_id *new_id(struct rdmabroker *of)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(of, RDMABROKER_PS_TCP, NULL, &id), 0);
	return id;
}

struct rdmabroker_id *new_resolving(struct rdmabroker *of)
{
	struct rdmabroker_id *id = new_id(of);

	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(7471), T), 0);
	return id;
}

void take_awaited(struct rdmabroker *of, enum rdmabroker_event_type type, struct rdmabroker_id *id)
{
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_get_event(of, 0, &event), 0);
	ck_assert_str_eq(rdmabroker_event_str(event->type), rdmabroker_event_str(type));
	ck_assert_ptr_eq(event->id, id);
	rdmabroker_free_event(event);
}

void take(struct rdmabroker *of, enum rdmabroker_event_type type, struct rdmabroker_id *id)
{
	await_readable(of);
	ck_assert_int_eq(rdmabroker_await_event(of), 0);
	take_awaited(of, type, id);
}

void set_nonblocking(struct rdmabroker *of, bool on)
{
	ck_assert_int_eq(fcntl(rdmabroker_get_fd(of), F_SETFL, on ? O_NONBLOCK : 0), 0);
}

void expect_no_event(struct rdmabroker *of)
{
	struct rdmabroker_event *event;

	ck_assert(!is_readable(of));
	ck_assert_int_eq(rdmabroker_get_event(of, 0, &event), -EAGAIN);
}

struct waiter waiters[4];

void note_tid(struct waiter *waiter)
{
	__atomic_store_n(&waiter->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

void await_sleep(const struct waiter *waiter)
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

void *wait_once(void *arg)
{
	struct waiter *waiter = arg;

	note_tid(waiter);
	waiter->r = rdmabroker_await_event(session);
	return NULL;
}

void start_waiter(struct waiter *waiter, void *(*run)(void *arg))
{
	*waiter = (struct waiter){ 0 };
	ck_assert_int_eq(pthread_create(&waiter->thread, NULL, run, waiter), 0);
}

void end_wait(struct waiter *waiter)
{
	struct rdmabroker_id *id = new_resolving(session);

	pthread_join(waiter->thread, NULL);
	ck_assert_int_eq(waiter->r, 0);
	take_awaited(session, RDMABROKER_EVENT_ADDR_RESOLVED, id);
	rdmabroker_destroy_id_wait(id, T);
}

void shut_down(struct rdmabroker *one)
{
	ck_assert_int_eq(shutdown(rdmabroker_get_fd(one), SHUT_RDWR), 0);
}

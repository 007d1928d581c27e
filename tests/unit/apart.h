/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Two sessions whose replies come by a third one, in the harness, and threads that wait for their events. */

#include <pthread.h>
#include <sys/types.h>

#include "tests/unit/harness.h"

extern struct rdmabroker *replies, *session, *other;

void set_up_apart(void);
void tear_down_apart(void);
struct rdmabroker *open_apart(void); /* one more */

bool is_readable(struct rdmabroker *one);
void await_readable(struct rdmabroker *one);
void set_nonblocking(struct rdmabroker *of, bool on); /* its descriptor */
void shut_down(struct rdmabroker *one); /* its descriptor, so that the session is lost */

struct rdmabroker_id *new_id(struct rdmabroker *of);
struct rdmabroker_id *new_resolving(struct rdmabroker *of); /* its ADDR_RESOLVED comes */
/* Takes the event that a thread has waited for. */
void take_awaited(struct rdmabroker *of, enum rdmabroker_event_type type, struct rdmabroker_id *id);
/* Takes the event as a program does that has polled. */
void take(struct rdmabroker *of, enum rdmabroker_event_type type, struct rdmabroker_id *id);
void expect_no_event(struct rdmabroker *of);

struct waiter {
	pthread_t thread;
	pid_t tid;
	int r;
	unsigned n_taken;
};
extern struct waiter waiters[4];

void start_waiter(struct waiter *waiter, void *(*run)(void *waiter)); /* RUN calls note_tid() */
void note_tid(struct waiter *waiter);
void await_sleep(const struct waiter *waiter); /* until the thread sleeps in the kernel */
void *wait_once(void *waiter); /* for start_waiter(): rdmabroker_await_event() of SESSION */
void end_wait(struct waiter *waiter); /* an event comes for the thread that waits */

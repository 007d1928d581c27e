/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The connection to the broker: its socket, the descriptor that programs poll, and the lock, which guards everything
 * in the session, on all floors. What is received goes to the floors above through an ops table.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "proto/rdmabroker.pb-c.h"

struct call;

/* A call with several requests may take this many times call_timeout_ms, even if the broker is hostile. */
#define ROUNDS_MAX 6

/*
 * Called with the lock held, which they must not release. A negative errno: the session cannot go on, because a thread
 * may wait for what was lost, or because the other end does not follow the protocol.
 */
struct wire_ops {
	/* FRAME, an event, is handed over. */
	int (*on_event)(void *userdata, Rdmabroker__Frame *frame);
	/* FRAME, a notice for admins, is handed over. */
	void (*on_notice)(void *userdata, Rdmabroker__Frame *frame);
	/* REPLY NULL: the broker did not reply, because CALL succeeded. */
	int (*on_outcome)(void *userdata, struct call *call, const Rdmabroker__Reply *reply);
	/* Whether there is something that the program can take, apart from the loss of the connection. */
	bool (*has_news)(void *userdata);
};

struct wire {
	const struct wire_ops *ops;
	void *userdata;
	pid_t pid; /* of the process that opened the session */
	int call_timeout_ms;

	pthread_mutex_t lock;
	pthread_cond_t cond; /* something was received, or no thread reads the socket any more */
	bool reading; /* a thread polls the socket, without the lock */
	unsigned n_waiting; /* threads that wait for the answer to a call */

	int sock; /* -1: not connected yet */
	int signal; /* eventfd: readable while there is news */
	bool signalled;
	int epoll; /* of SOCK and SIGNAL: the descriptor that programs get */
	bool polled; /* a program has got EPOLL: until then SIGNAL is not kept up to date */
	int dead; /* negative errno, why the connection is lost; 0: it is not */

	uint32_t serial;
	uint64_t n_sent;
	TAILQ_HEAD(, call) calls; /* see pending.h */
	unsigned n_unanswered; /* of CALLS: the broker replies only if they fail */
};

/* Without descriptors yet. */
void wire_init(struct wire *wire, const struct wire_ops *ops, void *userdata, int call_timeout_ms);
/* Closes the descriptors. The calls were freed before, see pending_free_all(). */
void wire_done(struct wire *wire);

/*
 * Use these instead of pthread's own: they keep the session's descriptor, once a program has it, readable
 * exactly while something waits to be taken.
 */
void wire_lock(struct wire *wire);
void wire_unlock(struct wire *wire);
void wire_wait(struct wire *wire);
int wire_wait_until(struct wire *wire, int64_t deadline); /* 0, or -ETIMEDOUT */
/* Wake all threads that wait. Lock held. */
void wire_wake(struct wire *wire);

/* The program polls the session's descriptor from now on. Lock held. */
void wire_be_polled(struct wire *wire);
/* N more threads wait for the answer to a call. Lock held. */
void wire_count_waiting(struct wire *wire, int n);

/* Give the session up because of R. Lock held. */
void wire_die(struct wire *wire, int r);
/* The same without the lock. */
void wire_lose(struct wire *wire, int r);
/* -ECONNRESET: the broker is gone; else 0. Lock held. */
int wire_check(struct wire *wire);
/* -EPERM in a child of the process that opened the session. Call it before locking: the child's lock may be stuck. */
int wire_check_process(const struct wire *wire);

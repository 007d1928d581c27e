/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The connection to the broker: it exchanges packets, and matches replies with calls. What it receives goes to the
 * floors above through an ops table. Its lock guards everything in the session, on all floors.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "client/frame.h"
#include "client/rdmabroker.h"

struct rdmabroker_id;

/* A call with several requests may take this many times call_timeout_ms, even if the broker is hostile. */
#define ROUNDS_MAX 6
/*
 * A wait goes on past its deadline as long as there are packets in the socket, for the one that it waits for
 * may be among them, but at most this long.
 */
#define GRACE_MS 500

struct call {
	TAILQ_ENTRY(call) link; /* wire.calls */
	uint32_t serial;
	const char *name;
	uint32_t handle; /* of the id that it is about; 0: none */
	bool waited; /* a thread waits, and owns this struct; else the receiver frees it */
	bool quiet; /* not waited: no DONE on success, because the outcome is another event */
	bool silent; /* not waited: no event, neither on success nor on failure */
	bool destroys; /* the answer frees HANDLE's number */
	/*
	 * The broker replies only on failure. Success is known from the answer to a call that was sent later,
	 * or from an event.
	 */
	bool unanswered;
	bool answered; /* not waited: the broker has to reply on success too */
	bool refused; /* waited, and failed */
	bool creates; /* the request also creates HANDLE's id, unless it fails */
	bool listed; /* in wire.calls: no answer came yet */
	uint64_t order; /* of sending; 0: not sent yet */
	enum rdmabroker_event_type failure_type; /* not waited: the event that reports a failure */
	bool done;
	Rdmabroker__Frame *frame; /* the reply, once done */
	const int *send_fd; /* sent with the request; NULL: none */
	int *ret_fd; /* gets the descriptor that comes with the reply; NULL: none is expected */
	bool imports; /* an id: its reply sets IMPORTED, or NO_IMPORT to the error */
	struct rdmabroker_id *imported;
	int no_import; /* negative errno */
};

/*
 * Called with the lock held. They must not release it. A negative errno: the session cannot go on, because a thread
 * may wait for what was lost, or because the other end does not follow the protocol.
 */
struct wire_ops {
	/* FRAME, an event, is handed over. */
	int (*on_event)(void *userdata, Rdmabroker__Frame *frame);
	/* FRAME, a notice for admins, is handed over. */
	void (*on_notice)(void *userdata, Rdmabroker__Frame *frame);
	/* REPLY NULL: the broker did not reply, because CALL succeeded. CALL is freed afterwards unless it is waited. */
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
	TAILQ_HEAD(, call) calls;
	unsigned n_unanswered; /* of CALLS */
};

/* Without descriptors yet. */
void wire_init(struct wire *wire, const struct wire_ops *ops, void *userdata, int call_timeout_ms);
void wire_done(struct wire *wire);

/*
 * Use these instead of pthread's own: they keep the session's descriptor, once a program has it, readable
 * exactly while something waits to be taken.
 */
void wire_lock(struct wire *wire);
void wire_unlock(struct wire *wire);
void wire_wait(struct wire *wire);
/* Wakes all threads that wait. Lock held. */
void wire_wake(struct wire *wire);
/* The program polls the session's descriptor from now on. Lock held. */
void wire_be_polled(struct wire *wire);
/* Give the session up because of R. Not under the lock. */
void wire_lose(struct wire *wire, int r);
/* -ECONNRESET: the broker is gone; else 0. Lock held. */
int wire_check(struct wire *wire);
/* -EPERM in a child of the process that opened the session. Call it before locking: the child's lock may be stuck. */
int wire_check_process(const struct wire *wire);

/* The broker uses HANDLE for a new id: so an unanswered destroy_id of the old one has succeeded. Lock held. */
void wire_handle_is_free(struct wire *wire, uint32_t handle);

/* Receive the next packet, or wait for one until DEADLINE. Lock held. -ETIMEDOUT, or -ECONNRESET. */
int wire_pump(struct wire *wire, int64_t deadline);
/* Whether a wait has to end without its result. LOOKED: the socket was found empty. */
bool wire_is_past(int64_t deadline, bool looked);
/* Receive the packets that the socket has already. Lock held. */
void wire_drain(struct wire *wire);

/* Requests. REQUEST's serial is filled in. RET may be NULL; the caller has to free *RET. */

/* Send, and wait for the answer, at most TIMEOUT_MS. */
int wire_call(struct wire *wire, const char *name, Rdmabroker__Request *request, int timeout_ms,
	      Rdmabroker__Frame **ret);
/* The same with the session's timeout, for an answer of kind RESULT; any other kind is -EPROTO. */
int wire_call_for(struct wire *wire, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret);
/* The same as wire_call_for(), within TIMEOUT_MS. */
int wire_call_within(struct wire *wire, const char *name, Rdmabroker__Request *request,
		     Rdmabroker__Reply__ResultCase result, int timeout_ms, Rdmabroker__Frame **ret);
/* wire_call() with further members of LIKE set by the caller. LIKE is used for the call itself. */
int wire_call_like(struct wire *wire, struct call *like, Rdmabroker__Request *request,
		   int timeout_ms, Rdmabroker__Frame **ret);
/* Send without waiting; the answer is handled as the members of LIKE say. TIMEOUT_MS is for room in the socket. */
int wire_post(struct wire *wire, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms);

/*
 * The parts of these, with the lock held: their caller locks, for what has to happen under the same lock as the
 * sending. CALL's order is 0 afterwards if it was not sent.
 */

/* Send, and wait for the answer. Once it returned 0 wire_take_reply() returns the answer, also without the lock. */
int wire_exchange(struct wire *wire, struct call *call, Rdmabroker__Request *request,
		  int timeout_ms);
int wire_take_reply(struct call *call, Rdmabroker__Frame **ret);
/*
 * Send; the outcome is an event, or a failure that wire_end() returns. CALL has to stay valid until wire_end(). It is
 * ended already if this fails.
 */
int wire_begin(struct wire *wire, struct call *call, Rdmabroker__Request *request, int timeout_ms);
/* 0: no failure has come. */
int wire_end(struct wire *wire, struct call *call);
/* Send without waiting, see wire_post(). */
int wire_send(struct wire *wire, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms);

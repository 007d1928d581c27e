/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The connection to the broker: its socket, the descriptor that programs poll, and the lock, which guards the whole
 * session, in all layers. Received packets go to the layers above through an ops table.
 *
 * A wire can be direct: its replies come by the wire of another session, and share that one's lock. Then programs poll
 * the socket itself, because it has only events, or an epoll instance of their own. For each time that it is readable there
 * is an event:
 *
 *   - If events were received that the program has not taken, or were made by the library, the bell makes the program's
 *     epoll instance readable. If there is none, or a thread reads the socket, the broker is requested to send a packet
 *     that only makes the socket readable (Wake). WOKEN is true until that packet is received.
 *   - While WOKEN is true, the last event that is left is taken together with that packet, if the packet is there. If it
 *     is not, the program has not polled, and gets the event at once. The packet is received after the next request.
 *   - Events of destroyed ids are received, and dropped, before the call that destroys returns, see pump_catch_up().
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/lib/wire/forkmark.h"
#include "client/lib/wire/ownfd.h"
#include "proto/rdmabroker.pb-c.h"

struct call;
struct rdmabroker;

#define START_MS 100 /* for an answer, see RDMABROKER_AT_START */
/*
 * A call that gets a list sends its last request at most this long after its begin; in multiples of call_timeout_ms, or of
 * START_MS.
 */
#define ROUNDS_MAX 6

/*
 * The functions are called with the lock held, and must not release it. A negative errno: the session cannot go on,
 * because something was lost that a thread can be waiting for, or because the broker does not follow the protocol.
 */
struct wire_ops {
	/* Takes ownership of FRAME, an event. */
	int (*on_event)(struct rdmabroker *session, Rdmabroker__Frame *frame);
	/* Takes ownership of FRAME, a notice for observers. */
	void (*on_notice)(struct rdmabroker *session, Rdmabroker__Frame *frame);
	/* CALL has ended with REPLY. REPLY NULL: the broker did not reply, because CALL succeeded. */
	int (*on_outcome)(struct rdmabroker *session, struct call *call,
			  const Rdmabroker__Reply *reply);
	/* Whether there is something that the program can take, apart from the loss of the connection. */
	bool (*has_news)(const struct rdmabroker *session);
	/* Of a direct wire, before the lock is released: see blocking_settle(). */
	void (*settle)(struct rdmabroker *session);
};

struct wire {
	const struct wire_ops *ops;
	struct rdmabroker *session;
	struct fork_mark fork_mark; /* of the process that opened the session */
	int call_timeout_ms;

	struct wire
		*replies; /* the wire by which the replies come: this one, unless it is direct */
	pthread_mutex_t *lock, own_lock; /* LOCK: that of REPLIES */
	pthread_cond_t cond; /* broadcast when something that a thread can wait for has happened */
	bool reading; /* a thread polls the socket, or blocks in it, with the lock released */
	bool blocking; /* it blocks, so that it can have a packet that was not handled yet */
	int block_ms; /* the longest time that it blocks; 0: nobody may block, and -1: there is no limit */
	unsigned n_waiting; /* threads that wait for the answer to a call */

	struct ownfd sock; /* none: not connected yet */
	/* Always readable: a socket whose peer is closed. Direct wires use that of REPLIES. */
	struct ownfd bell;
	bool rings; /* EPOLL watches the bell, because there is news */
	/* Watches SOCK; the descriptor that programs get, or of a direct wire the program's own; -1: none */
	int epoll;
	bool polled; /* a program has got EPOLL, or SOCK: until then BELL is not kept up to date */
	bool unwatched; /* memory ran out, so EPOLL does not watch SOCK, and the bell rings */
	int dead; /* negative errno, why the connection is lost; 0: it is not */
	uint8_t *
		packet; /* room for the packet that is received, PACKET_MAX bytes: threads can have small stacks */

	/* Of a direct wire: */
	bool trusts; /* RDMABROKER_TRUST_FD */
	bool woken; /* see above */
	bool ahead; /* the last event was taken without the packet, and no request was sent since */
	uint32_t n_received; /* packets, modulo 2^32 */
	/* what the last reply has said: so many packets were sent before it, and it answers the call SETTLES */
	uint32_t n_told;
	uint64_t settles; /* 0: the calls before it are settled */
	uint64_t answered; /* that call, also when those before it are settled */

	uint32_t serial; /* of a direct wire: for calls whose reply comes by its own socket */
	uint64_t n_sent;
	TAILQ_HEAD(, call) calls; /* see pending.h */
	unsigned n_unanswered; /* how many of CALLS the broker answers only if they fail */
};

/* Initialize WIRE. Its descriptors are opened later. PACKET: see wire.packet. */
void wire_init(struct wire *wire, const struct wire_ops *ops, struct rdmabroker *session,
	       int call_timeout_ms, uint8_t *packet);
/* WIRE, which no other thread uses yet, becomes direct. REPLIES must outlive it. */
void wire_be_direct(struct wire *wire, struct wire *replies);
static inline bool wire_is_direct(const struct wire *wire)
{
	return wire->replies != wire;
}
/* Close the descriptors. The caller has freed the calls before, see pending_free_all(). */
void wire_done(struct wire *wire);

/*
 * Use these instead of pthread's own functions. Once the program has the session's descriptor, they keep it readable
 * exactly while there is something that the program can take.
 */
void wire_lock(struct wire *wire);
void wire_unlock(struct wire *wire);
void wire_wait(struct wire *wire);
int wire_wait_until(struct wire *wire, int64_t deadline); /* 0, or -ETIMEDOUT */
/* As wire_wait(). Cancellation is disabled, except with CANCEL_STATE during the wait. */
void wire_wait_cancellable(struct wire *wire, int cancel_state);
/*
 * Wake the threads that wait for something to happen, and, if no thread reads the socket, one of those that wait for
 * replies, to read it. Each reply wakes the thread that waits for it. Lock held.
 */
void wire_wake(struct wire *wire);
/* Wait until CALL is answered, or its thread is to read the socket. 0, or -ETIMEDOUT. Lock held. */
int wire_wait_for_call(struct wire *wire, struct call *call, int64_t deadline);

/* Make the bell, if there is none. 0, or a negative errno. */
int wire_make_bell(struct wire *wire);
/*
 * EPOLL, an epoll instance of the program, is readable from now on while there is an event; the last one is not any more.
 * -1: only that. 0, or a negative errno; -EBADF: the socket is not ours any more. Lock held.
 */
int wire_set_epoll(struct wire *wire, int epoll);
/* The descriptor that the library makes for programs to poll; -1: none. */
static inline int wire_get_fd(const struct wire *wire)
{
	return wire_is_direct(wire) ? wire->sock.fd : wire->epoll;
}

/* The program polls the session's descriptor from now on. Lock held. */
void wire_be_polled(struct wire *wire);
/* N more threads wait for the reply to a call; N negative: fewer. Lock held. */
void wire_count_waiting(struct wire *wire, int n);

/* Give the session up because of R, a negative errno. Lock held. */
void wire_die(struct wire *wire, int r);
/* -ECONNRESET: the connection is lost; else 0. Lock held. */
int wire_check(struct wire *wire);
/*
 * Like wire_check(), but also looks whether the socket is still ours. If not, the connection is lost, and none of the
 * descriptors is used any more. With RDMABROKER_TRUST_FD only wire_check_own() looks. Lock held.
 */
int wire_check_socket(struct wire *wire);
int wire_check_own(struct wire *wire);
static inline bool wire_is_in_child(const struct wire *wire)
{
	return fork_mark_is_child(&wire->fork_mark);
}

/*
 * -EPERM in a child of the process that opened the session, else 0. Call it before locking: in the child the lock can
 * be a copy that was made while a thread of the parent held it, and that is never released.
 */
int wire_check_process(const struct wire *wire);

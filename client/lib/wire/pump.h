/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Receives packets. One thread at a time reads the socket, for all threads. The functions need the lock, unless their
 * comment says otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

struct wire;

/*
 * Wait until this or another thread has received a packet, at most until DEADLINE; the lock is released during
 * the wait.
 * Returns 0 also if the wait was interrupted; -ETIMEDOUT: no packet came; -ECONNRESET: the session is lost.
 */
int pump_packet(struct wire *wire, int64_t deadline);
/*
 * Like pump_packet(), but does not check whether the session is lost. EVENTS: POLLIN, and POLLOUT to wait for room in
 * the socket as well.
 */
int pump_poll(struct wire *wire, short events, int64_t deadline);
/* Receive one packet, if there is one. Of a direct wire, and no other thread reads. */
bool pump_try(struct wire *wire);
/*
 * Wait in one system call, as the O_NONBLOCK flag of the socket and wire.block_ms say, until this thread has received a
 * packet. No other thread may read. Cancellation is disabled, except with CANCEL_STATE during the wait. Returns
 * 0; -EAGAIN; -EINTR: after a signal whose handler has no SA_RESTART; -ECONNRESET: the connection has ended, or another
 * negative errno, with which the session is lost.
 */
int pump_block(struct wire *wire, int cancel_state);
/*
 * Receive what the broker had sent before it replied to the last call. Does nothing if replies come by the same socket,
 * because then that was received before the reply.
 */
void pump_catch_up(struct wire *wire);
/* Receive the packets that are in the socket already. */
void pump_drain(struct wire *wire);
/*
 * Whether a wait until DEADLINE has to end without a result. LOOKED: the socket was found empty. Does not need the
 * lock.
 */
bool pump_is_past(int64_t deadline, bool looked);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Receiving. One thread at a time reads the socket, for all threads. With the lock held, unless said otherwise. */

#include <stdbool.h>
#include <stdint.h>

struct wire;

/* Receive the next packet, or wait for one until DEADLINE. -ETIMEDOUT, or -ECONNRESET. */
int pump_packet(struct wire *wire, int64_t deadline);
/* The same, also for a session that is lost. EVENTS: POLLIN, and POLLOUT to wait for room in the socket as well. */
int pump_poll(struct wire *wire, short events, int64_t deadline);
/* Receive the packets that the socket has already. */
void pump_drain(struct wire *wire);
/* Whether a wait has to end without its result. LOOKED: the socket was found empty. With the lock or without it. */
bool pump_is_past(int64_t deadline, bool looked);

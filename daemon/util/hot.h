/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The descriptors that are ready most often: those of clients, of the connection manager, and of threads that have done
 * their work. They stand in an epoll set of their own, and a turn handles up to HOT_MAX of them that are ready.
 *
 *   guest  The set is one source of the sd-event loop, so sd_event_run() handles it. So it begins, and stays in tests.
 *   host   The loop stands in the set, and hot_run() waits in the set. sd-event runs only if one of its own descriptors is
 *          ready or a timer was started, and a packet of a client costs one epoll_wait().
 *
 * There is one set for a loop. An epoll set reports first what has been ready longest.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

#define HOT_MAX 64
#define HOT_LATER_TURNS 16

struct hot;
struct hot_io;

/* False: the others that are ready wait for the next turn. May remove IO, and others. */
typedef bool (*hot_fn)(struct hot_io *io, uint32_t events);

/* Embedded in what is watched. All zero: not watched. */
struct hot_io {
	struct hot *hot; /* NULL: not watched */
	int fd;
	hot_fn on_ready;
	bool is_edge; /* edge-triggered: it is not told of again, so it does not wait for the next turn */
};

/* Embedded in what is called later. */
struct hot_later {
	struct list link; /* in the set's list while it is to be called; call list_init() first */
	void (*call)(struct hot_later *later);
};

/* The set of LOOP, which is made if there is none; NULL: there is no memory. Give it back with hot_unref(). */
struct hot *hot_ref(sd_event *loop);
struct hot *hot_unref(struct hot *hot); /* takes and returns NULL */

/* Watches FD, which stays the caller's, for the epoll events EVENTS, with EPOLLET or not. Returns 0 or a negative errno. */
int hot_add(struct hot *hot, struct hot_io *io, int fd, uint32_t events, hot_fn on_ready);
int hot_change(struct hot_io *io, uint32_t events); /* the same */
void hot_remove(struct hot_io *io); /* idempotent; to be called before the descriptor is closed */

/* The number of the turn: it grows by one with each turn of the set, and each hot_next_turn(). */
uint64_t hot_get_turn(const struct hot *hot);
/* A source of the loop begins something that counts as a turn of its own. */
void hot_next_turn(struct hot *hot);
/* Whether a descriptor of the set is ready, apart from those of the loop. */
bool hot_is_ready(const struct hot *hot);

/*
 * Calls LATER once when nothing was ready for a millisecond, or after HOT_LATER_TURNS turns: for what can wait a little, and
 * is done at once for many. If the set is the guest, calls it now.
 */
void hot_later(struct hot *hot, struct hot_later *later);
void hot_not_later(struct hot_later *later); /* idempotent */

/* From now on the set is the host, and hot_run() runs the loop. Returns 0 or a negative errno. */
int hot_be_host(struct hot *hot);
/* Waits at most TIMEOUT_MS (-1: without limit), and handles what is ready. Returns whether something was; or a negative errno. */
int hot_run(struct hot *hot, int timeout_ms);
int hot_get_fd(
	const struct hot
		*hot); /* readable when hot_run() has something to do, if the set is the host */

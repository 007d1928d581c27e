/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Runs the daemon and the library in one process and one thread, and controls their calls to the system. Each of the
 * two is linked into one object, in which the calls of malloc(), sendmsg(), poll() and so on are renamed
 * (daemon.symbols, client.symbols) to the functions here. Therefore
 *
 *   - the N-th call of a kind can be made to fail, on one side only,
 *   - the memory that each side holds is known, and must be none at the end,
 *   - when the library would wait, the daemon runs instead; if that brings nothing for the library, the clock is advanced
 *     to the library's deadline. Waits that end only by their deadline are counted, because then the daemon did not
 *     notify the client.
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

enum hook_side {
	HOOK_DAEMON,
	HOOK_CLIENT,
	_HOOK_SIDE_MAX,
};

enum hook_kind {
	HOOK_MEMORY, /* malloc() and its kin */
	HOOK_ACCEPT, /* accept4() */
	HOOK_SEND, /* sendmsg() */
	HOOK_RECEIVE, /* recvmsg() */
	HOOK_LOOP, /* sd_event_add_*(), epoll */
	HOOK_DESCRIPTOR, /* what makes or asks a descriptor: socket(), open(), fcntl() */
	HOOK_CM, /* fabric_*(), which stand for rdma_*() */
	HOOK_VERBS, /* ibv_*() */
	_HOOK_KIND_MAX,
};

const char *hook_side_to_string(enum hook_side side);
const char *hook_kind_to_string(enum hook_kind kind);

/* The N-th call from now on, from 1, fails with ERROR, a positive errno. N 0: none does. */
void hooks_arm(enum hook_side side, enum hook_kind kind, unsigned n, int error);
/* Whether the fault was met. Nothing fails from now on. */
bool hooks_disarm(void);

/* Counters start at 0, the memory held is forgotten. */
void hooks_reset(void);
unsigned hooks_count_calls(enum hook_side side, enum hook_kind kind);
/* Waits of the library that only the deadline ended. */
unsigned hooks_count_deadlines(void);

/* From now on what either side allocates is noted. */
void hooks_track_memory(void);
/* How many blocks SIDE holds; each is printed to stderr. */
unsigned hooks_print_memory(enum hook_side side);

/* free(3) for what the library has allocated and the caller has to free. */
void client_free(void *pointer);

/* The loop that the daemon made last; NULL: none. */
sd_event *hooks_get_loop(void);
/*
 * Run LOOP until it has nothing to do, and return how often it did something. The daemon's timers of up to
 * a second are due a thousand times earlier.
 */
unsigned hooks_run(sd_event *loop);

/* What the library's poll() does before it looks, and again as long as that returns true. */
void hooks_set_turn(bool (*turn)(void *userdata), void *userdata);
/* So much later is it by the library's clock. */
void hooks_pass_time(int ms);
/* Where the library's connect() leads to: -1 and errno, or 0. NULL: to where it says. */
void hooks_set_connect(int (*connect)(void *userdata, int fd), void *userdata);

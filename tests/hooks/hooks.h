/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Runs the daemon and the library in one process and one thread, and controls their calls to the system. Each of the
 * two is linked into one object, in which the calls of malloc(), sendmsg(), poll() and so on are renamed
 * (daemon.symbols, client.symbols) to the functions here. Therefore
 *
 *   - the N-th call of a kind can be made to fail, on one side only,
 *   - the memory that each side holds is known, so tests can check that it is none at the end,
 *   - when the library would wait, the daemon runs instead. If nothing for the library results from that, the clock
 *     advances to the library's deadline. Waits that end only by their deadline are counted, because then the daemon
 *     did not notify the client.
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
	HOOK_MEMORY, /* malloc() and similar functions */
	HOOK_ACCEPT, /* accept4() */
	HOOK_SEND, /* sendmsg() */
	HOOK_RECEIVE, /* recvmsg() */
	HOOK_LOOP, /* sd_event_new(), sd_event_add_*(), epoll, and the library's poll() */
	HOOK_DESCRIPTOR, /* socket(), open(), pthread_create() and other system calls */
	HOOK_CM, /* the fabric_*() that can fail, which wrap rdma_*() */
	HOOK_VERBS, /* ibv_*() */
	_HOOK_KIND_MAX,
};

const char *hook_side_to_string(enum hook_side side);
const char *hook_kind_to_string(enum hook_kind kind);

/* From now on the N-th call, counted from 1, fails with ERROR, a positive errno. N 0: no call fails. */
void hooks_arm(enum hook_side side, enum hook_kind kind, unsigned n, int error);
/* Returns whether the fault occurred. From now on no call fails. */
bool hooks_disarm(void);

/*
 * The N-th call of the daemon of any kind from now on, counted from 1, does not happen: KILL is called instead, which
 * must not return. Only calls of this thread count. N 0: never.
 */
void hooks_kill_at(unsigned n, void (*kill)(void));
/* Returns how many calls are left until then; 0: KILL was called. */
unsigned hooks_left_until_kill(void);

/* Sets the counters of calls and deadlines to 0, and forgets the daemon's loop and the blocks that were recorded. */
void hooks_reset(void);
unsigned hooks_count_calls(enum hook_side side, enum hook_kind kind);
/* Returns the number of the library's waits that ended only by their deadline. */
unsigned hooks_count_deadlines(void);

/* The library's traffic since hooks_start_counting(). */
struct hooks_traffic {
	unsigned packets; /* sent and received */
	/*
	 * Packets that the library receives without sending any in between count as one wait. So the count does not
	 * depend on whether a packet had arrived already.
	 */
	unsigned waits;
};
void hooks_start_counting(void);
/* The program begins another call, so the next packet that the library receives begins another wait. */
void hooks_begin_call(void);
struct hooks_traffic hooks_get_traffic(void);

/* From now on the allocations of both sides are recorded. */
void hooks_track_memory(void);
/* Prints each block that SIDE holds to stderr, and returns the number of blocks. */
unsigned hooks_print_memory(enum hook_side side);

/* Frees memory that the library has allocated and that the caller has to free. */
void client_free(void *pointer);

/* Returns the loop that the daemon created last; NULL: none. */
sd_event *hooks_get_loop(void);
/*
 * Runs LOOP until it has nothing to do, and returns the number of turns. Timers of the daemon of up to a second
 * expire a thousand times earlier.
 */
unsigned hooks_run(sd_event *loop);

/*
 * TURN lets the daemon run while the library waits: the library's poll() calls TURN until a descriptor is ready, or
 * until TURN returns false.
 */
void hooks_set_turn(bool (*turn)(void *userdata), void *userdata);
/* Advances the library's clock by MS. */
void hooks_pass_time(int ms);
/*
 * CONNECT replaces the library's connect(). It returns 0, or -1 with errno set. NULL: the real connect() is called.
 */
void hooks_set_connect(int (*connect)(void *userdata, int fd), void *userdata);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Runs the daemon and the library in one process and one thread, and controls their system calls. Each of the two is
 * linked into one object, in which calls of malloc(), sendmsg(), poll() and so on are renamed to functions of the
 * hooks (daemon.symbols, client.symbols). Therefore
 *
 *   - call N of a kind can be made to fail, on one side only,
 *   - tests can check that neither side holds memory at the end,
 *   - when the library would wait, the daemon runs. If the daemon then has nothing for the library, the library's
 *     clock advances to its deadline. Such waits are counted, because the daemon did not notify the client.
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

/* The N-th call from now on, counted from 1, fails with ERROR, a positive errno. N 0: no call fails. */
void hooks_arm(enum hook_side side, enum hook_kind kind, unsigned n, int error);
/* Returns whether the fault occurred. No later call fails. */
bool hooks_disarm(void);

/*
 * Instead of the daemon's N-th call of any kind from now on, counted from 1, KILL is called. KILL must not return.
 * Only this thread's calls count. N 0: never.
 */
void hooks_kill_at(unsigned n, void (*kill)(void));
/* Returns the number of calls up to the kill; 0: KILL was called. */
unsigned hooks_left_until_kill(void);

/* Counts as a call of the daemon, at which hooks_kill_at() can end it. */
void hooks_step(void);

/* Sets the counters of calls and deadlines to 0, and forgets the daemon's loop and the blocks that were recorded. */
void hooks_reset(void);
unsigned hooks_count_calls(enum hook_side side, enum hook_kind kind);
/* Returns the number of the library's waits that ended by their deadline. */
unsigned hooks_count_deadlines(void);

/* The library's traffic since hooks_start_counting(). */
struct hooks_traffic {
	unsigned packets; /* sent and received */
	/*
	 * Several packets that one call receives, without sending between them, count as one wait: whether a packet
	 * had already arrived must not change the count.
	 */
	unsigned waits;
	unsigned looks; /* at descriptors: whether they are still the library's, see ownfd.c */
};
void hooks_start_counting(void);
/* The next packet that the library receives begins another wait. */
void hooks_begin_call(void);
struct hooks_traffic hooks_get_traffic(void);

/* What QPs were given last on their way to RTS. */
struct hooks_qp {
	uint8_t responder_resources, initiator_depth;
	uint32_t ece_options;
};
struct hooks_qp hooks_get_last_qp(void);

/* Records the allocations of both sides from now on. */
void hooks_track_memory(void);
/* Prints each block that SIDE holds to stderr. Returns the number of blocks. */
unsigned hooks_print_memory(enum hook_side side);

/* Frees memory that the library has allocated for its caller. */
void client_free(void *pointer);

/* Returns the loop that the daemon created last; NULL: none. */
sd_event *hooks_get_loop(void);
/*
 * Runs LOOP until it has nothing to do. Returns the number of turns. The daemon's timers of up to 1 s expire a
 * thousand times earlier.
 */
unsigned hooks_run(sd_event *loop);

/* While the library waits, its poll() calls TURN until a descriptor is ready, or until TURN returns false. */
void hooks_set_turn(bool (*turn)(void *userdata), void *userdata);
/* The library has nodes of N devices: "fake" with the numbers from FIRST. Only of "fake0" at first. */
void hooks_set_devices(unsigned first, unsigned n);
/* Advances the library's clock by MS. */
void hooks_pass_time(int ms);
/* CONNECT replaces the library's connect(): it returns 0, or -1 and sets errno. NULL: calls the real connect(). */
void hooks_set_connect(int (*connect)(void *userdata, int fd), void *userdata);

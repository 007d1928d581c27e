/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/hooks/inside.h"

#define CALLERS 2

struct block {
	void *pointer;
	enum hook_side side;
	size_t size;
	void *caller;
};

static struct {
	unsigned calls[_HOOK_SIDE_MAX][_HOOK_KIND_MAX];
	unsigned deadlines;
	struct hooks_traffic traffic;
	bool in_wait; /* this call of the program has received a packet, and has sent none since */

	enum hook_side side;
	enum hook_kind kind;
	unsigned left; /* calls up to the one that fails; 0: no fault is armed */
	int error;
	bool met;

	unsigned until_kill; /* 0: never */
	void (*kill)(void);
	pthread_t killed;

	bool tracking;
	void *blocks; /* a tsearch() tree of struct block */

	sd_event *loop;
	bool (*turn)(void *userdata);
	void *turn_userdata;
	int (*connect)(void *userdata, int fd);
	void *connect_userdata;
	int64_t skipped_ms; /* how far the library's clock is ahead */
} hooks;

const char *hook_side_to_string(enum hook_side side)
{
	return side == HOOK_DAEMON ? "daemon" : "client";
}

const char *hook_kind_to_string(enum hook_kind kind)
{
	static const char *const names[_HOOK_KIND_MAX] = {
		[HOOK_MEMORY] = "memory", [HOOK_ACCEPT] = "accept",
		[HOOK_SEND] = "send",     [HOOK_RECEIVE] = "receive",
		[HOOK_LOOP] = "loop",     [HOOK_DESCRIPTOR] = "descriptor",
		[HOOK_CM] = "cm",         [HOOK_VERBS] = "verbs",
	};

	return names[kind];
}

void hooks_arm(enum hook_side side, enum hook_kind kind, unsigned n, int error)
{
	hooks.side = side;
	hooks.kind = kind;
	hooks.left = n;
	hooks.error = error;
	hooks.met = false;
}

bool hooks_disarm(void)
{
	hooks.left = 0;
	return hooks.met;
}

void hooks_kill_at(unsigned n, void (*kill)(void))
{
	hooks.until_kill = n;
	hooks.kill = kill;
	hooks.killed = pthread_self();
}

unsigned hooks_left_until_kill(void)
{
	return hooks.until_kill;
}

void hook_may_kill(void)
{
	if (hooks.until_kill > 0 && pthread_equal(pthread_self(), hooks.killed) &&
	    --hooks.until_kill == 0)
		hooks.kill();
}

bool hook_fails(enum hook_side side, enum hook_kind kind)
{
	if (side == HOOK_DAEMON)
		hook_may_kill();
	hooks.calls[side][kind]++;
	if (hooks.left == 0 || side != hooks.side || kind != hooks.kind || --hooks.left > 0)
		return false;
	hooks.met = true;
	if (getenv("HOOKS_ABORT"))
		abort();
	errno = hooks.error;
	return true;
}

void hooks_step(void)
{
	hook_may_kill();
}

unsigned hooks_count_calls(enum hook_side side, enum hook_kind kind)
{
	return hooks.calls[side][kind];
}

unsigned hooks_count_deadlines(void)
{
	return hooks.deadlines;
}

void hooks_start_counting(void)
{
	hooks.traffic = (struct hooks_traffic){ 0 };
	hooks.in_wait = false;
}

void hooks_begin_call(void)
{
	hooks.in_wait = false;
}

struct hooks_traffic hooks_get_traffic(void)
{
	return hooks.traffic;
}

void hook_sent(void)
{
	hooks.traffic.packets++;
	hooks.in_wait = false;
}

void hook_received(void)
{
	hooks.traffic.packets++;
	hooks.traffic.waits += !hooks.in_wait;
	hooks.in_wait = true;
}

void hook_looked(void)
{
	hooks.traffic.looks++;
}

static int compare(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return (x->pointer > y->pointer) - (x->pointer < y->pointer);
}

void hooks_track_memory(void)
{
	hooks.tracking = true;
}

void *hook_took(enum hook_side side, void *pointer, size_t size, void *caller)
{
	struct block *block;

	if (!hooks.tracking || !pointer)
		return pointer;
	block = malloc(sizeof(*block));
	if (!block)
		abort();
	*block = (struct block){ pointer, side, size, caller };
	if (!tsearch(block, &hooks.blocks, compare))
		abort();
	return pointer;
}

void hook_gave(void *pointer)
{
	struct block key = { .pointer = pointer }, *block;
	void *node = pointer && hooks.blocks ? tfind(&key, &hooks.blocks, compare) : NULL;

	if (!node)
		return;
	block = *(struct block **)node;
	tdelete(block, &hooks.blocks, compare);
	free(block);
}

static unsigned n_printed;
static enum hook_side side_printed;

static void print_block(const void *node, VISIT which, int depth)
{
	const struct block *block = *(struct block *const *)node;

	if ((which != postorder && which != leaf) || block->side != side_printed)
		return;
	n_printed++;
	fprintf(stderr, "  the %s still holds %zu bytes, taken at %p\n",
		hook_side_to_string(block->side), block->size, block->caller);
}

unsigned hooks_print_memory(enum hook_side side)
{
	n_printed = 0;
	side_printed = side;
	twalk(hooks.blocks, print_block);
	return n_printed;
}

void hooks_reset(void)
{
	for (int side = 0; side < _HOOK_SIDE_MAX; side++)
		for (int kind = 0; kind < _HOOK_KIND_MAX; kind++)
			hooks.calls[side][kind] = 0;
	hooks.deadlines = 0;
	hooks.loop = NULL;
	tdestroy(hooks.blocks, free);
	hooks.blocks = NULL;
}

void hook_set_loop(sd_event *loop)
{
	hooks.loop = loop;
}

sd_event *hooks_get_loop(void)
{
	return hooks.loop;
}

unsigned hooks_run(sd_event *loop)
{
	unsigned n = 0;

	while (loop) {
		int state = sd_event_get_state(loop);

		if (state == SD_EVENT_FINISHED || state == SD_EVENT_EXITING ||
		    sd_event_run(loop, 0) <= 0)
			break;
		/* A source that keeps the loop busy for ever is a bug, too. */
		if (++n == 100000) {
			fprintf(stderr, "The daemon's loop never rests.\n");
			abort();
		}
	}
	return n;
}

void hooks_set_turn(bool (*turn)(void *userdata), void *userdata)
{
	hooks.turn = turn;
	hooks.turn_userdata = userdata;
}

void hooks_pass_time(int ms)
{
	hooks.skipped_ms += ms;
}

void hooks_set_connect(int (*connect)(void *userdata, int fd), void *userdata)
{
	hooks.connect = connect;
	hooks.connect_userdata = userdata;
}

int hook_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (hooks.connect)
		return hooks.connect(hooks.connect_userdata, fd);
	return connect(fd, addr, len);
}

int hook_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	int ready = n > 0 ? poll(fds, n, 0) : 0;

	while (ready == 0 && hooks.turn && hooks.turn(hooks.turn_userdata))
		ready = n > 0 ? poll(fds, n, 0) : 0;
	if (ready == 0 && n > 0)
		ready = poll(fds, n, 0);
	if (ready != 0 || timeout == 0)
		return ready;
	hooks.deadlines += n > 0;
	hooks.skipped_ms += timeout > 0 ? timeout : 0;
	return 0;
}

int hook_clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = clock_gettime(clock, ret);

	ret->tv_sec += hooks.skipped_ms / 1000;
	ret->tv_nsec += hooks.skipped_ms % 1000 * 1000000;
	if (ret->tv_nsec >= 1000000000) {
		ret->tv_nsec -= 1000000000;
		ret->tv_sec++;
	}
	return r;
}

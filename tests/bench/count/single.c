/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include "proto/timer.h"
#include "tests/bench/count/single.h"
#include "tests/fake/fake.h"
#include "tests/patience.h"
#include "tests/unit/place.h"
#include "util/hot.h"

#define THREAD_SECONDS PATIENCE_S /* in which a thread of the daemon does its work */

static struct hot *hot;
static int loop_fd = -1;

/* All runs begin at this time. It is later than any host's monotonic clock, so the kernel's timers never expire. */
static struct timespec stopped = { .tv_sec = 1000000000 };

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	*ret = stopped;
	return 0;
}

void single_step_time(long ms)
{
	stopped.tv_nsec += ms * 1000000;
	stopped.tv_sec += stopped.tv_nsec / 1000000000;
	stopped.tv_nsec %= 1000000000;
	timer_look_again();
}

/* Memory: all libraries of the process use these definitions. */

bool single_collects;
struct single_counts single_counts[2];
static bool in_daemon;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
	single_counts[in_daemon].allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	single_counts[in_daemon].allocations++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	single_counts[in_daemon].allocations++;
	return __libc_realloc(p, size);
}

static void check(int r, const char *what)
{
	if (r < 0)
		die("%s: errno %d", what, -r);
}

/* This program's own waits go by syscall(), which is not counted (tests/bench/count/run). */
static int look(struct pollfd *fds, nfds_t n, unsigned seconds)
{
	struct timespec timeout = { .tv_sec = seconds };

	return (int)syscall(SYS_ppoll, fds, n, &timeout, NULL, 0);
}

static bool is_ready(unsigned seconds)
{
	struct pollfd p = { .fd = loop_fd, .events = POLLIN };

	return look(&p, 1, seconds) > 0;
}

/* Returns whether a source was ready or due. */
bool single_turn(void)
{
	int r;

	in_daemon = true;
	if (single_collects)
		CALLGRIND_TOGGLE_COLLECT;
	r = hot_run(hot, 0);
	check(r, "hot_run");
	if (single_collects)
		CALLGRIND_TOGGLE_COLLECT;
	in_daemon = false;
	return r > 0;
}

static int run_until_ready(struct pollfd *fds, nfds_t n)
{
	int r;

	while ((r = look(fds, n, 0)) == 0) {
		if (single_turn())
			continue;
		/*
		 * Timers that are due do not make the loop's descriptor ready, because the kernel's time does not advance
		 * by steps. If none is due, a thread of the daemon may be working.
		 */
		timer_look_again();
		if (!single_turn() && !is_ready(THREAD_SECONDS))
			die("the library waits for something that the daemon does not do");
	}
	return r;
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

/* Replaces poll(), in which the library waits. The daemon calls it too, but must not wait. */
int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	int r = look(fds, n, 0);

	single_counts[in_daemon].polls++;
	if (in_daemon && timeout != 0)
		die("the daemon would wait");
	return r != 0 || timeout == 0 ? r : run_until_ready(fds, n);
}

/* Replaces recvmmsg(), in which a session whose replies come by another one waits for its events. */
int recvmmsg(int sock, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	static typeof(&recvmmsg) real;
	struct pollfd p = { .fd = sock, .events = POLLIN };

	real = real ?: REAL(recvmmsg);
	single_counts[in_daemon].recvmmsgs++;
	if (!(flags & MSG_DONTWAIT))
		run_until_ready(&p, 1);
	return real(sock, msgs, n, flags, timeout);
}

/* These replace what the library and the daemon send packets with. */

ssize_t sendmsg(int sock, const struct msghdr *msg, int flags)
{
	static typeof(&sendmsg) real;
	ssize_t n;

	real = real ?: REAL(sendmsg);
	n = real(sock, msg, flags);
	single_counts[in_daemon].bytes += n > 0 ? (size_t)n : 0;
	return n;
}

int sendmmsg(int sock, struct mmsghdr *msgs, unsigned n, int flags)
{
	static typeof(&sendmmsg) real;
	int sent;

	real = real ?: REAL(sendmmsg);
	sent = real(sock, msgs, n, flags);
	for (int i = 0; i < sent; i++)
		single_counts[in_daemon].bytes += msgs[i].msg_len;
	return sent;
}

void single_run(void)
{
	while (is_ready(0))
		single_turn();
}

/*
 * As under systemd, the daemon writes its ledger. What it stores waits in a socket that nobody reads.
 */
static void make_manager(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(addr);
	char name[sizeof(addr.sun_path) + 1];
	int sock = socket(AF_UNIX, SOCK_DGRAM, 0);

	/* The kernel chooses an abstract name, which always has the same length. */
	if (sock < 0 || bind(sock, (struct sockaddr *)&addr, sizeof(addr.sun_family)) < 0 ||
	    getsockname(sock, (struct sockaddr *)&addr, &len) < 0)
		die("cannot make a socket: %s", strerror(errno));
	snprintf(name, sizeof(name), "@%.*s", (int)(len - sizeof(addr.sun_family) - 1),
		 addr.sun_path + 1);
	setenv("NOTIFY_SOCKET", name, 1);
	setenv("FDSTORE", "32", 1);
}

struct broker *single_start(bool keeps)
{
	struct broker *broker;

	if (keeps)
		make_manager();
	place_make("", "");
	fake_come_by_descriptor();
	broker = start_broker();
	hot = hot_ref(get_loop());
	if (!hot)
		die("no memory for the loop");
	/* As in the daemon. */
	check(hot_be_host(hot), "hot_be_host");
	loop_fd = hot_get_fd(hot);
	while (single_turn())
		;
	return broker;
}

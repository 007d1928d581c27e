/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The program whose instructions callgrind counts (tests/bench/count/run): the daemon and the library in one process
 * and one thread. When the library would wait, the daemon runs. The argument is the side to count: "daemon", which
 * includes the fake fabric, or "library", which includes its caller.
 *
 * Every run executes the same instructions, because time advances only in step_time(), and because the daemon's loop
 * runs only when a source is ready or the library waits.
 *
 * Prints a line for each part: its name, its number of repetitions, and the number of allocations.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include "tests/bench/host/host.h"
#include "tests/patience.h"

#define WARM_UP 50
#define TIMES 200 /* repetitions of each part; as many connections are open at the same time */

#define THREAD_SECONDS PATIENCE_S /* in which a thread of the daemon does its work */

static sd_event *loop;
static int loop_fd = -1;

/* All runs begin at this time. It is later than any host's monotonic clock, so the kernel's timers never expire. */
static struct timespec stopped = { .tv_sec = 1000000000 };

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	(void)clock;
	*ret = stopped;
	return 0;
}

static void step_time(long ms)
{
	stopped.tv_nsec += ms * 1000000;
	stopped.tv_sec += stopped.tv_nsec / 1000000000;
	stopped.tv_nsec %= 1000000000;
}

/* Memory: all libraries of the process use these definitions. */

static bool in_daemon, collects;
static unsigned long n_allocations[2]; /* the index is IN_DAEMON */
static unsigned long n_fake; /* number of the daemon's allocations that the fake fabric made */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
	n_allocations[in_daemon]++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	n_allocations[in_daemon]++;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	n_allocations[in_daemon]++;
	return __libc_realloc(p, size);
}

static void check(int r, const char *what)
{
	if (r < 0)
		die("%s: errno %d", what, -r);
}

/* Prepares the loop for its sleep when no source is ready any more. */
static void dispatch(void)
{
	int r;

	do
		check(sd_event_dispatch(loop), "sd_event_dispatch");
	while ((r = sd_event_prepare(loop)) > 0);
	check(r, "sd_event_prepare");
}

static bool is_ready(unsigned seconds)
{
	struct pollfd p = { .fd = loop_fd, .events = POLLIN };
	struct timespec timeout = { .tv_sec = seconds };

	return syscall(SYS_ppoll, &p, 1, &timeout, NULL, 0) > 0;
}

/* Returns whether a source was ready or due. */
static bool daemon_turn(void)
{
	int r;

	in_daemon = true;
	if (collects)
		CALLGRIND_TOGGLE_COLLECT;
	r = sd_event_wait(loop, 0);
	check(r, "sd_event_wait");
	if (r > 0)
		dispatch();
	else
		check(sd_event_prepare(loop), "sd_event_prepare");
	if (collects)
		CALLGRIND_TOGGLE_COLLECT;
	in_daemon = false;
	return r > 0;
}

/* Replaces poll(), the only function in which the library waits. The daemon calls it too, but must not wait. */
int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec now = { 0 };
	int r;

	if (in_daemon && timeout != 0)
		die("the daemon would wait");
	do {
		r = (int)syscall(SYS_ppoll, fds, n, &now, NULL, 0);
		if (r != 0 || timeout == 0 || in_daemon)
			return r;
		/*
		 * A turn also finds timers that are due. They do not make the loop's descriptor ready, because the
		 * kernel's time does not advance by steps. If nothing was ready or due, a thread of the daemon may be
		 * working.
		 */
		if (!daemon_turn() && !is_ready(THREAD_SECONDS))
			die("the library waits for something that the daemon does not do");
	} while (true);
}

static void run_daemon(void)
{
	while (is_ready(0))
		daemon_turn();
}

/* Parts: callgrind writes the counts of each part to a file that contains the part's name. */

static struct ends ends;
static struct connection connections[TIMES];
static bool of_library;

static void begin_part(void)
{
	n_allocations[false] = n_allocations[true] = 0;
	n_fake = fake_get_memory().allocations;
	CALLGRIND_ZERO_STATS;
	collects = true;
	if (of_library)
		CALLGRIND_TOGGLE_COLLECT;
}

static void end_part(const char *name)
{
	if (of_library)
		CALLGRIND_TOGGLE_COLLECT;
	collects = false;
	CALLGRIND_DUMP_STATS_AT(name);
	n_fake = fake_get_memory().allocations - n_fake;
	printf("%s %d %lu\n", name, TIMES,
	       of_library ? n_allocations[false] : n_allocations[true] - n_fake);
}

/* Ends the timewait of QP numbers. */
static void pass_time(void)
{
	step_time(10);
	daemon_turn();
}

static void connect_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ends_connect(&ends, &connections[i]);
	run_daemon();
}

static void disconnect_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ends_disconnect(&ends, &connections[i]);
		pass_time();
	}
	run_daemon();
}

static void ask_all(unsigned n)
{
	int value;

	for (unsigned i = 0; i < n; i++)
		must(rdmabroker_get_option(ends.listener, RDMABROKER_OPTION_TOS, &value),
		     "get_option");
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

int main(int argc, char **argv)
{
	struct place place;
	struct broker *broker;

	if (argc != 2 || (strcmp(argv[1], "daemon") != 0 && strcmp(argv[1], "library") != 0))
		die("which part is to be counted: daemon or library?");
	of_library = strcmp(argv[1], "library") == 0;
	make_manager();
	place_make(&place);
	broker = place_start_broker(&place);
	loop = place_get_loop();
	loop_fd = sd_event_get_fd(loop);
	check(loop_fd, "sd_event_get_fd");
	if (sd_event_prepare(loop) > 0)
		dispatch();
	ends_open(&ends, place.socket);

	/* The warm-up: tables get their final size, and caches are filled. */
	connect_all(TIMES);
	disconnect_all(TIMES);
	ask_all(WARM_UP);

	begin_part();
	ask_all(TIMES);
	end_part("rpc");
	begin_part();
	connect_all(TIMES);
	end_part("connect");
	begin_part();
	disconnect_all(TIMES);
	end_part("disconnect");
	ends.resolves_at_once = true;
	begin_part();
	connect_all(TIMES);
	end_part("connect-resolve");
	disconnect_all(TIMES);

	ends_close(&ends);
	run_daemon();
	broker_free(broker);
	place_remove(&place);
	return EXIT_SUCCESS;
}

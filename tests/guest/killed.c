/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Programs that are killed at random moments, whose peers must be notified. Run as root:
 *
 *   killed clients ADDR PORT COUNT SPAN_MS SEED SERVER_USER CLIENT_USER
 *   killed servers ADDR PORT COUNT SPAN_MS SEED SERVER_USER CLIENT_USER
 *
 * Kills COUNT clients or servers. Every fourth client kills itself immediately after its connect request, and every
 * second server after its first accept. Ends with status 1 if a peer was not notified in time, or anything else
 * failed.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <rdmabroker.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "killed.h"

#define TOLD_SOON_MS 1000
#define N_AT_A_TIME 8
#define SPAN_MAX_MS 30000 /* a span is not made longer than this */
#define N_EARLY 4 /* one in this number of clients can be killed before it has a session */
#define N_PORTS 40
#define EVERY 2 /* a server that is killed accepts one in EVERY requests; the others wait */
#define N_EVENTS 66

static const char *const state_names[N_STATES] = {
	[STATE_STARTED] = "before the session",  [STATE_SESSION] = "before the request",
	[STATE_REQUEST] = "with a request",      [STATE_ESTABLISHED] = "established",
	[STATE_DISCONNECTING] = "disconnecting",
};

struct shared *shared;
static int shared_fd, bell_fd;
struct sockaddr_in address;
static uint64_t random_state;

void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("FAILED: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int ms_until(int64_t deadline_ns)
{
	int64_t left = (deadline_ns - now_ns() + 999999) / 1000000;

	return left > 0 ? (int)left : 0;
}

int64_t in_ms(int64_t ms)
{
	return now_ns() + ms * 1000000;
}

static unsigned random_below(unsigned n)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(random_state >> 33) % n;
}

unsigned number(const char *text, unsigned max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n > max)
		die("\"%s\" is not a number up to %u", text, max);
	return (unsigned)n;
}

static void make_address(const char *host, unsigned port)
{
	address.sin_family = AF_INET;
	address.sin_port = htons((uint16_t)port);
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
		die("\"%s\" is not an address", host);
}

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (shared == MAP_FAILED)
		die("mmap: %s", strerror(errno));
}

void ring(void)
{
	uint64_t one = 1;

	if (write(bell_fd, &one, sizeof(one)) < 0)
		die("eventfd: %s", strerror(errno));
}

/* The parent starts and kills the other processes, and adds up the results. Only the parent runs as root. */

static void become(const char *user)
{
	const struct passwd *pw = getpwnam(user);

	if (!pw)
		die("there is no user %s", user);
	if (initgroups(user, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0)
		die("cannot become %s: %s", user, strerror(errno));
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		die("prctl: %s", strerror(errno));
}

/* IN: stdin of the new process; -1: the parent's. */
static pid_t start(const char *user, const char *role, unsigned argument, unsigned port, int in)
{
	char texts[5][24], host[INET_ADDRSTRLEN];
	pid_t pid;

	snprintf(texts[0], sizeof(texts[0]), "%d", shared_fd);
	snprintf(texts[1], sizeof(texts[1]), "%d", bell_fd);
	snprintf(texts[2], sizeof(texts[2]), "%u", argument);
	snprintf(texts[3], sizeof(texts[3]), "%u", port);
	inet_ntop(AF_INET, &address.sin_addr, host, sizeof(host));
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid > 0)
		return pid;
	become(user);
	if (in >= 0)
		dup2(in, STDIN_FILENO);
	execl("/proc/self/exe", "killed", role, texts[0], texts[1], texts[2], host, texts[3],
	      (char *)NULL);
	die("exec: %s", strerror(errno));
}

/*
 * Records the time of the kill, unless the process has killed itself. The time precedes the kill, because peers may
 * notice the end before the parent does.
 */
static void kill_now(pid_t pid, unsigned number)
{
	int status;

	if (shared->children[number].killed_ns == 0)
		shared->children[number].killed_ns = now_ns();
	if (kill(pid, SIGKILL) < 0 || waitpid(pid, &status, 0) != pid)
		die("kill: %s", strerror(errno));
	if (!WIFSIGNALED(status))
		die("process %u has ended by itself, with status %d", number, WEXITSTATUS(status));
}

/* The process has its own deadline. Returns false if it failed; it has printed why. */
static bool await_end(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && status == 0;
}

/* Waits until a process calls ring(), at most until DUE_NS. Returns false if none did. */
static bool hear_until(int64_t due_ns)
{
	struct pollfd p = { .fd = bell_fd, .events = POLLIN };
	uint64_t n;

	if (poll(&p, 1, ms_until(due_ns)) == 0)
		return false;
	if (read(bell_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		die("eventfd: %s", strerror(errno));
	return true;
}

/* The process that makes the condition true must call ring(). */
#define AWAIT(condition, what)                                                  \
	do {                                                                    \
		int64_t deadline_ = in_ms(DEADLINE_MS);                         \
		while (!(condition))                                            \
			if (!hear_until(deadline_))                             \
				die("%s: not within %d ms", what, DEADLINE_MS); \
	} while (0)

/* Returns the writing end, which programs do not inherit. */
static int make_pipe(int *ret_read)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		die("pipe: %s", strerror(errno));
	*ret_read = fds[0];
	return fds[1];
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Prints how soon and how the peers were notified. Returns false if one was not, or not by the broker. */
static bool report(const char *who)
{
	static int64_t took[LINKS_MAX];
	unsigned n_events[N_EVENTS] = { 0 }, n_accept_failed = 0, n_before = 0, n_untold = 0;
	unsigned n = 0, n_late = 0, n_by_kernel = 0, n_links = shared->n_links, n_seen = 0,
		 n_waiting = 0;

	for (unsigned i = 0; i < n_links; i++) {
		const struct link *link = &shared->links[i];
		int64_t killed, since;

		/* A server that was killed inside new_link() has not filled in the link. */
		if (link->child == NOBODY || !link->seen_ns)
			continue;
		n_seen++;
		killed = shared->children[link->child].killed_ns;
		since = killed > link->seen_ns ? killed : link->seen_ns;
		if (!link->told_ns) {
			n_untold++;
			printf("%s: the peer of process %u was never told; it was killed %lld ms after the "
			       "peer saw it, %s by itself, %s to the peer\n",
			       who, link->child, (long long)(killed - link->seen_ns) / 1000000,
			       state_names[shared->children[link->child].state],
			       link->established ? "established" : "not established");
			continue;
		}
		if (link->told_ns < killed) {
			n_before++;
			continue;
		}
		took[n] = link->told_ns - since;
		n_late += took[n] > TOLD_SOON_MS * 1000000LL;
		n_by_kernel += link->event == RDMABROKER_EVENT_UNREACHABLE &&
			       took[n] > TOLD_MAX_MS * 1000000LL;
		n_waiting += !link->established;
		n++;
		if (link->event == EVENT_ACCEPT_FAILED)
			n_accept_failed++;
		else
			n_events[link->event]++;
	}
	qsort(took, n, sizeof(took[0]), compare);
	printf("%s: %u connections, of which %u ended before the kill; %u were told (%u of them of "
	       "one that was not established)",
	       who, n_seen, n_before, n, n_waiting);
	for (unsigned i = 0; i < N_EVENTS; i++)
		if (n_events[i] > 0)
			printf(", %u by %s", n_events[i],
			       rdmabroker_event_str((enum rdmabroker_event_type)i) +
				       strlen("RDMABROKER_EVENT_"));
	if (n_accept_failed > 0)
		printf(", %u by a failing accept", n_accept_failed);
	printf("\n");
	if (n == 0)
		die("nobody was told anything");
	printf("%s: told after p50 %.1f ms, p99 %.1f ms, at most %.1f ms; %u later than %d ms; "
	       "%u by the kernel's timeouts; %u never\n",
	       who, (double)took[n / 2] / 1e6, (double)took[n * 99 / 100] / 1e6,
	       (double)took[n - 1] / 1e6, n_late, TOLD_SOON_MS, n_by_kernel, n_untold);
	return n_untold == 0 && n_by_kernel == 0;
}

struct victim {
	pid_t pid;
	unsigned number;
	bool with_session; /* no session yet; not killed before it has one */
	int64_t due_ns;
};

static int kill_clients(char **argv)
{
	unsigned port = number(argv[1], 65535), count = number(argv[2], CHILDREN_MAX);
	unsigned span = number(argv[3], 10000), seed = number(argv[4], ~0u);
	unsigned n_states[N_STATES] = { 0 }, n_started = 0, n_killed = 0, n_done = 0, n_failed = 0;
	unsigned n_early = 0;
	struct victim victims[N_AT_A_TIME] = { 0 };
	int64_t begin = now_ns();
	int in, end = make_pipe(&in);
	pid_t server;
	bool ended;

	random_state = seed;
	server = start(argv[5], "=serve", 1, port, in);
	close(in);
	AWAIT(shared->listening == (int)port, "the server listens");
	while (n_killed < count) {
		struct victim *next = NULL;

		for (unsigned i = 0; i < N_AT_A_TIME; i++) {
			struct victim *v = &victims[i];

			if (v->pid == 0 && n_started < count) {
				v->number = n_started++;
				v->with_session = v->number % N_EARLY != 0;
				v->due_ns = in_ms(v->with_session ? DEADLINE_MS :
								    random_below(span + 1));
				v->pid = start(argv[6], "=connect", v->number, port, -1);
			}
			if (v->pid > 0 && v->with_session &&
			    shared->children[v->number].state >= STATE_SESSION) {
				v->with_session = false;
				v->due_ns = in_ms(random_below(span + 1));
			}
			if (v->pid > 0 && (!next || v->due_ns < next->due_ns))
				next = v;
		}
		/* Until the next kill is due, a process may get its session, which sets the time of its own kill. */
		if (hear_until(next->due_ns))
			continue;
		kill_now(next->pid, next->number);
		n_states[shared->children[next->number].state]++;
		/* On a slow machine a client needs more time to get anywhere: none so far has begun to connect. */
		n_early = shared->n_links > 0 ? 0 : n_early + 1;
		if (n_early >= N_AT_A_TIME && span < SPAN_MAX_MS) {
			span *= 2;
			n_early = 0;
		}
		n_done += shared->children[next->number].n_done;
		n_failed += shared->children[next->number].n_failed;
		next->pid = 0;
		n_killed++;
	}
	close(end);
	ended = await_end(server);
	printf("clients: %u are killed, each within %u ms of its start or its session, seed %u, %d at a time, in "
	       "%lld s:",
	       n_killed, span, seed, N_AT_A_TIME, (long long)(now_ns() - begin) / 1000000000);
	for (unsigned i = 0; i < N_STATES; i++)
		printf(" %u %s%s", n_states[i], state_names[i], i + 1 < N_STATES ? "," : "\n");
	printf("clients: %u connections were made and ended by themselves, %u failed\n", n_done,
	       n_failed);
	return !report("servers of killed clients") || !ended || n_failed > 0;
}

static int kill_servers(char **argv)
{
	unsigned port = number(argv[1], 65535), count = number(argv[2], CHILDREN_MAX - 1);
	unsigned span = number(argv[3], 10000), seed = number(argv[4], ~0u);
	int64_t begin = now_ns();
	int in, lines = make_pipe(&in), never, no_end = make_pipe(&never);
	pid_t watcher;
	bool ended;

	random_state = seed;
	watcher = start(argv[6], "=watch", 0, port, in);
	close(in);
	for (unsigned round = 1; round <= count; round++) {
		unsigned at = port + round % N_PORTS;
		bool falls = round % 2 == 0;
		pid_t server = start(argv[5], falls ? "=fall" : "=serve", falls ? round : EVERY, at,
				     never);
		char line[16];

		AWAIT(shared->listening == (int)at, "the server listens");
		snprintf(line, sizeof(line), "%u\n", at);
		if (write(lines, line, strlen(line)) < 0)
			die("the watcher is gone");
		poll(NULL, 0, (int)random_below(span + 1));
		kill_now(server, round);
		AWAIT(shared->round == round, "the watcher is told");
	}
	close(lines);
	close(never);
	close(no_end);
	ended = await_end(watcher);
	printf("servers: %u are killed, each within %u ms of its first request, seed %u, in %lld s\n",
	       count, span, seed, (long long)(now_ns() - begin) / 1000000000);
	return !report("clients of killed servers") || !ended;
}

static int run_parent(char **argv)
{
	shared_fd = memfd_create("killed", 0);
	bell_fd = eventfd(0, EFD_NONBLOCK);
	if (shared_fd < 0 || bell_fd < 0 || ftruncate(shared_fd, sizeof(*shared)) < 0)
		die("no memory to share: %s", strerror(errno));
	share();
	make_address(argv[1], number(argv[2], 65535));
	if (strcmp(argv[0], "clients") == 0)
		return kill_clients(argv + 1);
	if (strcmp(argv[0], "servers") == 0)
		return kill_servers(argv + 1);
	die("clients or servers are killed, not %s", argv[0]);
}

static int run_role(char **argv)
{
	unsigned argument = number(argv[3], CHILDREN_MAX);

	shared_fd = (int)number(argv[1], 1024);
	bell_fd = (int)number(argv[2], 1024);
	share();
	make_address(argv[4], number(argv[5], 65535));
	if (strcmp(argv[0], "=serve") == 0)
		run_server(argument, NULL);
	else if (strcmp(argv[0], "=fall") == 0)
		run_server(EVERY, &shared->children[argument]);
	else if (strcmp(argv[0], "=connect") == 0)
		run_client(argument);
	else
		run_watcher();
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(PATIENCE_PROGRAM_S);
	if (argc == 7 && argv[1][0] == '=')
		return run_role(argv + 1);
	if (argc == 9)
		return run_parent(argv + 1);
	fprintf(stderr,
		"killed clients|servers ADDR PORT COUNT SPAN_MS SEED SERVER_USER CLIENT_USER\n");
	return 2;
}

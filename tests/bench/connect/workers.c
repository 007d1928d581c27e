/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/connect/bench.h"

struct shared *shared;
int barrier_fd;

static int shared_fd;
static unsigned deadline_s;

/* Moves FD above the numbers that hand_over() uses, unless it is negative. Returns the new number. */
static int move_up(int fd)
{
	int up = fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, SHARED_FD + 1);

	if (fd >= 0)
		close(fd);
	return up;
}

void share_memory(const struct options *options, unsigned n_clients, unsigned n_samples)
{
	size_t size = shared_size(n_clients, n_samples);

	deadline_s = options->deadline_s;
	shared_fd = move_up(memfd_create("rdmabroker-bench", MFD_CLOEXEC));
	barrier_fd = move_up(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
	if (shared_fd < 0 || barrier_fd < 0 || ftruncate(shared_fd, (off_t)size) < 0)
		die("cannot make the shared memory: %m");
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (shared == MAP_FAILED)
		die("cannot map %zu bytes of shared memory: %m", size);
	shared->max_samples = n_samples;
	shared->config.server = options->server;
	shared->config.client = options->client;
	shared->config.ping_size = 64;
	shared->config.write_size = 65536;
	shared->config.n_writes = options->n_writes;
}

static void become(const char *user)
{
	const struct passwd *pw = getpwnam(user);

	if (!pw)
		die("there is no user %s", user);
	if (pw->pw_uid == geteuid())
		return;
	if (initgroups(user, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0)
		die("cannot become user %s: %m", user);
}

static void hand_over(int fd, int number)
{
	if (dup2(fd, number) < 0)
		die("cannot pass on a descriptor: %m");
}

static void __attribute__((noreturn))
run_worker(const struct options *options, enum way way, const char *name, int control)
{
	char self[PATH_MAX] = "";
	const char *const argv[] = {
		options->rdmabrokerctl, "run", "--", self, "worker", way_names[way], name, NULL,
	};
	const char *const *command = way == WAY_DROPIN ? argv : argv + 3;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("cannot find the program's own file: %m");
	hand_over(control, CONTROL_FD);
	hand_over(barrier_fd, BARRIER_FD);
	hand_over(shared_fd, SHARED_FD);
	if (way != WAY_DIRECT && options->user)
		become(options->user);
	/* A change of user resets the parent-death signal: set it after become(). */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(command[0], (char *const *)command);
	die("cannot run %s: %m", command[0]);
}

static void start_process(struct process *process, const struct options *options, enum way way,
			  const char *name)
{
	int pair[2], far;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("cannot make a socket for a worker: %m");
	far = move_up(pair[1]);
	process->control = pair[0];
	process->pid = far < 0 ? -1 : fork();
	if (process->pid < 0)
		die("cannot start a worker: %m");
	if (process->pid == 0)
		run_worker(options, way, name, far);
	close(far);
}

static void worker_failed(const struct process *process, enum way way, const char *name,
			  const struct report *report)
{
	int status = 0;

	waitpid(process->pid, &status, 0);
	if (report->error[0])
		die("%s, %s: %s", way_names[way], name, report->error);
	die("%s, %s: ended with %s %d", way_names[way], name,
	    WIFSIGNALED(status) ? "signal" : "status",
	    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void send_order(const struct process *process, enum order order, unsigned n)
{
	const struct command command = { .order = order, .n = n };

	/* If the worker has ended, await_answer() reports the end. */
	if (send(process->control, &command, sizeof(command), MSG_NOSIGNAL) < 0 && errno != EPIPE)
		die("cannot tell a worker what to do: %m");
}

static void await_answer(const struct process *process, enum way way, const char *name,
			 const struct report *report)
{
	struct pollfd p = { .fd = process->control, .events = POLLIN };
	char done;
	int n = poll(&p, 1, (int)deadline_s * 1000);

	if (n < 0)
		die("cannot wait for a worker: %m");
	if (n == 0)
		die("%s, %s: no answer after %u s", way_names[way], name, deadline_s);
	if (recv(process->control, &done, 1, 0) != 1)
		worker_failed(process, way, name, report);
}

/* Polls all clients at once: if one fails, the others wait for it in vain. */
static void await_clients(struct team *team, enum way way, unsigned n_clients)
{
	uint64_t deadline = now_ns() + (uint64_t)deadline_s * 1000000000, now;
	struct pollfd p[MAX_CLIENTS + 1];
	unsigned left = n_clients;
	char name[32], done;

	for (unsigned i = 0; i < n_clients; i++)
		p[i] = (struct pollfd){ .fd = team->clients[i].control, .events = POLLIN };
	/* The server sends no answer now: if its socket becomes ready, the server has failed. */
	p[n_clients] = (struct pollfd){ .fd = team->server.control, .events = POLLIN };
	while (left > 0) {
		now = now_ns();
		if (now >= deadline)
			die("%s: %u of %u clients are not done after %u s", way_names[way], left,
			    n_clients, deadline_s);
		if (poll(p, n_clients + 1, (int)((deadline - now) / 1000000) + 1) < 0)
			die("cannot wait for the clients: %m");
		if (p[n_clients].revents)
			worker_failed(&team->server, way, "server", &shared->server[way]);
		for (unsigned i = 0; i < n_clients; i++) {
			if (!p[i].revents)
				continue;
			snprintf(name, sizeof(name), "client %u", i);
			if (recv(p[i].fd, &done, 1, 0) != 1)
				worker_failed(&team->clients[i], way, name,
					      &shared->clients[way][i]);
			p[i].fd = -1;
			p[i].revents = 0;
			left--;
		}
	}
}

void start_team(struct team *team, const struct options *options, enum way way, unsigned n_clients)
{
	char name[16];

	start_process(&team->server, options, way, "server");
	ask_server(team, way, ORDER_READY);
	for (unsigned i = 0; i < n_clients; i++) {
		snprintf(name, sizeof(name), "%u", i);
		start_process(&team->clients[i], options, way, name);
	}
	for (unsigned i = 0; i < n_clients; i++)
		send_order(&team->clients[i], ORDER_READY, 0);
	await_clients(team, way, n_clients);
}

void end_team(struct team *team, enum way way, unsigned n_clients)
{
	int status;

	for (unsigned i = 0; i <= n_clients; i++) {
		struct process *p = i < n_clients ? &team->clients[i] : &team->server;

		send_order(p, ORDER_END, 0);
		if (waitpid(p->pid, &status, 0) < 0 || status != 0)
			die("%s: a worker did not end well, status %d", way_names[way], status);
		close(p->control);
	}
}

void ask_server(struct team *team, enum way way, enum order order)
{
	send_order(&team->server, order, 0);
	await_answer(&team->server, way, "server", &shared->server[way]);
}

uint64_t ask_clients(struct team *team, enum way way, unsigned n_clients, enum order order,
		     unsigned n)
{
	uint64_t all = n_clients, start;

	for (unsigned i = 0; i < n_clients; i++)
		send_order(&team->clients[i], order, n);
	await_clients(team, way, n_clients);
	start = now_ns();
	if (write(barrier_fd, &all, sizeof(all)) != sizeof(all))
		die("cannot let the clients begin: %m");
	await_clients(team, way, n_clients);
	return start;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/host/host.h"

#define END_MS 600000 /* long, because all clients may have gone at once */

/* Only the daemon's process can find out how much of its heap is in use. All other figures are read from outside. */

static int on_control(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct mallinfo2 info;
	struct daemon_memory answer;
	char c;

	(void)source;
	(void)events;
	(void)userdata;
	if (read(fd, &c, 1) != 1)
		die("the daemon's control socket: %m");
	info = mallinfo2();
	answer.heap = (int64_t)(info.uordblks + info.hblkhd);
	answer.fake = fake_get_memory().bytes;
	if (send(fd, &answer, sizeof(answer), 0) != sizeof(answer))
		die("the daemon's control socket: %m");
	return 0;
}

static noreturn void serve(const struct place *place, int control)
{
	struct broker *broker;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	broker = place_start_broker(place);
	if (sd_event_add_io(place_get_loop(), NULL, control, EPOLLIN, on_control, NULL) < 0)
		die("no control socket");
	if (send(control, "r", 1, 0) != 1)
		die("the daemon's control socket: %m");
	broker_run(broker);
	broker_free(broker);
	_exit(EXIT_SUCCESS);
}

static void await_readable(int fd, const char *what, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, timeout_ms) != 1)
		die("%s: nothing came in time", what);
}

void daemon_start(struct daemon *daemon)
{
	int pair[2];
	char c;

	place_make(&daemon->place);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair: %m");
	fflush(NULL);
	daemon->pid = fork();
	if (daemon->pid < 0)
		die("fork: %m");
	if (daemon->pid == 0) {
		close(pair[0]);
		serve(&daemon->place, pair[1]);
	}
	close(pair[1]);
	daemon->control = pair[0];
	await_readable(daemon->control, "the daemon's start", DEADLINE_MS);
	if (recv(daemon->control, &c, 1, 0) != 1)
		die("the daemon did not start");
}

void daemon_stop(struct daemon *daemon)
{
	int fd = (int)syscall(SYS_pidfd_open, daemon->pid, 0), status;

	kill(daemon->pid, SIGTERM);
	if (fd >= 0)
		await_readable(fd, "the daemon's end", END_MS);
	close(fd);
	if (waitpid(daemon->pid, &status, 0) != daemon->pid || status != 0)
		die("the daemon ended with status 0x%x", (unsigned)status);
	close(daemon->control);
	place_remove(&daemon->place);
}

struct daemon_memory daemon_get_memory(const struct daemon *daemon)
{
	struct daemon_memory memory;

	if (send(daemon->control, "m", 1, 0) != 1)
		die("the daemon is gone");
	await_readable(daemon->control, "the daemon's memory", DEADLINE_MS);
	if (recv(daemon->control, &memory, sizeof(memory), 0) != sizeof(memory))
		die("the daemon is gone");
	return memory;
}

void daemon_get_work(const struct daemon *daemon, struct daemon_work *ret)
{
	char path[64], line[128];
	struct timespec ts;
	clockid_t clock;
	FILE *f;

	if (clock_getcpuclockid(daemon->pid, &clock) != 0 || clock_gettime(clock, &ts) < 0)
		die("the daemon's CPU time: %m");
	*ret = (struct daemon_work){
		.cpu_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec,
	};
	snprintf(path, sizeof(path), "/proc/%d/status", daemon->pid);
	f = fopen(path, "re");
	if (!f)
		die("%s: %m", path);
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "voluntary_ctxt_switches: %llu", &ret->wakeups);
		sscanf(line, "VmRSS: %llu kB", &ret->rss_kb);
	}
	fclose(f);
}

unsigned daemon_count_fds(const struct daemon *daemon)
{
	char path[64];
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", daemon->pid);
	dir = opendir(path);
	if (!dir)
		die("%s: %m", path);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/host/host.h"
#include "tests/fake/fake.h"
#include "tests/unit/place.h"

void process_send(int control, const void *message, size_t size)
{
	if (send(control, message, size, MSG_NOSIGNAL) != (ssize_t)size)
		die("the other process is gone");
}

void process_receive(int control, void *ret, size_t size)
{
	struct pollfd p = { .fd = control, .events = POLLIN };

	if (poll(&p, 1, DEADLINE_MS) != 1)
		die("nothing came from the other process in time");
	if (recv(control, ret, size, 0) != (ssize_t)size)
		die("the other process is gone");
}

void process_start(struct process *ret, void (*run)(int control))
{
	int pair[2];
	char ready;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair: %m");
	fflush(NULL);
	ret->pid = fork();
	if (ret->pid < 0)
		die("fork: %m");
	if (ret->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		run(pair[1]);
		_exit(EXIT_SUCCESS);
	}
	close(pair[1]);
	ret->control = pair[0];
	process_receive(ret->control, &ready, 1);
}

void process_stop(const struct process *process)
{
	int status;

	/* close() alone does not end the connection: processes that were forked later hold the descriptor, too. */
	shutdown(process->control, SHUT_RDWR);
	close(process->control);
	if (waitpid(process->pid, &status, 0) != process->pid || status != 0)
		die("a process ended with status 0x%x", (unsigned)status);
}

double process_get_cpu(const struct process *process)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(process->pid, &clock) != 0 || clock_gettime(clock, &ts) < 0)
		die("the CPU time of a process: %m");
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* Only the daemon's process can find out how much of its heap is in use. */
static int on_control(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct mallinfo2 info;
	int64_t heap;
	char c;

	if (recv(fd, &c, 1, 0) != 1) {
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		kill(getpid(), SIGTERM);
		return 0;
	}
	info = mallinfo2();
	heap = (int64_t)(info.uordblks + info.hblkhd) - fake_get_memory().bytes;
	process_send(fd, &heap, sizeof(heap));
	return 0;
}

static void run_daemon(int control)
{
	struct broker *broker;

	fake_come_by_descriptor();
	broker = start_broker();
	if (sd_event_add_io(get_loop(), NULL, control, EPOLLIN, on_control, NULL) < 0)
		die("no control socket");
	process_send(control, "r", 1);
	broker_run(broker);
	broker_free(broker);
}

void daemon_start(struct process *ret)
{
	place_make("", "");
	process_start(ret, run_daemon);
}

void daemon_stop(const struct process *daemon)
{
	process_stop(daemon);
	place_remove();
}

int64_t daemon_get_heap(const struct process *daemon)
{
	int64_t heap;

	process_send(daemon->control, "m", 1);
	process_receive(daemon->control, &heap, sizeof(heap));
	return heap;
}

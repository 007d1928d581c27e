/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/host/host.h"

static struct traffic traffic;
static bool in_wait; /* this call has received a packet, and has sent none since */

/* These replace the functions of libc by which the library sends and receives. */

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	ssize_t n = syscall(SYS_sendmsg, fd, message, flags);

	if (n > 0) {
		traffic.packets++;
		in_wait = false;
	}
	return n;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t n = syscall(SYS_recvmsg, fd, message, flags);

	if (n > 0) {
		traffic.packets++;
		traffic.waits += !in_wait;
		in_wait = true;
	}
	return n;
}

void traffic_begin_call(void)
{
	in_wait = false;
}

static uint64_t get_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void share_begin(struct share *share)
{
	*share = (struct share){ .traffic = traffic, .cpu_ns = get_cpu_ns() };
}

void share_end(struct share *share)
{
	share->cpu_ns = get_cpu_ns() - share->cpu_ns;
	share->traffic.packets = traffic.packets - share->traffic.packets;
	share->traffic.waits = traffic.waits - share->traffic.waits;
}

struct rdmabroker_id *traffic_await(struct rdmabroker *session, enum rdmabroker_event_type type)
{
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	MUST(rdmabroker_get_event(session, DEADLINE_MS, &event));
	if (event->type != type)
		die("%s instead of %s%s%s", rdmabroker_event_str(event->type),
		    rdmabroker_event_str(type), event->text ? ": " : "", event->text ?: "");
	id = event->id;
	rdmabroker_free_event(event);
	return id;
}

void traffic_get_qp_attr(struct rdmabroker_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	MUST(rdmabroker_init_qp_attr(id, &attr, &mask));
}

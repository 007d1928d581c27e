/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/cmdump.h"
#include "fabric/holders.h"
#include "proto/addr.h"
#include "proto/text.h"
#include "util/clock.h"
#include "util/util.h"

/*
 * The kernel reports which thread made an id. The thread's process, user and name are read from /proc, which
 * does not block.
 */

#define N_THREADS 256

struct holders {
	struct fabric_holder holders[FABRIC_HOLDERS_MAX];
	/* for each holder, the rank() of the id that is shown */
	unsigned ranks[FABRIC_HOLDERS_MAX];
	size_t n_holders;
	unsigned n_more_ids, n_nameless_ids;
	/* cache, indexed by tid modulo N_THREADS, because one thread can make many ids */
	struct {
		uint32_t tid; /* 0: none */
		pid_t pid;
	} threads[N_THREADS];
};

/*
 * Two values of the kernel's enum rdma_cm_state, and the names of all its values, as `rdma resource show
 * cm_id` prints them.
 */
enum {
	STATE_CONNECT = 5,
	STATE_LISTEN = 8,
};

static const char *const states[] = {
	"IDLE",           "ADDR_QUERY",     "ADDR_RESOLVED",
	"ROUTE_QUERY",    "ROUTE_RESOLVED", [STATE_CONNECT] = "CONNECT",
	"DISCONNECT",     "ADDR_BOUND",     [STATE_LISTEN] = "LISTEN",
	"DEVICE_REMOVAL", "DESTROYING",
};

int holders_new(struct holders **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct holders *holders_free(struct holders *holders)
{
	free(holders);
	return NULL;
}

struct process {
	pid_t pid;
	uid_t uid;
	char name[FABRIC_HOLDER_NAME_MAX];
};

/*
 * Copies the text between KEY and the next line break to LINE, truncated to SIZE. NULL: TEXT does not contain
 * KEY.
 */
static const char *find_line(const char *text, const char *key, char *line, size_t size)
{
	const char *found = strstr(text, key);

	if (!found)
		return NULL;
	snprintf(line, size, "%.*s", (int)strcspn(found + strlen(key), "\n"), found + strlen(key));
	return line;
}

static void copy_printable(char *ret, size_t size, const char *text)
{
	size_t len = strlen(text), n = 0;

	for (size_t i = 0, step; i < len; i += step) {
		size_t printable = text_printable(text + i, len - i);

		step = printable ?: 1;
		if (n + step >= size)
			break;
		if (printable)
			memcpy(ret + n, text + i, step);
		else
			ret[n] = '?';
		n += step;
	}
	ret[n] = '\0';
}

/*
 * Reads the status file of a thread, in which line breaks in the thread's name are escaped. If the file
 * cannot be read (/proc can hide other users' processes), RET->pid is TID, and the rest is not known.
 */
static void read_process(uint32_t tid, struct process *ret)
{
	_cleanup_close_ int fd = -1;
	char path[64], text[1024], line[128], *end;
	ssize_t n;

	*ret = (struct process){ .pid = (pid_t)tid, .uid = (uid_t)-1 };
	snprintf(path, sizeof(path), "/proc/%u/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	if (find_line(text, "Name:\t", line, sizeof(line)))
		copy_printable(ret->name, sizeof(ret->name), line);
	if (find_line(text, "\nTgid:\t", line, sizeof(line)))
		ret->pid = (pid_t)strtol(line, NULL, 10);
	/* The line has first the real, then the effective uid. */
	if (find_line(text, "\nUid:\t", line, sizeof(line))) {
		strtoul(line, &end, 10);
		ret->uid = (uid_t)strtoul(end, NULL, 10);
	}
}

static struct fabric_holder *find_holder(struct holders *holders, pid_t pid)
{
	for (size_t i = 0; i < holders->n_holders; i++)
		if (holders->holders[i].pid == pid)
			return &holders->holders[i];
	return NULL;
}

static struct fabric_holder *add_holder(struct holders *holders, const struct process *process)
{
	struct fabric_holder *holder;

	if (holders->n_holders == FABRIC_HOLDERS_MAX)
		return NULL;
	holder = &holders->holders[holders->n_holders++];
	holder->pid = process->pid;
	holder->uid = process->uid;
	memcpy(holder->name, process->name, sizeof(holder->name));
	return holder;
}

/*
 * Finds or adds the holder that thread TID belongs to. False: TID is a thread of the daemon. *RET is NULL if
 * there are too many holders.
 */
static bool find_or_add(struct holders *holders, uint32_t tid, struct fabric_holder **ret)
{
	typeof(&holders->threads[0]) thread = &holders->threads[tid % N_THREADS];
	struct process process = { .pid = thread->pid };
	bool known = thread->tid == tid;

	if (!known) {
		read_process(tid, &process);
		thread->tid = tid;
		thread->pid = process.pid;
	}
	if (process.pid == getpid())
		return false;
	*ret = find_holder(holders, process.pid);
	/* If a cached thread has no holder, there was no room for its process before. */
	if (!*ret && !known)
		*ret = add_holder(holders, &process);
	return true;
}

/* For each holder, the first of its ids with the highest rank is shown. */
static unsigned rank(const struct cmdump_id *id)
{
	switch (id->state) {
	case STATE_LISTEN:
		return 3;
	case STATE_CONNECT:
		return 2;
	default:
		return 1;
	}
}

static bool is_unset(const struct sockaddr_storage *storage)
{
	const struct sockaddr *addr = (const struct sockaddr *)storage;

	return addr_is_wildcard(addr) && addr_port(addr) == 0;
}

static int take_id(void *userdata, const struct cmdump_id *id)
{
	struct holders *holders = userdata;
	struct fabric_holder *holder;
	unsigned *shown;

	if (id->kernel)
		return 0;
	if (id->tid == 0) {
		holders->n_nameless_ids++;
		return 0;
	}
	if (!find_or_add(holders, id->tid, &holder))
		return 0;
	if (!holder) {
		holders->n_more_ids++;
		return 0;
	}
	holder->n_ids++;
	shown = &holders->ranks[holder - holders->holders];
	if (rank(id) <= *shown)
		return 0;
	*shown = rank(id);
	holder->state = id->state < ELEMENTS_OF(states) ? states[id->state] : "?";
	holder->local = id->local;
	/* A listening id has no peer; the kernel reports 0.0.0.0:0 for it. */
	if (!is_unset(&id->peer))
		holder->peer = id->peer;
	else
		holder->peer.ss_family = AF_UNSPEC;
	return 0;
}

int holders_take(const struct nlmsghdr *header, void *data)
{
	struct cmdump dump = { .on_id = take_id, .userdata = data };

	return cmdump_take(header, &dump);
}

struct fabric_holders *holders_finish(const struct holders *holders)
{
	size_t size = holders->n_holders * sizeof(holders->holders[0]);
	struct fabric_holders *result = malloc(sizeof(*result) + size);

	if (!result)
		return NULL;
	result->seen_ms = clock_ms();
	result->n_more_ids = holders->n_more_ids;
	result->n_nameless_ids = holders->n_nameless_ids;
	result->n_holders = holders->n_holders;
	memcpy(result->holders, holders->holders, size);
	return result;
}

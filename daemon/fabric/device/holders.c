/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/device/holders.h"
#include "proto/addr.h"
#include "proto/cmdump.h"
#include "proto/maker.h"
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

/* The names of the kernel's enum rdma_cm_state, as `rdma resource show cm_id` prints them. */
static const char *const states[] = {
	"IDLE",           "ADDR_QUERY",     "ADDR_RESOLVED",
	"ROUTE_QUERY",    "ROUTE_RESOLVED", [CMDUMP_CONNECT] = "CONNECT",
	"DISCONNECT",     "ADDR_BOUND",     [CMDUMP_LISTEN] = "LISTEN",
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

static struct fabric_holder *find_holder(struct holders *holders, pid_t pid)
{
	for (size_t i = 0; i < holders->n_holders; i++)
		if (pid > 0 && holders->holders[i].pid == pid)
			return &holders->holders[i];
	return NULL;
}

static struct fabric_holder *add_holder(struct holders *holders, const struct maker *process)
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
	struct maker process = { .pid = thread->pid };
	bool known = thread->tid == tid;

	if (!known) {
		maker_read((pid_t)tid, &process);
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

static struct fabric_holder *find_module(struct holders *holders, const char *name)
{
	struct maker module = { .uid = (uid_t)-1 };

	text_copy(module.name, sizeof(module.name), name);
	text_make_printable(module.name, strlen(module.name));
	for (size_t i = 0; i < holders->n_holders; i++)
		if (holders->holders[i].pid == 0 &&
		    strcmp(holders->holders[i].name, module.name) == 0)
			return &holders->holders[i];
	return add_holder(holders, &module);
}

/* For each holder, the first of its ids with the highest rank is shown. */
static unsigned rank(const struct cmdump_id *id)
{
	switch (id->state) {
	case CMDUMP_LISTEN:
		return 3;
	case CMDUMP_CONNECT:
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

	if (id->kernel) {
		holder = find_module(holders, id->kernel);
	} else if (id->tid == 0) {
		holders->n_nameless_ids++;
		return 0;
	} else if (!find_or_add(holders, id->tid, &holder)) {
		return 0;
	}
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

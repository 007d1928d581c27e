/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_GUEST_KILLED_H
#define TESTS_GUEST_KILLED_H

/*
 * Programs that are killed at random moments, whose peers must be notified. All processes share the memory in which
 * they record what they do and see.
 */

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_MS 60000
/*
 * A peer that is not notified within this time is not notified by the broker: the connection's own timeouts end it
 * then.
 */
#define TOLD_MAX_MS 60000
#define CHILDREN_MAX 4096
#define LINKS_MAX 65536
#define N_WATCHED 4 /* connections to each server that is killed */

/* How far a client has come. */
enum state {
	STATE_STARTED, /* no session */
	STATE_SESSION, /* no request */
	STATE_REQUEST, /* no reply yet */
	STATE_ESTABLISHED,
	STATE_DISCONNECTING,
	N_STATES,
};

/* One in so many clients is killed with a request that its peer has not answered yet. */
#define N_ASKING 4
#define NOBODY (~0u)
#define EVENT_NONE (-1)
#define EVENT_ACCEPT_FAILED (-2)

struct child {
	atomic_int state;
	atomic_llong killed_ns; /* 0: alive */
	atomic_uint n_done; /* complete connections */
	atomic_uint n_failed;
};

/* A connection whose peer is killed, as the other end sees it. */
struct link {
	unsigned child; /* its peer; NOBODY: a process that is not killed */
	atomic_llong seen_ns, told_ns; /* 0: not yet */
	atomic_bool established;
	atomic_int event; /* that ended it */
};

struct shared {
	atomic_int listening; /* the port of the listening server */
	atomic_uint round; /* the last round that the watcher has finished */
	atomic_uint n_links;
	struct link links[LINKS_MAX];
	struct child children[CHILDREN_MAX];
};

/* killed.c: shared functions */

extern struct shared *shared;
extern struct sockaddr_in address; /* of the server */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
int64_t now_ns(void);
int64_t in_ms(int64_t ms);
int ms_until(int64_t deadline_ns);
unsigned number(const char *text, unsigned max);
void ring(void); /* wakes the processes that wait for a change */

/* killed-roles.c: the processes that the parent starts; each ends by itself, or is killed */

/* Connects, sends and disconnects in a loop. */
void run_client(uint32_t number);
/*
 * Accepts every request, or every Nth. FALLS: its entry, if it kills itself after it has accepted one; NULL: it does
 * not.
 */
void run_server(unsigned every, struct child *falls);
/* Keeps connections to a server that is killed. */
void run_watcher(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_GUEST_KILLED_H
#define TESTS_GUEST_KILLED_H

/*
 * Programs that are killed at random moments, whose peers must be notified. All processes share memory, in which each
 * records what it does and which events it gets.
 */

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_MS 60000
/*
 * A peer that is notified later than this was not notified by the broker: the connection's own timeouts have ended
 * it.
 */
#define TOLD_MAX_MS 60000
#define CHILDREN_MAX 4096
#define LINKS_MAX 65536
#define N_WATCHED 4 /* connections to each server that is killed */

/* The state that a client has reached. */
enum state {
	STATE_STARTED, /* it has no session */
	STATE_SESSION, /* it has sent no connect request */
	STATE_REQUEST, /* it has got no reply */
	STATE_ESTABLISHED,
	STATE_DISCONNECTING,
	N_STATES,
};

/* One in so many clients is killed while its peer has not yet replied to its request. */
#define N_ASKING 4
#define NOBODY (~0u)
#define EVENT_NONE (-1)
#define EVENT_ACCEPT_FAILED (-2)

struct child {
	atomic_int state;
	atomic_llong killed_ns; /* 0: alive */
	atomic_uint n_done; /* connections that were made and ended */
	atomic_uint n_failed;
};

/* A connection to a process that is killed, as its peer sees it. */
struct link {
	unsigned child; /* the other end; NOBODY: a process that is not killed */
	/* Times: the request has come, or is about to be sent; the peer is told of the end. 0: not yet. */
	atomic_llong seen_ns, told_ns;
	atomic_bool established;
	atomic_int event; /* the event that ended it */
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
extern struct sockaddr_in address; /* the server's address */

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
 * Accepts every request, or every Nth. FALLS: the server's entry, if it kills itself after an accept; NULL: it does
 * not.
 */
void run_server(unsigned every, struct child *falls);
/* Keeps connections to a server that is killed. */
void run_watcher(void);

#endif

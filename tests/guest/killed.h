/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_GUEST_KILLED_H
#define TESTS_GUEST_KILLED_H

/*
 * Programs that are killed at random moments, whose peers must be notified. Each process records in shared memory
 * what it does and which events it gets.
 */

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/patience.h"

#define DEADLINE_MS PATIENCE_MS
/* A peer that is told UNREACHABLE later is not told by the broker: the handshake has ended by the kernel's timeouts. */
#define TOLD_MAX_MS 60000
#define CHILDREN_MAX 4096
#define LINKS_MAX 65536
#define N_WATCHED 4 /* connections to each server that is killed */

/* The state of a client, which repeats from STATE_SESSION on. */
enum state {
	STATE_STARTED, /* no session yet */
	STATE_SESSION, /* has a session, and has not begun to connect */
	STATE_REQUEST, /* has begun to connect, and has no reply yet */
	STATE_ESTABLISHED,
	STATE_DISCONNECTING,
	N_STATES,
};

/* One in this number of clients kills itself immediately after its connect request. */
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

/* A connection, recorded by one end ("this end"). */
struct link {
	unsigned child; /* number of the peer that is killed; NOBODY: none is killed */
	/*
	 * The time of the connect request at this end, and the time at which this end was notified of the
	 * connection's end; 0: not yet.
	 */
	atomic_llong seen_ns, told_ns;
	atomic_bool established;
	atomic_int event; /* the event that ended the connection */
};

struct shared {
	atomic_int listening; /* the port of the listening server */
	atomic_uint round; /* the last round that the watcher has finished */
	atomic_uint n_links;
	struct link links[LINKS_MAX];
	struct child children[CHILDREN_MAX];
};

extern struct shared *shared;
extern struct sockaddr_in address; /* the server's address */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
int64_t now_ns(void);
int64_t in_ms(int64_t ms);
int ms_until(int64_t deadline_ns);
unsigned number(const char *text, unsigned max);
void ring(void); /* wakes the parent, which waits for a change in SHARED */

/* killed-roles.c: the processes that the parent starts; each ends by itself, or is killed */

/* Connects, sends and disconnects in a loop. */
void run_client(uint32_t number);
/*
 * Accepts one in EVERY requests. FALLS: the server's entry in shared->children, if it kills itself after its first
 * accept; NULL: it does not.
 */
void run_server(unsigned every, struct child *falls);
/* Connects to one server after the other, and waits until it is notified that the connections have ended. */
void run_watcher(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_GUEST_KILLED_H
#define TESTS_GUEST_KILLED_H

/*
 * Programs that are killed at random moments, and peers that have to be told. What each process does and
 * sees is in memory that all share.
 */

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_MS 60000
/* Who is not told within this time is never told: a connection's own timeouts end it then. */
#define TOLD_MAX_MS 60000
#define CHILDREN_MAX 4096
#define LINKS_MAX 65536
#define N_WATCHED 4 /* connections to each server that is killed */

/* How far a client was. */
enum state {
	STATE_STARTED, /* no session */
	STATE_SESSION, /* no request */
	STATE_REQUEST, /* not answered */
	STATE_ESTABLISHED,
	STATE_DISCONNECTING,
	N_STATES,
};

/* Every fourth client is killed with a request that its peer has not had time for. */
#define N_ASKING 4
#define NOBODY (~0u)
#define EVENT_NONE (-1)
#define EVENT_ACCEPT_FAILED (-2)

struct child {
	atomic_int state;
	atomic_llong killed_ns; /* 0: it lives */
	atomic_uint n_done; /* connections from beginning to end */
	atomic_uint n_failed;
};

/* A connection, as the one sees it whose peer is killed. */
struct link {
	unsigned child; /* that is its peer; NOBODY: not one that is killed */
	atomic_llong seen_ns, told_ns; /* 0: not yet */
	atomic_bool established;
	atomic_int event; /* by which its end is told */
};

struct shared {
	atomic_int listening; /* the port */
	atomic_uint round; /* the last one that the watcher is done with */
	atomic_uint n_links;
	struct link links[LINKS_MAX];
	struct child children[CHILDREN_MAX];
};

/* killed.c: what all use */

extern struct shared *shared;
extern struct sockaddr_in address; /* of the server */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
int64_t now_ns(void);
int64_t in_ms(int64_t ms);
int ms_until(int64_t deadline_ns);
unsigned number(const char *text, unsigned max);
void ring(void); /* whoever has changed what another waits for does */

/* killed-roles.c: processes that the parent starts; each ends by itself, or is killed */

/* Connects, sends and disconnects, for ever. */
void run_client(uint32_t number);
/* Takes every request, or every Nth. FALLS: as which it kills itself once it has accepted one; NULL: it does not. */
void run_server(unsigned every, struct child *falls);
/* Has connections to a server that is killed. */
void run_watcher(void);

#endif

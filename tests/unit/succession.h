/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The daemon dies, and the next process takes over. A daemon "dies" here by never running again: its descriptors stay
 * open, as those of a process that was killed would in the store of systemd. The library is in this process too, and
 * notices nothing.
 */

#include <rdmabroker.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "tests/patience.h"

#define PORT 7471
#define T PATIENCE_MS

struct rdmabroker_status;

extern struct rdmabroker *server, *client; /* sessions */
extern struct rdmabroker_id *listener; /* of SERVER, see start_listening() */
extern struct rdmabroker_id *id; /* of CLIENT */
extern struct rdmabroker_id *accepted; /* the connection request that LISTENER got last */
/* While true: when the library waits and nothing is left to do, the daemon is restarted once. */
extern bool kills_in_wait;
extern void (*before_kill)(void); /* is called before that; NULL: nothing is */
/* For hooks_kill_at(). Jumps to KILLED. If the library waits, the next daemon is started, and the test goes on. */
void on_kill(void);
/* For LeakSanitizer: what a daemon has allocated when it dies in the middle of a call is reachable from nowhere. */
void allow_leaks(void);
extern jmp_buf killed;

/* Runs the daemon until nothing is left to do. If it is killed, the next one runs. */
void run_all(void);

void succession_set_up(void);
void succession_tear_down(void);
void start_broker(void);
void kill_broker(void);
void restart(void);
void restart_with(const char *rules); /* with OnReload=enforce */

struct rdmabroker *open_session(void);
/* CLIENT and SERVER become sessions whose steps get a reply only if they fail. */
void be_quiet(void);
/* SERVER and CLIENT become sessions whose replies come by a third one. They have descriptors that block. */
void be_apart(void);
unsigned n_sessions(void); /* that succession_set_up() and be_apart() have opened */
struct rdmabroker *open_helper(void); /* by the helper's socket */
struct rdmabroker_id *new_id(struct rdmabroker *session);
const struct sockaddr *addr(uint16_t port);
struct rdmabroker_status *get_status(void);

/* Takes the next event of SESSION, which has to be of TYPE and about ABOUT. Returns its status. */
int expect(struct rdmabroker *session, enum rdmabroker_event_type type,
	   struct rdmabroker_id *about);
void expect_nothing(struct rdmabroker *session);
void expect_end(struct rdmabroker *session); /* the session has ended */

void start_listening(void);
void resolve(struct rdmabroker_id *one);
void request_connection(uint32_t qpn); /* ID connects, and LISTENER has got the request */
void accept_and_establish(uint32_t qpn);
void connect_ids(uint32_t qpn); /* both */
void end_connection(void);

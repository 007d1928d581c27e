/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Time wait: packets of a connection that has ended can still be in the network. Besides, a peer that has missed the
 * disconnect rejects a new connection of the same QP number as stale. So a connect or accept that offers the QP
 * number to the same peer during the time wait is held back (held.h) until the time wait is over. A peer is an address,
 * so a peer with several addresses can still reject the connection as stale; then the library tries again.
 *
 * The user has chosen how long the time wait is, by the ACK timeout. The number can be another user's QP by then, which
 * waits for TIMEWAIT_OTHERS_USEC at most.
 *
 * A time wait is over at the kernel's TIMEWAIT_EXIT event, or after the time that the kernel is expected to wait. If
 * the id is destroyed, there is no event. One timer ends the time waits of destroyed ids in batches. An owner whose
 * connects or accepts are held back gets a timer of his own for each number and peer.
 *
 * A user can have many connections of one number to one peer, and many connects that wait for their end: they are counted,
 * not walked, and resumed some at a time, the owners in rotation.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

#define TIMEWAIT_MAX_USEC (60 * 1000000ULL)
/* Twice the time wait with the ACK timeout that the kernel sets on RoCE, 4.096 us * 2^19. */
#define TIMEWAIT_OTHERS_USEC (4096 * 1000ULL)
#define TIMEWAIT_PER_OWNER \
	16384 /* numbers and peers; further time waits of the owner are not kept */
#define TIMEWAIT_QUEUES 17 /* 2^16 ms is the first duration above the maximum */

struct id;

struct place;
struct timewait_owner;

struct timewaits {
	void (*resume)(struct id *id); /* conn_resume() */
	struct place *places; /* a uthash table, by device, number and peer */
	struct timewait_owner *owners; /* a uthash table, by uid */
	unsigned n; /* what owners have in places */
	/*
	 * share.due, in the order in which the time waits end. Queue I has the time waits of 2^I ms, the last queue
	 * those of TIMEWAIT_MAX_USEC.
	 */
	struct list queues[TIMEWAIT_QUEUES];
	unsigned n_orphans; /* those whose end the timer has to notice */
	sd_event_source *timer;
	uint64_t armed_usec; /* CLOCK_MONOTONIC: when the timer expires; UINT64_MAX: it is off */
	struct list
		resuming; /* timewait_owner.link: owners whose connects and accepts can be sent */
	sd_event_source *resumer; /* enabled while RESUMING has entries */
};

int timewaits_init(struct timewaits *timewaits, sd_event *loop, void (*resume)(struct id *id));
/* Must not be called while a connect or accept is held back. */
void timewaits_done(struct timewaits *timewaits);

/* The id's connection has ended: begins the id's time wait, if it has not begun before. */
void timewait_enter(struct id *id);
/* The kernel reports that the id's time wait is over. */
void timewait_exit(struct id *id);
/*
 * The id is freed, or disconnected while its connect or accept is held back: drops what is held back. Its time wait goes
 * on without it.
 */
void timewait_forget(struct id *id);
/* Moves FROM's time wait, and its connect or accept that is held back, to TO. */
void timewait_move(struct id *from, struct id *to);

/*
 * Returns 0: PARAM can be sent now; 1: it is held back as ID.held, because its QP number is in time wait, and
 * timewaits.resume will be called; or a negative errno.
 */
int timewait_hold(struct id *id, const struct rdma_conn_param *param, bool accept);
/* For ID.held, which does not wait: returns as timewait_hold(). */
int timewait_hold_again(struct id *id);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Time wait: after a connection has ended, its packets may still be in the network. Besides, the peer may still have
 * the connection, for example because a disconnect was lost; then it rejects a new one of the same QP number as stale.
 * A connect or accept that offers the QP number during the time wait is held back, and sent when the time is over. To
 * the client the peer just seems slow to answer.
 *
 * Each time wait has an entry (struct entry), which ends with the kernel's TIMEWAIT_EXIT event. If the id is
 * destroyed earlier, there is no TIMEWAIT_EXIT. Then the entry is over after the time that the kernel is expected to
 * wait. Nothing depends on when such an entry is freed, so one timer frees the entries in batches. An entry for which
 * a connect or accept is held back has a timer of its own, which ends it exactly when it is over.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

#define TIMEWAIT_BUCKETS 256
#define TIMEWAIT_MAX_USEC (60 * 1000000ULL)
#define TIMEWAIT_QUEUES 17 /* 2^16 ms is the first duration above the maximum */

struct core;
struct id;

struct timewaits {
	/* Sends the connect or accept of ID that was held back, or holds it back again: conn_resume(). */
	void (*resume)(struct id *id, const struct rdma_conn_param *param, bool accept);
	struct list buckets[TIMEWAIT_BUCKETS]; /* entry.link */
	unsigned n;
	/*
	 * entry.due, in the order in which the entries end. All entries of a queue have the same duration: queue I
	 * has those of 2^I ms, the last one those of TIMEWAIT_MAX_USEC.
	 */
	struct list queues[TIMEWAIT_QUEUES];
	unsigned n_orphans; /* number of entries without an id, which the timer has to free */
	sd_event_source *timer;
	uint64_t armed_usec; /* CLOCK_MONOTONIC: when the timer expires; UINT64_MAX: it is off */
};

int timewaits_init(struct timewaits *timewaits, sd_event *loop,
		   void (*resume)(struct id *id, const struct rdma_conn_param *param, bool accept));
/* Must not be called while a connect or accept is held back. */
void timewaits_done(struct timewaits *timewaits);

/* The id's connection has ended: its time wait begins. No effect if the id's time wait has begun before. */
void timewait_enter(struct id *id);
/* The kernel reports that the time wait of the id is over. */
void timewait_exit(struct id *id);
/*
 * Drops a connect or accept of the id that is held back. If the id has an entry, the entry remains, without the id.
 * To be called when the id is freed, or is disconnected while its connect or accept is held back.
 */
void timewait_forget(struct id *id);
/* Moves the state of FROM's time wait, and its connect or accept that is held back, to TO. */
void timewait_move(struct id *from, struct id *to);

/*
 * Checks whether PARAM's QP number is in time wait. Returns 0 if the connect or accept can be sent now, or a negative
 * errno. Returns 1 if it is held back: then ID.request was taken over, and timewaits.resume will be called with a
 * copy of PARAM, unless timewait_forget() is called before.
 */
int timewait_hold(struct id *id, const struct rdma_conn_param *param, bool accept);

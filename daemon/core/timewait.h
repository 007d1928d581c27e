/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Time wait: after a connection has ended, packets of it may still be under way, and its peer rejects a
 * new connection of the same QP number as stale. A number that is offered during that time is held back,
 * and goes out when the time is over; to the client it looks like a peer that is slow to answer.
 *
 * An entry ends with the kernel's TIMEWAIT_EXIT. If the id is destroyed before, the kernel does not say
 * when; then it is the time that the kernel would have waited.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "util/list.h"

#define TIMEWAIT_BUCKETS 256
#define TIMEWAIT_MAX_USEC (60 * 1000000ULL)

struct core;
struct id;

struct timewaits {
	struct list buckets[TIMEWAIT_BUCKETS]; /* entry.link */
	unsigned n;
};

void timewaits_init(struct timewaits *timewaits);
void timewaits_done(struct timewaits *timewaits); /* no connection may be held back any more */

/* The id's connection has ended. Twice is once. */
void timewait_enter(struct id *id);
/* The kernel says that its time is over. */
void timewait_exit(struct id *id);
/* The id goes: its entry lives on by itself, and what is held back for it is dropped. */
void timewait_forget(struct id *id);
/* What is known and held of FROM is TO's from now on. */
void timewait_move(struct id *from, struct id *to);

/*
 * Whether PARAM's QP number has to wait: 1, and it is kept until conn_resume() is called with it; 0: it
 * can go out now; or a negative errno.
 */
int timewait_hold(struct id *id, const struct rdma_conn_param *param, bool accept);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Notices for observers: they report what happens to all clients. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/rdmabroker.pb-c.h"

struct notice;
struct rdmabroker;

/* Guarded by the session's lock. */
struct notices {
	bool watching; /* the program has called watch; else notices are dropped */
	TAILQ_HEAD(, notice) list;
	unsigned n; /* number of notices in LIST */
	size_t n_bytes; /* size of the notices in LIST */
	uint64_t n_lost; /* number of notices dropped since the last one was added to LIST */
};

void notices_init(struct notices *notices);
void notices_done(struct notices *notices);
/*
 * Append the notice FRAME to the list, or drop it if the list is full, memory runs out or nobody watches. Takes
 * ownership of FRAME.
 */
void notices_receive(struct notices *notices, Rdmabroker__Frame *frame);
/* Whether get_notice() would return one. */
bool notices_has_any(const struct notices *notices);

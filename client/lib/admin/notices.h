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
	unsigned n;
	size_t n_bytes;
	uint64_t n_lost; /* notices dropped since the last one was queued */
};

void notices_init(struct notices *notices);
void notices_done(struct notices *notices);
/*
 * Queue FRAME, or drop it if the queue is full, memory runs out, or the program does not watch. Takes ownership of
 * FRAME.
 */
void notices_receive(struct rdmabroker *session, Rdmabroker__Frame *frame);
/*
 * Sets whether notices are queued, and returns the old value. Called before the request for notices is sent, because
 * they can follow directly after its reply. Takes the lock.
 */
bool notices_set_wanted(struct rdmabroker *session, bool watching);
/* Whether get_notice() has a notice to return. */
bool notices_has_any(const struct notices *notices);

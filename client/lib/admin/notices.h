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
/* Sends REQUEST, of the call NAME, after which notices are queued. Waits for the reply. Takes the lock. */
int notices_request(struct rdmabroker *session, const char *name, Rdmabroker__Request *request);
/* Whether get_notice() has a notice to return. */
bool notices_has_any(const struct notices *notices);

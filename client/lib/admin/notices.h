/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* For admins: notices of what happens to all clients. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/rdmabroker.pb-c.h"

struct notice;
struct rdmabroker;

/* Guarded by the session's lock. */
struct notices {
	bool watching; /* notices are wanted */
	TAILQ_HEAD(, notice) list;
	unsigned n; /* of LIST */
	size_t n_bytes; /* of LIST */
	uint64_t n_lost; /* dropped after the last one in LIST, which was full */
};

void notices_init(struct notices *notices);
void notices_done(struct notices *notices);
/* FRAME is handed over. If the list is full the notice is lost. */
void notices_receive(struct notices *notices, Rdmabroker__Frame *frame);
/* Whether get_notice() would return one. */
bool notices_has_any(const struct notices *notices);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A hostile daemon, which runs while the library waits. Its replies come from the input. If it does not reply, the
 * library's deadline passes at once.
 */

#include "client/admin.h"
#include "tests/fuzz/fuzz.h"

struct hostile {
	struct input *input;
	int sock; /* the daemon's end; -1: closed */
	uint32_t serials[64]; /* serials of the oldest unanswered requests, in order */
	int ops[64];
	unsigned n_requests;
	bool honest; /* the daemon replies to each request with a valid success */
};

/* NULL: failed. */
struct rdmabroker *hostile_open(struct hostile *hostile, struct input *input, unsigned flags);
void hostile_close(struct hostile *hostile, struct rdmabroker *session);

void hostile_send_event(struct hostile *hostile, Rdmabroker__Event *event);

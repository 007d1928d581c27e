/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A hostile daemon. It runs when the library waits, and its replies come from the input. If it does not reply, the
 * library's deadline passes at once.
 */

#include "client/rdmabroker-admin.h"
#include "tests/fuzz/fuzz.h"

struct hostile {
	struct input *input;
	int sock; /* the daemon's end; -1: closed */
	uint32_t serials[64]; /* serials of the first unanswered requests, the oldest first */
	int ops[64];
	unsigned n_requests;
	bool honest; /* it replies to each request with a valid success */
};

/* Opens a session with the daemon. Returns NULL if that fails. */
struct rdmabroker *hostile_open(struct hostile *hostile, struct input *input, unsigned flags);
void hostile_close(struct hostile *hostile, struct rdmabroker *session);

/* Sends EVENT unchanged. */
void hostile_send_event(struct hostile *hostile, Rdmabroker__Event *event);

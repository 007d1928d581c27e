/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A daemon that the library cannot trust. It answers when the library waits, with what the input says;
 * what it does not answer ends with the library's deadline, at once.
 */

#include "client/rdmabroker.h"
#include "tests/fuzz/fuzz.h"

struct hostile {
	struct input *input;
	int sock; /* the daemon's end; -1: closed */
	uint32_t serials[64]; /* of requests not answered yet, the oldest first */
	int ops[64];
	unsigned n_requests;
	bool honest; /* the next answers are what a broker would say */
};

/* A session with it, as the library's connect() would find it; NULL: refused. */
struct rdmabroker *hostile_open(struct hostile *hostile, struct input *input, unsigned flags);
void hostile_close(struct hostile *hostile, struct rdmabroker *session);

/* EVENT is sent as it is. */
void hostile_send_event(struct hostile *hostile, Rdmabroker__Event *event);

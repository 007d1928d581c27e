/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The replies to a request, one or several pages, and the struct that is made of them and points into them. Pages have a
 * common deadline and size limit.
 */

#include "client/lib/wire/sessionparts.h"
#include "proto/rdmabroker.pb-c.h"

struct replies {
	Rdmabroker__Frame **list;
	size_t n;
	const char *call; /* its name */
};

/* Lets REQUEST ask for the page after REPLY. Returns 1; 0: REPLY is the last one; -EPROTO: REPLY does not advance. */
typedef int replies_next(const Rdmabroker__Reply *reply, Rdmabroker__Request *request);

/* Gets the replies to REQUEST, of the kind RESULT. NEXT NULL: there is only one. On failure there is nothing to free. */
int replies_get(struct replies *ret, struct rdmabroker *session, const char *call,
		Rdmabroker__Request *request, Rdmabroker__Reply__ResultCase result,
		replies_next *next);
/* Whether a page that begins at A, B comes after the one that began at FROM_A, FROM_B. */
bool replies_is_further(uint64_t a, uint32_t b, uint64_t from_a, uint32_t from_b);
/* Takes ownership of FRAME, also on failure, which is -ENOMEM. */
int replies_add(struct replies *replies, Rdmabroker__Frame *frame);
/* IN NULL: an older daemon does not say. */
struct rdmabroker_learned learned_get(const Rdmabroker__Learned *in);
void replies_free(struct replies *replies);
/*
 * A new struct of SIZE bytes that are 0, to which REPLIES belong from now on: rdmabroker_free() frees both. NULL: out of
 * memory, which is the last failure, and REPLIES are freed.
 */
void *replies_keep(struct replies *replies, size_t size);

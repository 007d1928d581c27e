/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Who the peer of a connection is: what the broker of the peer's host has answered, or why there is no answer. It is
 * kept as long as the connection's id.
 */

#include <stdint.h>

#include "policy/policy.h"

struct peerid {
	struct policy_peer who; /* if WHY is empty; its arrays and texts are allocated */
	char why[160]; /* why it is not known, for users */
};

/* Copies WHO. NULL: out of memory. */
struct peerid *peerid_new(const struct policy_peer *who);
struct peerid *peerid_new_unknown(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct peerid *peerid_free(struct peerid *peerid); /* takes NULL; returns NULL */
/* NULL: it is not known. PEERID can be NULL. */
const struct policy_peer *peerid_who(const struct peerid *peerid);
/* Why it is not known, for users; NULL: it is known. PEERID NULL: memory ran out. */
const char *peerid_why(const struct peerid *peerid);

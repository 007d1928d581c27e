/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Which texts of other hosts are given to MUNGE. munged writes a line to its log for each that is not right, and anybody
 * who reaches the port can send texts. So they must look like a credential, and wrong ones are limited.
 */

#include <netinet/in.h>
#include <stdint.h>

#define GATE_MS 1000
/* Texts in GATE_MS that are wrong or still being opened, of one address: of IPv6 of one /64, and 127.0.0.0/8 is one. */
#define GATE_OF_ADDRESS_MAX 50
#define GATE_MAX 200 /* the same, of all addresses */

struct gate {
	int64_t begin_ms; /* of the present period; 0: there was none */
	unsigned n; /* texts in it */
	struct gate_address {
		struct in6_addr from;
		unsigned n; /* texts */
	} addresses[GATE_MAX]; /* each has at least one of the texts */
	unsigned n_addresses;
};

/* A text that was let through. All zero: it was not counted. */
struct gate_text {
	struct in6_addr from;
	int64_t begin_ms;
};

/*
 * Returns why TEXT is not to be given to MUNGE; NULL: it is, and *RET was set. FROM NULL: a right text has come through the
 * same connection before, so no limit applies.
 */
const char *gate_check(struct gate *gate, const char *text, const struct sockaddr *from,
		       struct gate_text *ret);
/* MUNGE has found TEXT to be right, so it does not count. */
void gate_was_right(struct gate *gate, const struct gate_text *text);

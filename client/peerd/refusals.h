/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What other hosts get refused is said in the journal, but they cannot fill it. */

#include <stdint.h>

#define REFUSALS_MAX 10 /* lines in each REFUSALS_MS */
#define REFUSALS_MS (10 * 1000)

struct refusals {
	int64_t begin_ms; /* of the present period; 0: there was none */
	unsigned n; /* lines in it */
	unsigned n_left_out;
};

/* Prints "Refused the WHAT of ADDRESS: why." */
void refusals_print(struct refusals *refusals, const char *what, const char *address,
		    const char *why);

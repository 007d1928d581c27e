/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Why a version was refused, as a list of texts for the fleet's admin. It is limited, because etcd limits what a host
 * can report.
 */

#include <stddef.h>
#include <stdint.h>

#define CAUSES_MAX 16

/* What has been reported about one matter since it was right. All zero: nothing. */
struct causes {
	uint64_t known[CAUSES_MAX];
	size_t n; /* how many were added; the oldest are forgotten */
};

/* Whether CAUSE is new. Remembers it. */
int causes_add(struct causes *causes, uint64_t cause);
/* The same for a text. */
int causes_add_text(struct causes *causes, const char *text);
/* Forgets all. Returns whether there was any. */
int causes_clear(struct causes *causes);

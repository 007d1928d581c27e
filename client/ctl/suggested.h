/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Reads rules that the verb suggest has printed, for example with --kernel before the daemon was installed: what they allow,
 * as rows that new rules can be made of, together with others.
 */

#include <stddef.h>

#include "client/admin.h"
#include "suggestion.h"

struct suggested {
	struct rdmabroker_refusal *rows; /* with suggested_outcome */
	size_t n;
	char **texts; /* that rows point to */
	size_t n_texts;
};

/* Ends the program if the file PATH has something else. */
void suggested_read(struct suggested *ret, const char *path,
		    const struct suggestion_options *options);
void suggested_done(struct suggested *suggested);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Some names for a sentence: "n1, n2, n3 and 12 more". */

#define NAMES_MAX 8 /* so many are named */

struct names {
	unsigned n; /* all */
	char text[NAMES_MAX * 66 + 32]; /* after names_text() */
};

/* Others have written NAME: what could control a terminal is replaced, and it is cut. */
void names_add(struct names *names, const char *name);
/* The list. Call it once, at the end. */
const char *names_text(struct names *names);

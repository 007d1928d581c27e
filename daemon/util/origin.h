/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The place where a failure of the daemon began: the line that first returned the negative errno. That line calls
 * origin_note(). The code that reports the failure prints the place too, because an errno alone does not show which
 * of many calls failed.
 */

struct origin {
	const char *file; /* NULL: not recorded */
	int line;
	int error; /* the negative errno that was returned */
};

static inline int origin_note_at(struct origin *origin, int r, const char *file, int line)
{
	if (r < 0)
		*origin = (struct origin){ .file = file, .line = line, .error = r };
	return r;
}

/* Records this line if R is a negative errno. Returns R. */
#define origin_note(origin, r) origin_note_at((origin), (r), __FILE__, __LINE__)

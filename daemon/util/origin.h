/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The line that first returned the negative errno of a failure. That line calls origin_note(), and the report
 * of the failure names the line.
 */

struct origin {
	const char *file; /* NULL: not recorded */
	int line;
	int error; /* a negative errno */
};

static inline int origin_note_at(struct origin *origin, int r, const char *file, int line)
{
	if (r < 0)
		*origin = (struct origin){ .file = file, .line = line, .error = r };
	return r;
}

/* Records this line if R is a negative errno. Returns R. */
#define origin_note(origin, r) origin_note_at((origin), (r), __FILE__, __LINE__)

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Where a failure of the daemon's own began: the line that first returned the negative errno. It is noted there
 * and printed where the failure is reported, because an errno alone does not say which of many calls failed.
 */

struct origin {
	const char *file; /* NULL: not noted */
	int line;
	int error; /* the negative errno */
};

static inline int origin_note_at(struct origin *origin, int r, const char *file, int line)
{
	if (r < 0)
		*origin = (struct origin){ .file = file, .line = line, .error = r };
	return r;
}

/* Notes this line if R is a negative errno. Returns R. */
#define origin_note(origin, r) origin_note_at((origin), (r), __FILE__, __LINE__)

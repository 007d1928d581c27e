/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Memory. This program does not live long: when memory is used up, it says so and ends. */

#include <err.h>
#include <stdlib.h>

/* Returns AT, which was just allocated. */
static inline void *allocated(void *at)
{
	if (!at)
		errx(EXIT_FAILURE, "out of memory");
	return at;
}

/* Returns LIST, which has N items of SIZE bytes, with room for one more. */
static inline void *grow(void *list, size_t n, size_t size)
{
	/* By powers of two. */
	if (n > 0 && (n & (n - 1)) != 0)
		return list;
	return allocated(realloc(list, (n > 0 ? 2 * n : 1) * size));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Keeps those of the N GIDS that are among OTHERS as well, in their order. Returns how many. */
static inline size_t gids_keep_common(uint32_t *gids, size_t n, const uint32_t *others,
				      size_t n_others)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n_others; k++)
			if (others[k] == gids[i]) {
				gids[kept++] = gids[i];
				break;
			}
	return kept;
}

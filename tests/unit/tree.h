/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <ftw.h>
#include <stdio.h>

static inline int remove_one(const char *name, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(name);
}

/* Removes the folder PATH with all that is in it, if it exists. Follows no symbolic links. */
static inline void remove_tree(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

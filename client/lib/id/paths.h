/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The paths of an id's route. */

#include <infiniband/sa.h>
#include <stddef.h>

#include "proto/rdmabroker.pb-c.h"

#define PATHS_MAX 2

struct paths {
	size_t n;
	struct ibv_sa_path_rec paths[PATHS_MAX];
};

/* Converts the first PATHS_MAX of N paths. */
void paths_get(struct paths *ret, Rdmabroker__Path *const *paths, size_t n);

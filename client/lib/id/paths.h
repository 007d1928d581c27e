/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The paths of an id's route. */

#include "proto/path.h"

struct paths {
	size_t n;
	struct ibv_sa_path_rec paths[PATHS_MAX];
};

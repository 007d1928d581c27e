/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Converts between the paths of an id, as librdmacm has them, and their bytes in the protocol: one PathRecord of
 * InfiniBand's subnet administration (struct ibv_path_record) after the other.
 */

#include <infiniband/sa.h>
#include <stddef.h>
#include <stdint.h>

#define PATHS_MAX 2 /* paths of an id */
#define PATHS_SIZE (PATHS_MAX * sizeof(struct ibv_path_record))

/* Packs N paths, at most PATHS_MAX. Returns the number of bytes. */
size_t paths_pack(uint8_t ret[PATHS_SIZE], const struct ibv_sa_path_rec *paths, size_t n);

struct paths {
	size_t n;
	struct ibv_sa_path_rec paths[PATHS_MAX];
};

/* Unpacks the first PATHS_MAX paths, and ignores the rest of LEN bytes. */
void paths_unpack(struct paths *ret, const uint8_t *data, size_t len);

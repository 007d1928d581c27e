/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The table of refused.h on disk, so that a reboot keeps it: while warn rules exist, and from then on until the admin
 * clears it. A thread writes it, at most every five minutes, and every hour if only counts and times have changed. A
 * file that is damaged, or cannot be written, is told of, and costs nothing but the table.
 */

#include <stdbool.h>

struct core;
struct learned;

#define LEARNED_FILE "refusals"

/*
 * DIRECTORY: the daemon's own; the file is read from it, unless a previous process has left the table in the ledger. *RET
 * is NULL if DIRECTORY is.
 */
int learned_new(struct learned **ret, struct core *core, const char *directory);
/* WRITES: nobody else will write what has changed. Before core_free(). */
struct learned *learned_free(struct learned *learned, bool writes);

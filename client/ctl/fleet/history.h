/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What was rolled out to a label, in two keys:
 *
 *   history/LABEL       an array of {"version", "time", "by"}, the newest last: where rollback can go. What was rolled back
 *                       is no longer in it
 *   history/LABEL/log   an array of {"what", "version", "before", "time", "by"}: everything that was done. WHAT is "use",
 *                       "rollback" or "clear"
 *
 * Both are written together with the roll-out. Older programs know the first one only.
 */

#include "fleetctl.h"

#define HISTORY_MAX 16
#define HISTORY_LOG_MAX 64

/*
 * The history up to the version that is rolled out now, with it. If another program has rolled it out, nobody knows who
 * that was. ROLLOUT NULL: empty. NULL: out of memory.
 */
json_t *history_known(const struct rollout *rollout);
/* The version of the entry I, which can be printed; NULL: it has none. */
const char *history_version_at(const json_t *history, size_t i);
/* Adds VERSION, by who runs this, unless it is the newest one already. */
void history_add(json_t *history, const char *version);
/*
 * Removes from HISTORY, of history_known(), what rollback leaves behind, and returns where it goes: the version of the
 * newest entry that is left. NULL: nothing is left.
 */
const char *history_go_back(json_t *history, const struct rollout *rollout);
/* The log with what is done now. VERSION NULL: none. NULL: out of memory. */
json_t *history_log(const struct rollout *rollout, const char *what, const char *version);

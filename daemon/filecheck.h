/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* rdmabrokerd --check: the check of rules and configuration. */

#include <stdbool.h>
#include <stddef.h>

#include "broker.h"

/*
 * Parses FILES or, if N_FILES is 0, the files that the daemon would read. Returns 0, or 1: there are errors,
 * or the check or its output failed. Errors are printed to stderr. With JSON the result is an object on
 * stdout instead.
 */
int filecheck_run(const struct broker_options *options, char **files, size_t n_files, bool json);

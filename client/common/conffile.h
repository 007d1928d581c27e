/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The settings of a program: from its configuration file, whose keys are described by a table (proto/inifile.h), and from
 * the command line, which overrides the file. Errors are reported to stderr (log.h).
 */

#include <stdbool.h>

#include "proto/inifile.h"

/*
 * Sets the defaults, then reads the file PATH. A file that does not exist is an error only if MUST_EXIST is set. Goes on
 * after an error, so that each one is reported. Returns 0 or a negative errno.
 */
int conffile_read(const char *path, bool must_exist, const struct inifile_key *keys,
		  void *settings);
/* Sets the key NAME to VALUE, the argument of the option --OPTION; NULL: not given. False: it is not valid, which was reported. */
bool conffile_override(const struct inifile_key *keys, const char *name, const char *option,
		       const char *value, void *settings);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A daemon on the fake fabric, which is a process of its own, for tests of programs that load the built libraries. */

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

extern pid_t brokerprocess_pid; /* 0: it is stopped */

/* Makes the folder with its files and RULES, starts it, and sets RDMABROKER_SOCKET. */
void brokerprocess_begin(const char *rules);
void brokerprocess_end(void);
void brokerprocess_start(void);
void brokerprocess_stop(void);

const char *brokerprocess_path(const char *name,
			       char ret[64]); /* of a file in the folder; returns RET */
const char *brokerprocess_built(const char *file,
				char ret[PATH_MAX]); /* of FILE in the build directory */
bool brokerprocess_is_sanitized(void); /* this program */

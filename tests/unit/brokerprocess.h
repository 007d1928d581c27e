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
void brokerprocess_write_rules(const char *rules); /* for the next start */

const char *brokerprocess_path(const char *name,
			       char ret[64]); /* of a file in the folder; returns RET */
const char *brokerprocess_built(const char *file,
				char ret[PATH_MAX]); /* of FILE in the build directory */
bool brokerprocess_is_sanitized(void); /* this program */

/* What CALL prints to stderr is then in brokerprocess_printed. */
#define PRINTS(call)                                    \
	do {                                            \
		int old_ = brokerprocess_begin_print(); \
		call;                                   \
		brokerprocess_end_print(old_);          \
	} while (0)
extern char brokerprocess_printed[4096];
int brokerprocess_begin_print(void);
void brokerprocess_end_print(int old);

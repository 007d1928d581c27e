/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The real rdmabrokerctl, against the harness's server over a real socket. */

#include <stdbool.h>
#include <sys/types.h>

#include "tests/unit/harness.h"

/* What the last run gave. */
extern struct got {
	int status;
	char out[65536], err[65536];
} got;

extern char program[4096]; /* rdmabrokerctl */
extern uid_t run_as; /* 0: as who runs the test */

const char *build_dir(void);
void set_up_ctl(void);

int run(const char *const *argv); /* the exit status */
/*
 * As somebody else, from copies that others can read, for the build directory need not be open to them.
 * False: only root can. PROGRAM is gone afterwards.
 */
bool run_as_nobody(void);
void end_nobody(void);
#define ctl(...) \
	run((const char *const[]){ program, "--socket", harness.socket_path, __VA_ARGS__, NULL })

/*
 * On a terminal, which has both outputs; lines end in CR LF there. Once AWAITED has come out the terminal's
 * interrupt key is pressed; NULL: it is not.
 */
int run_on_terminal(unsigned short columns, const char *awaited, const char *const *argv);
#define ctl_on_terminal(columns, ...)                                                    \
	run_on_terminal(columns, NULL,                                                   \
			(const char *const[]){ program, "--socket", harness.socket_path, \
					       __VA_ARGS__, NULL })

void assert_has(const char *text, const char *part);
void assert_lacks(const char *text, const char *part);
/* stdout is one JSON value, and of it, D, this Python expression is true. */
void assert_json(const char *expression);

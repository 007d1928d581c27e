/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Runs the real rdmabrokerctl against the harness's server over a real socket. */

#include <stdbool.h>
#include <sys/types.h>

#include "tests/unit/harness.h"

/* The results of the last run. */
extern struct got {
	int status;
	char out[65536], err[65536];
} got;

extern char program[4096]; /* the path of rdmabrokerctl */
extern uid_t run_as; /* 0: as the user who runs the test */

const char *build_dir(void);
void set_up_ctl(void);

int run(const char *const *argv); /* returns the exit status */
/*
 * Makes run() use another user, and PROGRAM a copy that this user can read. Returns false if the caller is not root.
 * After end_nobody(), PROGRAM must not be used any more.
 */
bool run_as_nobody(void);
void end_nobody(void);
const char *
ctl_socket(void); /* for run(): that for administration, which only the present user can reach */
#define ctl(...) run((const char *const[]){ program, "--socket", ctl_socket(), __VA_ARGS__, NULL })

/*
 * Runs the program on a terminal that gets stdout and stderr, where lines end in CR LF. When the output contains
 * AWAITED, the interrupt key is pressed; NULL: it is not.
 */
int run_on_terminal(unsigned short columns, const char *awaited, const char *const *argv);
#define ctl_on_terminal(columns, ...)                                                          \
	run_on_terminal(columns, NULL,                                                         \
			(const char *const[]){ program, "--socket", ctl_socket(), __VA_ARGS__, \
					       NULL })

void assert_has(const char *text, const char *part);
void assert_lacks(const char *text, const char *part);
/*
 * Checks that stderr is empty and stdout is one line of JSON. The Python EXPRESSION about the JSON value D must be
 * true.
 */
void assert_json(const char *expression);

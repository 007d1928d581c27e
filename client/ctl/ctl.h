/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* rdmabrokerctl: one row a verb in ctl.c, one file a verb beside it. */

#include <rdmabroker.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	EXIT_USAGE = 2,
};

struct ctl {
	const char *socket; /* NULL: the library's default */
	bool json;
};

struct verb {
	const char *name;
	const char *summary; /* one line of help */
	int (*run)(const struct ctl *ctl, int argc,
		   char **argv); /* argv[0]: the verb; an exit status */
};

extern const struct verb verbs[];
extern const size_t n_verbs;

int verb_help(const struct ctl *ctl, int argc, char **argv);
int verb_status(const struct ctl *ctl, int argc, char **argv);
int verb_version(const struct ctl *ctl, int argc, char **argv);

/* A line on stderr, with the program's name. */
__attribute__((format(printf, 1, 2))) void complain(const char *fmt, ...);
/* For verbs that take nothing: 0, or EXIT_USAGE and it is said. */
int expect_no_arguments(int argc, char **argv);
/* A session with the daemon: 0, or an exit status and it is said. */
int open_session(const struct ctl *ctl, struct rdmabroker **ret);

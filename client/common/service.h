/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the programs that run as services have in common: their command line, signals and exit statuses. */

#include <signal.h>
#include <sysexits.h>
#include <systemd/sd-event.h>

/* systemd calls this status CONFIG; its number, 78, is in the units' RestartPreventExitStatus=. */
#define EXIT_MISCONFIGURED EX_CONFIG
#define EXIT_USAGE 2

/* An option with a value. The values live as long as the program. */
struct service_option {
	const char *name; /* without "--" */
	const char **values; /* of one value, the last one given counts */
	unsigned *n; /* how many there are; NULL: the option has one value */
	unsigned max; /* how many there can be */
};

#define SERVICE_OPTIONS_MAX 8

/* The program's name is program_invocation_short_name. */
struct service {
	const char *help; /* the text of --help */
	struct service_option options[SERVICE_OPTIONS_MAX + 1]; /* the last one has no name */
};

/* Returns an exit status; -1: the program goes on. Errors are reported. */
int service_read_arguments(const struct service *service, int argc, char **argv);
/* Says where help is: the text of --help would scroll the error off the screen. Returns EXIT_USAGE. */
int service_see_help(void);
/* The same; the signals end LOOP. */
int service_add_signals(sd_event *loop);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the programs that run as services have in common: their command line, their loop, and their exit statuses. */

#include <sysexits.h>
#include <systemd/sd-event.h>

#include "conffile.h"
#include "sockets.h"

/* systemd calls this status CONFIG; its number, 78, is in the units' RestartPreventExitStatus=. */
#define EXIT_MISCONFIGURED EX_CONFIG
#define EXIT_USAGE 2

struct notifier;

#define SERVICE_OPTIONS_MAX 8

/* The program's name is program_invocation_short_name. Besides OPTIONS it has --config, --listen, --help and --version. */
struct service {
	const char *help; /* the text of --help */
	const char *
		config; /* the configuration file, which need not exist unless --config names one */
	const struct inifile_key *keys; /* in it */
	bool may_be_path; /* an address of --listen, see sockets_add() */
	struct service_option {
		const char *
			name; /* without "--"; its value overrides the file's; the last one given counts */
		const char *key;
	} options[SERVICE_OPTIONS_MAX + 1]; /* the last one has no name */
};

/*
 * Sets SETTINGS from the configuration file and from the command line, which overrides the file; and LISTEN, which is part
 * of them. Returns an exit status; -1: the program goes on. Errors are reported.
 */
int service_read_settings(const struct service *service, int argc, char **argv, void *settings,
			  struct sockets_addresses *listen);
/*
 * Makes the loop and its notifier. SIGTERM and SIGINT end the loop, and SIGPIPE is ignored. To be called before any thread
 * is created. The caller frees both, also after a failure. Returns 0 or a negative errno.
 */
int service_make_loop(sd_event **ret_loop, struct notifier **ret_notifier);

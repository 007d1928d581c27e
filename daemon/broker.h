/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The broker: everything of the daemon hangs from it. It reads what the admin wrote, sets the floors
 * below up with it, and keeps systemd informed.
 *
 *   STARTING ──> SERVING <──SIGHUP or an admin's request──> RELOADING
 *                   └── SIGTERM, SIGINT ──> STOPPING: all sessions end, peers are told
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#include "config.h"

struct broker;

/* What the command line says; it wins over the files. NULL: not said. */
struct broker_options {
	const char *config_path; /* never NULL */
	const char *socket_path;
	const char *policy_dir;
	bool config_is_named; /* on the command line: then it has to be there */
};

/* It cannot be started, and not by trying again either: somebody has to mend what the journal names. */
#define BROKER_MISCONFIGURED 1

/*
 * 0, BROKER_MISCONFIGURED or a negative errno; what went wrong is logged. An error in the policy is no reason not to
 * start: what cannot be read allows nothing.
 */
int broker_new(struct broker **ret, const struct broker_options *options);
struct broker *broker_free(struct broker *broker);
/* Until a signal ends it. 0 or a negative errno. */
int broker_run(struct broker *broker);

/*
 * Parse and touch nothing. FILES empty: what the daemon would read. 0: well; 1: not, said on stderr.
 * With JSON an object on stdout says the one or the other.
 */
int broker_check(const struct broker_options *options, char **files, size_t n_files, bool json);

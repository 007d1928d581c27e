/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The broker: the daemon's root object. It reads configuration and policy, creates all other objects, and
 * keeps systemd informed.
 *
 *   STARTING ──> SERVING <──SIGHUP or an admin's request──> RELOADING
 *                   └── SIGTERM, SIGINT ──> STOPPING: sessions end, or the next process takes them over
 */

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

struct broker;

/* Options of the command line, which override the files. NULL: not given. */
struct broker_options {
	const char *config_path; /* never NULL */
	const char *socket_path;
	const char *admin_socket_path;
	const char *helper_socket_path;
	const char *policy_dir;
	const char *site_policy_dir;
	const char *instance; /* its name, see instance.h; NULL: the initial one */
	const char *const *
		trials; /* for filecheck_run(): files with tests of the policy, see policy/trial.h */
	size_t n_trials;
	/* CONFIG_PATH was given on the command line: the file must exist */
	bool config_is_named;
};

/* The daemon cannot start until an admin corrects what the journal reports. */
#define BROKER_MISCONFIGURED 1

/*
 * Returns 0, BROKER_MISCONFIGURED (the errors were logged) or a negative errno. A policy with an error does
 * not prevent the start: the broker uses policy_new_fallback() until a reload succeeds.
 */
int broker_new(struct broker **ret, const struct broker_options *options);
struct broker *broker_free(struct broker *broker);
/* Runs until a signal ends it. Returns 0 or a negative errno. */
int broker_run(struct broker *broker);

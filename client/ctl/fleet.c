/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "output.h"

/*
 * The policy of a cluster, in etcd. rdmabroker-fleetctl does it, which has its own package because of its libraries.
 */

#ifndef FLEETCTL
#define FLEETCTL LIBEXECDIR "/rdmabroker-fleetctl"
#endif

enum {
	OPTION_CONFIG,
	OPTION_LABEL,
	OPTION_NAME,
	OPTION_WAIT,
	OPTION_WATCH,
	N_OPTIONS,
};

const struct verb_option fleet_options[] = {
	[OPTION_CONFIG] = { "config", "FILE", "the endpoints of etcd (default " FLEET_CONFIG ")" },
	[OPTION_LABEL] = { "label", "LABEL",
			   "hosts with this label (default: all that have no label of their own)" },
	[OPTION_NAME] = { "name", "NAME", "name of the version (default: that of its directory)" },
	[OPTION_WAIT] = { "wait", "SECONDS", "wait until the hosts have the version" },
	[OPTION_WATCH] = { "watch", NULL, "print again what changes, until interrupted" },
	{ NULL },
};

const char *const fleet_actions[] = { "status",   "list",  "push",   "check",  "diff", "use",
				      "rollback", "clear", "remove", "forget", NULL };

int verb_fleet(struct ctl *ctl)
{
	const char *program = path_from("RDMABROKER_FLEETCTL", FLEETCTL);
	char *argv[2 * N_OPTIONS + 8], names[N_OPTIONS][32];
	size_t n = 0;

	argv[n++] = strdupa("rdmabroker-fleetctl");
	if (ctl->json)
		argv[n++] = strdupa("--json");
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (!ctl->given[i])
			continue;
		stpcpy(stpcpy(names[i], "--"), fleet_options[i].name);
		argv[n++] = names[i];
		if (fleet_options[i].argument)
			argv[n++] = (char *)ctl->given[i];
	}
	argv[n++] = strdupa("--");
	/* The verb has at most three arguments. */
	for (size_t i = 0; ctl->arguments[i]; i++)
		argv[n++] = ctl->arguments[i];
	argv[n] = NULL;
	execv(program, argv);
	if (errno == ENOENT)
		complain("cannot run %s: it is not installed; install the package rdmabroker-fleet",
			 program);
	else
		complain("cannot run %s: %m", program);
	return EXIT_FAILURE;
}

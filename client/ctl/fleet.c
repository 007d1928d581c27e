/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
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
	OPTION_ONLY_SYNTAX,
	OPTION_POLICY_DIR,
	OPTION_STRICT,
	OPTION_WAIT,
	OPTION_WATCH,
	N_OPTIONS,
};

const struct verb_option fleet_options[] = {
	[OPTION_CONFIG] = { "config", "FILE", "the endpoints of etcd (default " FLEET_CONFIG ")" },
	[OPTION_LABEL] = { "label", "LABEL",
			   "hosts with this label (default: all that have no label of their own)" },
	[OPTION_NAME] = { "name", "NAME", "name of the version (default: that of its directory)" },
	[OPTION_ONLY_SYNTAX] = { "only-syntax", NULL,
				 "check without the rules, users and groups of this host" },
	[OPTION_POLICY_DIR] = { "policy-dir", "DIR",
				"check with these rules in place of those of this host" },
	[OPTION_STRICT] = { "strict", NULL, "with --wait: hosts that are away are a failure" },
	[OPTION_WAIT] = { "wait", "SECONDS", "wait until the hosts have the version" },
	[OPTION_WATCH] = { "watch", NULL, "print again what changes, until interrupted" },
	{ NULL },
};

const char *const fleet_actions[] = { "status", "list",     "push",  "check",  "diff",
				      "use",    "rollback", "clear", "remove", "forget",
				      "retry",  "history",  "help",  NULL };

/* The actions, as persons look for them. */
static const struct {
	const char *action, *summary;
} summaries[] = {
	{ "status", "print what etcd, the hosts and the roll-out are like" },
	{ "list [hosts | listeners | refusals | versions]", "print a line for each" },
	{ "history [LABEL]", "print what was rolled out, when and by whom" },
	{ "check DIR | VERSION", "check a version" },
	{ "diff DIR | VERSION [DIR | VERSION]", "compare two, or one with what is rolled out" },
	{ "push DIR", "check a version, and copy it to etcd; with --label roll it out" },
	{ "use VERSION", "roll a version out" },
	{ "rollback", "roll the version before out again" },
	{ "clear --label LABEL", "the label has no version of its own any more" },
	{ "retry [HOST]", "make hosts try at once what has failed" },
	{ "remove VERSION", "remove a version from etcd" },
	{ "forget HOST", "do not show a host that is away any more" },
	{ "help", "print this summary" },
};

static int print_help(const struct ctl *ctl)
{
	int status = help_print(ctl, ctl->verb);

	if (ctl->json)
		return status;
	puts("\nActions:");
	for (size_t i = 0; i < sizeof(summaries) / sizeof(summaries[0]); i++)
		printf("  %-48s %s\n", summaries[i].action, summaries[i].summary);
	puts("\nExit status: 0 done; 1 failed, nothing was written; 2 usage error; after a roll-out: "
	     "4 a host\nrefuses it, 5 hosts are late, 6 hosts are away, 7 etcd has failed, 8 somebody "
	     "else has rolled\nout another one.");
	return status;
}

int verb_fleet(struct ctl *ctl)
{
	const char *program = path_from("RDMABROKER_FLEETCTL", FLEETCTL);
	char *argv[2 * N_OPTIONS + 8], names[N_OPTIONS][32];
	size_t n = 0;

	if (strcmp(ctl->arguments[0], "help") == 0)
		return print_help(ctl);
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

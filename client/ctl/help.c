/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"

int verb_help(const struct ctl *ctl, int argc, char **argv)
{
	int r;

	(void)ctl;
	r = expect_no_arguments(argc, argv);
	if (r != 0)
		return r;
	puts("Usage: rdmabrokerctl [--socket PATH] [--json] VERB\n"
	     "\n"
	     "Shows what rdmabrokerd is doing.\n"
	     "\n"
	     "  --socket PATH  where the daemon listens (default /run/rdmabroker/rdmabroker.sock)\n"
	     "  --json         print one JSON object\n"
	     "\n"
	     "Verbs:");
	for (size_t i = 0; i < n_verbs; i++)
		printf("  %-13s  %s\n", verbs[i].name, verbs[i].summary);
	puts("\nExit status: 0 done, 1 failed, 2 usage.");
	return EXIT_SUCCESS;
}

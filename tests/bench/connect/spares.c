/* SPDX-License-Identifier: BSD-2-Clause */

/* The spare ids that the broker keeps: counts how many were used, and switches them off and on. */

#include <inttypes.h>
#include <stdlib.h>

#include "tests/bench/connect/bench.h"

static const struct options *are_off; /* contains the command; NULL: the spares are on */

/* Returns the result of system(). */
static int run_command(const struct options *options, const char *word)
{
	char *line;
	int status;

	/* The command's output goes to stderr, because the results may go to stdout. */
	if (asprintf(&line, "timeout %u %s %s >&2", options->deadline_s, options->spares_command,
		     word) < 0)
		die("out of memory");
	status = system(line);
	free(line);
	return status;
}

void spares_switch(const struct options *options, bool on)
{
	const char *word = on ? "on" : "off";

	/* are_off is set before the command runs, because a command that fails may have taken effect in part. */
	are_off = on ? NULL : options;
	if (run_command(options, word) != 0)
		die("no-spares: `%s %s' failed", options->spares_command, word);
}

void spares_restore(void)
{
	const struct options *options = are_off;

	are_off = NULL;
	if (options && run_command(options, "on") != 0)
		fprintf(stderr,
			"rdmabroker-bench: `%s on' failed: the broker may be left without spare ids\n",
			options->spares_command);
}

struct spare_uses spares_count(const struct options *options)
{
	struct spare_uses uses = { 0 };
	unsigned n_found = 0;
	char *command, line[256];
	FILE *f;

	if (asprintf(&command, "timeout %u '%s' metrics", options->deadline_s,
		     options->rdmabrokerctl) < 0)
		die("out of memory");
	f = popen(command, "re");
	if (!f)
		die("cannot run %s: %m", command);
	while (fgets(line, sizeof(line), f)) {
		n_found += sscanf(line, "rdmabroker_spare_uses_total{outcome=\"taken\"} %" SCNu64,
				  &uses.taken) == 1;
		n_found += sscanf(line, "rdmabroker_spare_uses_total{outcome=\"missed\"} %" SCNu64,
				  &uses.missed) == 1;
	}
	if (pclose(f) != 0 || n_found != 2)
		die("`%s' does not tell how many spare ids were taken and missed", command);
	free(command);
	return uses;
}

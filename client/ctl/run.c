/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "finddropin.h"
#include "output.h"

/* Puts PATH before the libraries that are in LD_PRELOAD already, such as an allocator. */
static int preload(const char *path)
{
	const char *others = getenv("LD_PRELOAD");
	char *all;
	int r;

	if (asprintf(&all, "%s%s%s", path, others ? ":" : "", others ?: "") < 0)
		return -1;
	r = setenv("LD_PRELOAD", all, 1);
	free(all);
	return r;
}

int verb_run(struct ctl *ctl)
{
	char path[PATH_MAX];

	if (!dropin_find(path))
		die(EXIT_FAILURE, "%s is not installed", DROPIN);
	/*
	 * A program that opens devices by libibverbs needs leases. With RDMABROKER_DEVICES=all the drop-in gets
	 * leases when the program starts.
	 */
	if (preload(path) < 0 || setenv("RDMABROKER_DEVICES", "all", /* overwrite= */ 0) < 0 ||
	    (ctl->socket && setenv("RDMABROKER_SOCKET", ctl->socket, 1) < 0))
		die(EXIT_FAILURE, "cannot set the environment: %m");
	return ctl_run_program(ctl->arguments);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "bypass.h"
#include "ctl.h"
#include "finddropin.h"
#include "output.h"

/* Puts PATH before what the VARIABLE of ld.so has already, such as an allocator, or a folder. */
static int put_first(const char *variable, const char *path)
{
	const char *others = getenv(variable);
	bool has_others = others && *others;
	char *all;
	int r;

	if (asprintf(&all, "%s%s%s", path, has_others ? ":" : "", has_others ? others : "") < 0)
		return -1;
	r = setenv(variable, all, 1);
	free(all);
	return r;
}

int verb_run(struct ctl *ctl)
{
	char path[PATH_MAX], folder[PATH_MAX], found[PATH_MAX];
	const char *secure;

	if (!dropin_find(path))
		die(EXIT_FAILURE, "%s is not installed", DROPIN);
	/*
	 * A program that opens devices by libibverbs needs leases. With RDMABROKER_DEVICES=all the drop-in gets
	 * leases when the program starts.
	 */
	if (put_first("LD_PRELOAD", path) < 0 ||
	    /* For programs that load librdmacm themselves, by a name that the drop-in has only in its folder. */
	    (dropin_find_folder(path, folder) && put_first("LD_LIBRARY_PATH", folder) < 0) ||
	    setenv("RDMABROKER_DEVICES", "all", /* overwrite= */ 0) < 0 ||
	    (ctl->socket && setenv("RDMABROKER_SOCKET", ctl->socket, 1) < 0))
		die(EXIT_FAILURE, "cannot set the environment: %m");
	if (bypass_find_program(ctl->arguments[0], found) && (secure = bypass_secure(found)))
		complain(
			"%s %s, so ld.so does not load the drop-in into it, and it uses librdmacm itself; \"rdmabrokerctl dropin enable\" "
			"gives it the drop-in",
			found, secure);
	return ctl_run_program(ctl->arguments);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "output.h"
#include "sitecheck.h"

#define CHECK_SECONDS 60

#ifndef RDMABROKERD
#define RDMABROKERD "/usr/sbin/rdmabrokerd"
#endif

static void run_check(const char *dir, const struct site_version *version)
{
	const char *program = path_from("RDMABROKERD", RDMABROKERD);
	const char *argv[2 * SITE_FILES_MAX + 5];
	char *absolute;
	size_t n = 0;

	argv[n++] = "rdmabrokerd";
	argv[n++] = "--check";
	argv[n++] = "--site-policy-dir";
	argv[n++] = ".";
	for (size_t i = 0; i < version->n; i++) {
		if (!siteversion_is_test(&version->files[i]))
			continue;
		argv[n++] = "--test";
		argv[n++] = version->files[i].name;
	}
	argv[n] = NULL;
	absolute = realpath(program, NULL);
	if (!absolute) {
		complain("cannot run %s: %m", program);
		_exit(EXIT_FAILURE);
	}
	/* DIR is gone when its errors are read, so they name the version's files only. */
	if (chdir(dir) < 0) {
		complain("cannot enter %s: %m", dir);
		_exit(EXIT_FAILURE);
	}
	/* The default action of SIGALRM ends the check, if a look-up of names does not. */
	signal(SIGALRM, SIG_DFL);
	alarm(CHECK_SECONDS);
	execv(absolute, (char *const *)argv);
	complain("cannot run %s: %m", program);
	_exit(EXIT_FAILURE);
}

bool sitecheck_run(const char *dir, const struct site_version *version)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_check(dir, version);
	status = wait_for(pid);
	if (pid > 0 && status < 0)
		complain("the check did not end within %d s", CHECK_SECONDS);
	return status == 0;
}

bool sitecheck_run_copy(const struct site_version *version, const char *name)
{
	char work[PATH_MAX], dir[PATH_MAX + SITE_NAME_MAX];
	bool good;

	if (!siteversion_make_work(work))
		return false;
	snprintf(dir, sizeof(dir), "%s/%s", work, name);
	good = siteversion_write(version, dir);
	if (good) {
		good = sitecheck_run(dir, version);
		siteversion_remove(dir);
	}
	rmdir(work);
	return good;
}

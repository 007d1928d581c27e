/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "sitecheck.h"

#define CHECK_SECONDS 60
#define EXIT_NOT_RUN \
	126 /* of the child that could not become rdmabrokerd; which exits with 1 for an error in rules */

#ifndef RDMABROKERD
#define RDMABROKERD "/usr/sbin/rdmabrokerd"
#endif

struct arguments {
	const char *argv[2 * SITE_FILES_MAX + 16];
	size_t n;
};

static void add(struct arguments *arguments, const char *one, const char *two)
{
	arguments->argv[arguments->n++] = one;
	arguments->argv[arguments->n++] = two;
}

const char *sitecheck_program(void)
{
	return path_from("RDMABROKERD", RDMABROKERD);
}

static void run_check(const char *dir, const struct site_version *version, int errors)
{
	const char *program = sitecheck_program();
	char *absolute = realpath(program, NULL);
	struct arguments arguments = { 0 };

	dup2(errors, STDERR_FILENO);
	if (!absolute) {
		complain("cannot run %s: %m", program);
		_exit(EXIT_NOT_RUN);
	}
	if (chdir(dir) < 0) {
		complain("cannot enter %s: %m", dir);
		_exit(EXIT_NOT_RUN);
	}
	add(&arguments, "rdmabrokerd", "--check");
	add(&arguments, "--site-policy-dir", ".");
	for (size_t i = 0; i < version->n; i++)
		if (siteversion_is_test(&version->files[i]))
			add(&arguments, "--test", version->files[i].name);
	/* The default action of SIGALRM ends the check, if a look-up of names does not. */
	signal(SIGALRM, SIG_DFL);
	alarm(CHECK_SECONDS);
	execv(absolute, (char *const *)arguments.argv);
	complain("cannot run %s: %m", program);
	_exit(EXIT_NOT_RUN);
}

/* Prints what the check says. Its errors begin in the first column, which source lines and carets do not. */
static void pass_errors(int fd)
{
	FILE *file = fdopen(fd, "re");
	char *line = NULL;
	size_t size = 0;

	while (file && getline(&line, &size, file) > 0) {
		fputs(line, stderr);
		if (line[0] != ' ' && line[0] != '\t' && !strstr(line, ": warning: "))
			remember_error(line);
	}
	free(line);
	if (file)
		fclose(file);
	else
		close(fd);
}

enum sitecheck sitecheck_run(const char *dir, const struct site_version *version)
{
	int status, errors[2];
	pid_t pid;

	if (pipe2(errors, O_CLOEXEC) < 0) {
		complain("cannot make a pipe: %m");
		return SITECHECK_NOT_RUN;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_check(dir, version, errors[1]);
	close(errors[1]);
	pass_errors(errors[0]);
	status = wait_for(pid);
	if (pid > 0 && status < 0)
		complain("the check did not end within %d s", CHECK_SECONDS);
	if (status == EXIT_SUCCESS)
		return SITECHECK_VALID;
	return status == EXIT_FAILURE ? SITECHECK_REFUSED : SITECHECK_NOT_RUN;
}

enum sitecheck sitecheck_run_copy(const struct site_version *version, const char *name)
{
	enum sitecheck ret = SITECHECK_NOT_RUN;
	char work[PATH_MAX], dir[PATH_MAX + SITE_NAME_MAX];

	if (!siteversion_make_work(work))
		return ret;
	snprintf(dir, sizeof(dir), "%s/%s", work, name);
	if (siteversion_write(version, dir)) {
		ret = sitecheck_run(dir, version);
		siteversion_remove(dir);
	}
	rmdir(work);
	return ret;
}

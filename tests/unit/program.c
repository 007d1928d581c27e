/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <grp.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/program.h"

struct got got;
char program[4096];
uid_t run_as;

const char *build_dir(void)
{
	static char *dir;

	if (!dir)
		dir = realpath(getenv("O") ?: "build", NULL);
	ck_assert_msg(dir != NULL, "no directory %s", getenv("O") ?: "build");
	return dir;
}

void set_up_ctl(void)
{
	set_up();
	snprintf(program, sizeof(program), "%s/rdmabrokerctl", build_dir());
	setenv("TERM", "xterm", /* overwrite= */ 1);
	unsetenv("NO_COLOR");
	unsetenv("RDMABROKER_SOCKET");
	run_as = 0;
}

/* Does not return, because the child must not go on running the test. */
static void become(const char *const *argv)
{
	if (run_as > 0 && (setgroups(0, NULL) < 0 || setgid(run_as) < 0 || setuid(run_as) < 0))
		_exit(126);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static void read_back(int fd, char *text, size_t size)
{
	ssize_t n = pread(fd, text, size - 1, 0);

	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	close(fd);
}

static int open_capture(void)
{
	int fd = open(harness.dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static int wait_for(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

int run(const char *const *argv)
{
	int out = open_capture(), err = open_capture();
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		dup2(out, STDOUT_FILENO);
		dup2(err, STDERR_FILENO);
		become(argv);
	}
	got.status = wait_for(pid);
	read_back(out, got.out, sizeof(got.out));
	read_back(err, got.err, sizeof(got.err));
	return got.status;
}

int run_on_terminal(unsigned short columns, const char *awaited, const char *const *argv)
{
	struct winsize size = { .ws_row = 24, .ws_col = columns };
	size_t len = 0;
	ssize_t n;
	pid_t pid;
	int fd;

	pid = forkpty(&fd, NULL, NULL, &size);
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		become(argv);
	/* read() fails with EIO when the program has closed the terminal. */
	while ((n = read(fd, got.out + len, sizeof(got.out) - 1 - len)) > 0) {
		got.out[len += (size_t)n] = '\0';
		if (awaited && strstr(got.out, awaited)) {
			awaited = NULL;
			ck_assert_int_eq(write(fd, "\003", 1), 1);
		}
	}
	got.out[len] = '\0';
	close(fd);
	return got.status = wait_for(pid);
}

void assert_has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part), "no '%s' in '%s'", part, text);
}

void assert_lacks(const char *text, const char *part)
{
	ck_assert_msg(!strstr(text, part), "'%s' in '%s'", part, text);
}

void assert_json(const char *expression)
{
	char script[2048];
	FILE *python;

	ck_assert_str_eq(got.err, "");
	ck_assert_msg(got.out[0] && strchr(got.out, '\n') == strrchr(got.out, '\n'), "%s", got.out);
	snprintf(script, sizeof(script),
		 "python3 -IS -c 'import json, sys\nd = json.load(sys.stdin)\n"
		 "assert %s, d'",
		 expression);
	python = popen(script, "w");
	ck_assert_ptr_nonnull(python);
	fputs(got.out, python);
	ck_assert_msg(pclose(python) == 0, "%s\n%s", expression, got.out);
}

bool run_as_nobody(void)
{
	char command[9000];

	if (geteuid() != 0)
		return false;
	snprintf(command, sizeof(command), "cp %s/rdmabrokerctl %s/librdmabroker.so.2 %s",
		 build_dir(), build_dir(), harness.dir);
	ck_assert_int_eq(system(command), 0);
	snprintf(program, sizeof(program), "%s/rdmabrokerctl", harness.dir);
	ck_assert_int_eq(chmod(harness.dir, 0755), 0);
	ck_assert_int_eq(chmod(harness.doors_dir, 0755), 0);
	ck_assert_int_eq(chmod(harness.common_path, 0666), 0);
	run_as = 65534;
	return true;
}

const char *ctl_socket(void)
{
	return run_as ? harness.common_path : harness.socket_path;
}

void end_nobody(void)
{
	unlink(program);
	snprintf(program, sizeof(program), "%s/librdmabroker.so.2", harness.dir);
	unlink(program);
}

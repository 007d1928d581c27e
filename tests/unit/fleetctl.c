/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fleetctl.h"

char out[1 << 20], err[65536];
const char *fleetctl;

static void read_back(const char *name, char *ret, size_t size)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, ret, size - 1) : -1;

	ck_assert_msg(n >= 0, "%s", name);
	ret[n] = 0;
	close(fd);
}

pid_t start_ctl(const char *const *arguments, int out_fd, int err_fd)
{
	const char *argv[16] = { "rdmabrokerctl", "fleet", "--config", path("fleet.conf") };
	char program[4096];
	size_t n = 4;
	pid_t pid;

	while (*arguments)
		argv[n++] = *arguments++;
	snprintf(program, sizeof(program), "%s/rdmabroker-fleetctl", build);
	setenv("RDMABROKER_FLEETCTL", fleetctl ?: program, 1);
	snprintf(program, sizeof(program), "%s/rdmabrokerctl", build);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		dup2(out_fd, STDOUT_FILENO);
		dup2(err_fd, STDERR_FILENO);
		close_range(STDERR_FILENO + 1, ~0U, 0);
		execv(program, (char *const *)argv);
		_exit(127);
	}
	return pid;
}

int end_of(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "status %x", status);
	return WEXITSTATUS(status);
}

/* Returns the exit status; the output is in OUT and ERR. */
int run_ctl(const char *const *arguments)
{
	int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, status;
	int out_fd = open(path("out"), flags, 0600), err_fd = open(path("err"), flags, 0600);

	status = end_of(start_ctl(arguments, out_fd, err_fd));
	close(out_fd);
	close(err_fd);
	read_back(path("out"), out, sizeof(out));
	read_back(path("err"), err, sizeof(err));
	return status;
}

const char *version(const char *name, const char *rules)
{
	static char dir[256];
	char file[512];

	snprintf(dir, sizeof(dir), "%s", path("%s", name));
	mkdir(dir, 0755);
	snprintf(file, sizeof(file), "%s/10-site.rules", dir);
	write_text(file, rules);
	return dir;
}

/* The state of a host, as agents write it. */
json_t *new_state(const char *host, const char *label, const char *in_force)
{
	return json_pack("{s:s, s:s, s:[s], s:I, s:I, s:n, s:s, s:n, s:s, s:n,"
			 " s:{s:b, s:I, s:I, s:I, s:n}, s:[], s:I, s:[], s:I}",
			 "host", host, "agent", "0.1.0", "labels", label, "period", (json_int_t)300,
			 "time", (json_int_t)time(NULL), "wanted", "staged", in_force, "error",
			 "in_force", in_force, "install", "daemon", "answers", 1, "sessions",
			 (json_int_t)3, "listeners", (json_int_t)2, "connections", (json_int_t)5,
			 "policy_error", "listeners", "listeners_left_out", (json_int_t)0,
			 "refusals", "refusals_left_out", (json_int_t)0);
}

void put_key(const char *folder, const char *host, const char *text)
{
	char key[256];

	snprintf(key, sizeof(key), "/rdmabroker/%s/%s", folder, host);
	put_text(etcd, key, text);
}

/* Takes the reference to VALUE. */
void put_state(const char *host, json_t *value)
{
	char *text = json_dumps(value, 0);

	ck_assert_ptr_nonnull(text);
	put_key("hosts", host, text);
	free(text);
	json_decref(value);
}

/* Makes one blank of several, because ages change how wide a column is. */
void squeeze(char *text)
{
	char *to = text, before = 0;

	for (; *text; before = *text++)
		if (*text != ' ' || before != ' ')
			*to++ = *text;
	*to = 0;
}

int run_site(const char *arguments)
{
	char command[4096];
	int status;

	snprintf(command, sizeof(command),
		 "exec %s/rdmabrokerctl --socket %s/socket site --directory %s/site %s >%s/out "
		 "2>%s/err",
		 build, etcd_service.dir, etcd_service.dir, arguments, etcd_service.dir,
		 etcd_service.dir);
	status = system(command);
	ck_assert(WIFEXITED(status));
	read_back(path("out"), out, sizeof(out));
	read_back(path("err"), err, sizeof(err));
	return WEXITSTATUS(status);
}

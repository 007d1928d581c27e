/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/exporter.h"
#include "tests/unit/site.h"
#include "tests/unit/tree.h"

char site[128], work[128];

/* Writes the file NAME of the version VERSION. */
const char *version(const char *version, const char *name, const char *text)
{
	static char dir[256];
	char path[512];

	snprintf(dir, sizeof(dir), "%s/%s", work, version);
	mkdir(dir, 0755);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	write_text(path, text);
	return dir;
}

void set_up_site(void)
{
	char daemon[4096], path[256];

	set_up_ctl();
	umask(022);
	/* The directory above it does not exist either, as on a fresh host. */
	snprintf(site, sizeof(site), "%s/state/site", harness.dir);
	snprintf(work, sizeof(work), "%s/work", harness.dir);
	ck_assert_int_eq(mkdir(work, 0755), 0);
	write_text(harness.rules_path, "allow any\n");
	/* The check reads no configuration of this machine: its arguments are passed on by a script. */
	snprintf(path, sizeof(path), "%s/local", harness.dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/local/50.rules", harness.dir);
	write_text(path, "allow session user 1000\n");
	snprintf(path, sizeof(path), "%s/check", harness.dir);
	snprintf(daemon, sizeof(daemon),
		 "#!/bin/sh\nexec %s/rdmabrokerd --policy-dir %s/local \"$@\"\n", build_dir(),
		 harness.dir);
	write_text(path, daemon);
	ck_assert_int_eq(chmod(path, 0755), 0);
	setenv("RDMABROKERD", path, 1);
	/* Where rdmabrokerctl looks for changes of this host. The daemon's own file of rules is one of them. */
	snprintf(path, sizeof(path), "%s/rdmabrokerd.conf", harness.dir);
	snprintf(daemon, sizeof(daemon), "[Daemon]\nPolicyDir=%s/seen\n", harness.dir);
	write_text(path, daemon);
	setenv("RDMABROKERD_CONFIG", path, 1);
	snprintf(path, sizeof(path), "%s/seen", harness.dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/seen/local.rules", harness.dir);
	ck_assert_int_eq(symlink("../local/50.rules", path), 0);
	snprintf(path, sizeof(path), "%s/seen/daemon.rules", harness.dir);
	ck_assert_int_eq(symlink(harness.rules_path, path), 0);
}

void tear_down_site(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/state", harness.dir);
	remove_tree(path);
	remove_tree(work);
	snprintf(path, sizeof(path), "%s/local", harness.dir);
	remove_tree(path);
	snprintf(path, sizeof(path), "%s/seen", harness.dir);
	remove_tree(path);
	snprintf(path, sizeof(path), "%s/rdmabrokerd.conf", harness.dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/check", harness.dir);
	unlink(path);
	unlink(harness.rules_path);
	tear_down();
}

void assert_current(const char *expected)
{
	char path[256], target[256];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/current", site);
	n = readlink(path, target, sizeof(target) - 1);
	if (!expected) {
		ck_assert_int_eq(n, -1);
		return;
	}
	ck_assert_int_gt(n, 0);
	target[n] = 0;
	ck_assert_str_eq(target, expected);
}

void kill_in_reload(const char *dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), client;
	pid_t pid;

	ck_assert_int_lt(snprintf(address.sun_path, sizeof(address.sun_path), "%s/silent", work),
			 (int)sizeof(address.sun_path));
	unlink(address.sun_path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	pid = fork();
	if (pid == 0) {
		execl(program, program, "--socket", address.sun_path, "site", "--directory", site,
		      "install", dir, NULL);
		_exit(127);
	}
	client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(client, 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	close(client);
	close(fd);
}

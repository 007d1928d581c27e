/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/site.h"

/*
 * `site install` is killed before each of its system calls that change something which outlives it. The harness's daemon reads
 * the version that the link names.
 */

#define ONE "allow listen user 5"
#define TWO "allow listen user 6"

static bool changes_something(const struct __ptrace_syscall_info *info)
{
	static const long calls[] = {
#ifdef SYS_rename
		SYS_rename,   SYS_unlink,    SYS_symlink,  SYS_mkdir,     SYS_rmdir,
#endif
		SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_symlinkat, SYS_mkdirat,
		SYS_sendmsg,  SYS_sendto,    SYS_fsync,    SYS_connect,
	};

	if (info->op != PTRACE_SYSCALL_INFO_ENTRY)
		return false;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if ((long)info->entry.nr == calls[i])
			return true;
	return info->entry.nr == SYS_openat && (info->entry.args[2] & O_CREAT);
}

/* Installs the version in DIR, and kills it before call number N, from 1. False: it has ended before. */
static bool kill_at(const char *dir, int n)
{
	const char *const argv[] = { program, "--socket", ctl_socket(), "site", "--directory",
				     site,    "install",  dir,          NULL };
	struct __ptrace_syscall_info info;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		/* A sanitizer cannot look for leaks in a process that is traced. */
		setenv("ASAN_OPTIONS", "detect_leaks=0", /* overwrite= */ 1);
		execv(program, (char *const *)argv);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSTOPPED(status));
	ck_assert_int_eq(
		ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
	for (;;) {
		ck_assert_int_eq(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			ck_assert_int_eq(WEXITSTATUS(status), 0);
			return false;
		}
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			continue;
		ck_assert_int_gt(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info), 0);
		if (changes_something(&info) && --n == 0)
			break;
	}
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return true;
}

/* Whether the daemon has the rule TEXT, and no other one of a version. */
static bool daemon_has(const char *text)
{
	char wanted[128];

	ck_assert_int_eq(ctl("rules", "--json"), 0);
	snprintf(wanted, sizeof(wanted), "\"%s\"", text);
	return strstr(got.out, wanted);
}

static void assert_state_is_true(int n)
{
	char path[256];
	bool in_force;

	/* The daemon can start at any time. */
	snprintf(path, sizeof(path), "%s/current/1.rules", site);
	ck_assert_msg(access(path, R_OK) == 0, "killed at %d, there is no version", n);
	ck_assert_int_eq(site("status", "--json"), 0);
	in_force = strstr(got.out, "\"state\": \"in-force\"") ||
		   strstr(got.out, "\"state\": \"drift-put-back\"");
	if (in_force && strstr(got.out, "{\"version\": \"v1\""))
		ck_assert_msg(daemon_has(ONE), "killed at %d, the daemon does not have v1", n);
	else if (in_force)
		ck_assert_msg(daemon_has(TWO), "killed at %d, the daemon does not have v2", n);
}

static void assert_next_run_finishes(const char *dir, int n)
{
	char path[256];

	ck_assert_msg(site("install", dir) == 0, "after a kill at %d: %s", n, got.err);
	ck_assert_msg(daemon_has(TWO), "after a kill at %d", n);
	ck_assert_int_eq(site("status", "--json"), 0);
	assert_json(
		"d[\"version\"] == \"v2\" and d[\"state\"] in (\"in-force\", \"drift-put-back\") and not d[\"edited\"]");
	ck_assert_int_eq(site("log", "--json"), 0);
	assert_json("d[\"changes\"][0][\"version\"] == \"v2\"");
	snprintf(path, sizeof(path), "%s/.version.new", site);
	ck_assert_msg(access(path, F_OK) < 0, "after a kill at %d, %s is left", n, path);
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(got.out, "nothing has changed");
}

static void read_the_site(void)
{
	char target[256];

	unlink(harness.rules_path);
	snprintf(target, sizeof(target), "%s/current/1.rules", site);
	ck_assert_int_eq(symlink(target, harness.rules_path), 0);
}

START_TEST(a_new_version)
{
	const char *dir;
	char path[256];
	int n = 0;
	bool killed;

	read_the_site();
	do {
		dir = version("v1", "1.rules", ONE "\n");
		ck_assert_int_eq(site("install", dir), 0);
		snprintf(path, sizeof(path), "cd %s/versions && rm -rf v2 .v2.sha256", site);
		ck_assert_int_eq(system(path), 0);
		dir = version("v2", "1.rules", TWO "\n");
		killed = kill_at(dir, ++n);
		assert_state_is_true(n);
		assert_next_run_finishes(dir, n);
	} while (killed);
	ck_assert_int_gt(n, 20);
}
END_TEST

START_TEST(edited_files)
{
	const char *dir;
	char path[256];
	int n = 0;
	bool killed;

	read_the_site();
	dir = version("v2", "1.rules", TWO "\n");
	ck_assert_int_eq(site("install", dir), 0);
	do {
		/* Somebody has edited them, and has reloaded the daemon. */
		snprintf(path, sizeof(path), "%s/versions/v2/1.rules", site);
		write_text(path, "allow any\n");
		ck_assert_int_eq(ctl("reload"), 0);
		killed = kill_at(dir, ++n);
		/* Where it was killed before it looked, the state is still that of before. */
		assert_next_run_finishes(dir, n);
	} while (killed);
	ck_assert_int_gt(n, 15);
}
END_TEST

UNIT_MAIN("site_killed", set_up_site, tear_down_site, a_new_version, edited_files)

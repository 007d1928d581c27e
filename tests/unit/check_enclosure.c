/* SPDX-License-Identifier: BSD-2-Clause */

/* Processes that are shut in, and those that are not. */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/facts/enclosure.h"
#include "tests/unit/unit.h"

static struct enclosure_root own;
static pid_t child; /* of the test */
static int ready[2], over[2];

static void set_up(void)
{
	enclosure_get_root(&own, getpid());
	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(over), 0);
}

static void tear_down(void)
{
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(over[i]);
	}
}

/* A user needs a user namespace to make others. False: the kernel refuses it. */
static bool separate(int namespaces)
{
	return unshare(namespaces | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) == 0;
}

/* PID, as the test's process sees it, is what the test looks at. 0: the kernel refuses it. */
static void tell(pid_t pid)
{
	ck_assert_int_eq(write(ready[1], &pid, sizeof(pid)), sizeof(pid));
}

/* Until the test has looked. */
static void stay(void)
{
	char byte;

	close(over[1]);
	ck_assert_int_eq(read(over[0], &byte, 1), 0);
	_exit(0);
}

static void expect(enum enclosure enclosure)
{
	pid_t pid;

	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(read(ready[0], &pid, sizeof(pid)), sizeof(pid));
	if (pid > 0)
		ck_assert_int_eq(enclosure_find(pid, &own), enclosure);
	else
		fprintf(stderr, "skipped: the kernel lets this user make no namespaces\n");
	close(over[1]);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(a_process_of_the_host)
{
	ck_assert_str_ne(own.text, "");
	ck_assert_int_eq(enclosure_find(getpid(), &own), ENCLOSURE_NONE);
	/* A sandbox of systemd has mounts of its own, and the same root directory. */
	child = fork();
	if (child == 0) {
		tell(separate(CLONE_NEWNS) ? getpid() : 0);
		stay();
	}
	expect(ENCLOSURE_NONE);
}
END_TEST

START_TEST(another_root_directory)
{
	child = fork();
	if (child == 0) {
		tell(separate(CLONE_NEWNS) && chroot("/proc/self") == 0 ? getpid() : 0);
		stay();
	}
	expect(ENCLOSURE_ROOT);
}
END_TEST

/* As podman makes it with --cgroups=disabled, but with the root directory of the host. */
START_TEST(another_pid_namespace)
{
	child = fork();
	if (child == 0) {
		bool good = separate(CLONE_NEWPID);
		pid_t first = good ? fork() : 0;

		if (good && first == 0)
			stay();
		tell(first);
		stay();
	}
	expect(ENCLOSURE_PIDS);
}
END_TEST

START_TEST(a_process_that_has_ended)
{
	child = fork();
	if (child == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_int_eq(enclosure_find(child, &own), ENCLOSURE_UNKNOWN);
}
END_TEST

UNIT_MAIN("enclosure", set_up, tear_down, a_process_of_the_host, another_root_directory,
	  another_pid_namespace, a_process_that_has_ended)

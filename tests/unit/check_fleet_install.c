/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fleetagent.h"

/* rdmabroker-fleet-install, root's part, which trusts nothing of the agent. */

#define LATER 75 /* the same can be right later: the agent tries again */

static void assert_install_fails(const char *name, int status)
{
	ck_assert_msg(install() == status, "%s", name);
	ck_assert_int_eq(access(path("site/current"), F_OK), -1);
	unlink(path("state/wanted"));
}

static void assert_install_refuses(const char *name)
{
	assert_install_fails(name, 1);
}

START_TEST(names_that_are_none)
{
	static const char *const names[] = { "",    "\n",   "..",  "../x",       "/etc",
					     "a/b", ".new", "-x",  "$(touch x)", "a\nb",
					     "a b", "*",    "a;b", "\x80\xff" };
	char huge[1024];

	if (!begin_without_etcd())
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		write_text(path("state/wanted"), names[i]);
		assert_install_refuses(names[i]);
	}
	assert_install_refuses("nothing");
	memset(huge, 'a', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = 0;
	write_text(path("state/wanted"), huge);
	assert_install_refuses("a long name");
	ck_assert_int_eq(access(path("results/result"), F_OK), -1);
}
END_TEST

START_TEST(wanted_is_no_file)
{
	int fd;

	if (!begin_without_etcd())
		return;
	ck_assert_int_eq(mkfifo(path("state/wanted"), 0644), 0);
	assert_install_refuses("a FIFO");
	ck_assert_int_eq(mkfifo(path("state/wanted"), 0644), 0);
	fd = open(path("state/wanted"), O_RDWR | O_CLOEXEC);
	assert_install_refuses("a FIFO with a writer");
	close(fd);
	write_text(path("name"), "v1\n");
	ck_assert_int_eq(symlink(path("name"), path("state/wanted")), 0);
	assert_install_refuses("a link");
	ck_assert_int_eq(mkdir(path("state/wanted"), 0755), 0);
	assert_install_refuses("a directory");
	ck_assert_int_eq(rmdir(path("state/wanted")), 0);
	ck_assert_int_eq(access(path("results/result"), F_OK), -1);
}
END_TEST

/* NAME is wanted, and must not be installed, without a word of the file with the secret. */
static void assert_version_fails(const char *name, const char *why, int status)
{
	char text[128];

	snprintf(text, sizeof(text), "%s\n", name);
	write_text(path("state/wanted"), text);
	assert_install_fails(why, status);
	snprintf(text, sizeof(text), "%s %s\n", name, status == LATER ? "failed" : "refused");
	assert_has(read_text(path("results/result")), text);
	ck_assert_uint_eq(count(read_text(path("results/result")), "password"), 0);
}

static void assert_version_is_refused(const char *name, const char *why)
{
	assert_version_fails(name, why, 1);
}

START_TEST(links_to_what_only_root_can_read)
{
	if (!begin_without_etcd())
		return;
	ck_assert_int_eq(mkdir(path("secret"), 0700), 0);
	ck_assert_int_eq(mkdir(path("secret/v2"), 0700), 0);
	write_text(path("secret/v2/1.rules"), "password\n");
	ck_assert_int_eq(symlink(path("secret"), path("state/staged")), 0);
	assert_version_fails("v2", "a link above the version", LATER);
	assert_has(read_text(path("results/result")), "is not a directory");
	ck_assert_int_eq(unlink(path("state/staged")), 0);
	ck_assert_int_eq(mkdir(path("state/staged"), 0755), 0);
	ck_assert_int_eq(symlink(path("secret/v2"), path("state/staged/v2")), 0);
	assert_version_fails("v2", "a link to a directory", LATER);
	assert_has(read_text(path("results/result")), "is not a directory");
	ck_assert_int_eq(mkdir(path("state/staged/v3"), 0755), 0);
	ck_assert_int_eq(symlink(path("secret/v2/1.rules"), path("state/staged/v3/1.rules")), 0);
	assert_version_is_refused("v3", "a link to a file");
}
END_TEST

START_TEST(files_that_are_none)
{
	char file[4096];
	FILE *f;
	int fd;

	if (!begin_without_etcd())
		return;
	ck_assert_int_eq(mkdir(path("state/staged"), 0755), 0);
	ck_assert_int_eq(mkdir(path("state/staged/v1"), 0755), 0);
	snprintf(file, sizeof(file), "%s", path("state/staged/v1/1.rules"));
	ck_assert_int_eq(mkfifo(file, 0644), 0);
	assert_version_is_refused("v1", "a FIFO");
	ck_assert_int_eq(unlink(file), 0);
	/* 1 TiB. */
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ck_assert_int_eq(ftruncate(fd, 1LL << 40), 0);
	close(fd);
	assert_version_is_refused("v1", "a huge file");
	ck_assert_int_eq(unlink(file), 0);
	f = fopen(file, "we");
	for (int i = 0; i < 10000; i++)
		fputs("nonsense\n", f);
	fclose(f);
	assert_version_is_refused("v1", "many errors");
	assert_has(read_text(path("results/result")), "1.rules:1:1: ");
	ck_assert_int_eq(access(path("site/.version.new"), F_OK), -1);
}
END_TEST

/* What is not the version's fault is not refused: the agent tries again. */
START_TEST(what_can_pass)
{
	static char rules[1024];
	char lock[4096];
	int fd;

	if (!begin_without_etcd())
		return;
	ck_assert_int_eq(mkdir(path("state/staged"), 0755), 0);
	ck_assert_int_eq(mkdir(path("state/staged/v1"), 0755), 0);
	write_text(path("state/staged/v1/1.rules"), "allow listen user 1\n");
	/* Somebody else changes the versions. */
	ck_assert_int_eq(mkdir(path("site/versions"), 0755), 0);
	snprintf(lock, sizeof(lock), "%s", path("site/.lock"));
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	assert_version_fails("v1", "the lock is held", LATER);
	assert_has(read_text(path("results/result")), "another process changes the versions");
	close(fd);
	/* The check cannot be run. */
	setenv("RDMABROKERD", "/no/such/program", 1);
	assert_version_fails("v1", "no program", LATER);
	setenv("RDMABROKERD", path("check"), 1);
	/* An admin of this host holds the version in force. */
	write_text(path("site/hold"), "1000000000 alice@n1\nan experiment\n");
	assert_version_fails("v1", "held", LATER);
	assert_has(read_text(path("results/result")), "held by alice@n1 since 2001-09-0");
	assert_has(read_text(path("results/result")), ": an experiment\n");
	unlink(path("site/hold"));
	/* There is no space for a file of the version. */
	memset(rules, '#', sizeof(rules) - 1);
	write_text(path("state/staged/v1/1.rules"), rules);
	before_install = "trap '' XFSZ; ulimit -f 1;";
	assert_version_fails("v1", "no space", LATER);
	assert_has(read_text(path("results/result")), "cannot write ");
	before_install = "";
	write_text(path("state/wanted"), "v1\n");
	ck_assert_int_eq(install(), 0);
	ck_assert_str_eq(read_text(path("results/result")),
			 "v1 installed\n"
			 "version v1 is in force when the daemon starts\n");
}
END_TEST

/* A result that cannot be written does not replace the one before by half of it. */
START_TEST(no_space_for_the_result)
{
	if (!begin_without_etcd())
		return;
	ck_assert_int_eq(mkdir(path("state/staged"), 0755), 0);
	ck_assert_int_eq(mkdir(path("state/staged/v1"), 0755), 0);
	write_text(path("state/staged/v1/1.rules"), "nonsense\n");
	write_text(path("results/result"), "v0 installed\n");
	/* No file can have any contents. */
	before_install = "trap '' XFSZ; ulimit -f 0;";
	write_text(path("state/wanted"), "v1\n");
	ck_assert_int_ne(install(), 0);
	ck_assert_str_eq(read_text(path("results/result")), "v0 installed\n");
	ck_assert_int_eq(access(path("results/.result"), F_OK), -1);
	before_install = "";
	ck_assert_int_eq(install(), 1);
	assert_has(read_text(path("results/result")), "v1 refused\n");
}
END_TEST

/* Runs root's part with a command that notes what it is to install, and then writes the next name. */
static void install_with(const char *command)
{
	char text[8192];

	snprintf(text, sizeof(text), "#!/bin/sh\necho $3 >>%s\n%s\n", path("calls"), command);
	write_text(path("command"), text);
	ck_assert_int_eq(chmod(path("command"), 0755), 0);
	snprintf(text, sizeof(text),
		 "exec %s/client/fleet/rdmabroker-fleet-install %s %s %s 2>/dev/null", source,
		 path("state"), path("results"), path("command"));
	ck_assert_int_eq(system(text), 0);
}

/* systemd does not see that `wanted` changes while a version is installed. */
START_TEST(wanted_changes_meanwhile)
{
	char command[4096];

	if (!begin_without_etcd())
		return;
	ck_assert_int_eq(mkdir(path("state/staged"), 0755), 0);
	ck_assert_int_eq(mkdir(path("state/staged/v1"), 0755), 0);
	ck_assert_int_eq(mkdir(path("state/staged/v2"), 0755), 0);
	write_text(path("state/wanted"), "v1\n");
	snprintf(command, sizeof(command), "echo v2 >%s", path("state/wanted"));
	install_with(command);
	ck_assert_str_eq(read_text(path("calls")), "v1\nv2\n");
	ck_assert_str_eq(read_text(path("results/result")), "v2 installed\n");
	/* An agent that never stops does not keep root busy. */
	unlink(path("calls"));
	snprintf(command, sizeof(command), "[ $3 = v1 ] && echo v2 >%s || echo v1 >%s",
		 path("state/wanted"), path("state/wanted"));
	install_with(command);
	ck_assert_str_eq(read_text(path("calls")), "v2\nv1\nv2\nv1\nv2\nv1\nv2\nv1\n");
}
END_TEST

/* The result is cut, and the installation goes to its end. */
START_TEST(much_is_printed)
{
	char command[4096];

	if (!begin_without_etcd())
		return;
	ck_assert_int_eq(mkdir(path("state/staged"), 0755), 0);
	ck_assert_int_eq(mkdir(path("state/staged/v1"), 0755), 0);
	write_text(path("state/wanted"), "v1\n");
	snprintf(command, sizeof(command), "head -c 1000000 /dev/zero | tr '\\0' x\necho end >>%s",
		 path("calls"));
	install_with(command);
	ck_assert_str_eq(read_text(path("calls")), "v1\nend\n");
	ck_assert_uint_eq(strlen(read_text(path("results/result"))),
			  16384 + strlen("v1 installed\n"));
}
END_TEST

UNIT_MAIN("fleet_install", set_up_fleet, tear_down_fleet, names_that_are_none, wanted_is_no_file,
	  links_to_what_only_root_can_read, files_that_are_none, what_can_pass,
	  no_space_for_the_result, wanted_changes_meanwhile, much_is_printed)

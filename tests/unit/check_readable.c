/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/acl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filecheck.h"
#include "tests/unit/tree.h"
#include "tests/unit/unit.h"

/* If root makes the check, files that the daemon's user cannot read are errors. The kernel says which they are. */

#define DAEMON_UID 65534
#define DAEMON_GID 65533
#define OTHER_GID 65532 /* a supplementary group of the daemon's user */

static char dir[32], said[8192];
static bool has_user; /* there is a user rdmabroker */

/* These functions replace libc's. */
int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size,
	       struct passwd **ret)
{
	*ret = NULL;
	if (has_user && strcmp(name, "rdmabroker") == 0) {
		*entry = (struct passwd){ .pw_uid = DAEMON_UID, .pw_gid = DAEMON_GID };
		*ret = entry;
	}
	return 0;
}

int getgrouplist(const char *name, gid_t gid, gid_t *groups, int *n_groups)
{
	ck_assert_str_eq(name, "rdmabroker");
	ck_assert_int_ge(*n_groups, 2);
	groups[0] = gid;
	groups[1] = OTHER_GID;
	return *n_groups = 2;
}

static const char *in_dir(const char *name)
{
	static char paths[16][128];
	static unsigned next;
	char *path = paths[next++ % 16];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void write_to(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(in_dir(name), 0644), 0);
}

static void close_to_others(const char *name, mode_t mode)
{
	ck_assert_int_eq(chmod(in_dir(name), mode), 0);
}

static void set_up(void)
{
	char text[256];

	umask(022);
	has_user = true;
	strcpy(dir, "/tmp/check_readable.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0755), 0);
	ck_assert_int_eq(mkdir(in_dir("etc"), 0755), 0);
	ck_assert_int_eq(mkdir(in_dir("etc/policy.d"), 0755), 0);
	ck_assert_int_eq(mkdir(in_dir("etc/c.conf.d"), 0755), 0);
	ck_assert_int_eq(mkdir(in_dir("version"), 0755), 0);
	ck_assert_int_eq(symlink("version", in_dir("site")), 0);
	snprintf(text, sizeof(text), "[Daemon]\nPolicyDir=%s/etc/policy.d\nSitePolicyDir=%s/site\n",
		 dir, dir);
	write_to("etc/c.conf", text);
	write_to("etc/c.conf.d/1.conf", "[Limits]\nSessions=7\n");
	write_to("etc/policy.d/1.rules", "allow session user 7\n");
	write_to("version/2.rules", "allow session user 8\n");
}

static void tear_down(void)
{
	remove_tree(dir);
}

static bool is_root(void)
{
	if (geteuid() == 0)
		return true;
	fprintf(stderr, "skipped: not root, who alone can be somebody else\n");
	return false;
}

/* Returns the exit status of a check in a process of its own. What it prints is in SAID. */
static int check_with(struct broker_options options, char **files, size_t n_files)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), status;
	pid_t pid;
	ssize_t n;

	ck_assert_int_ge(fd, 0);
	options.config_path = options.config_path ?: in_dir("etc/c.conf");
	fflush(stderr);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		dup2(fd, STDERR_FILENO);
		_exit(filecheck_run(&options, files, n_files, /* json= */ false));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	n = pread(fd, said, sizeof(said) - 1, 0);
	ck_assert_int_ge(n, 0);
	said[n] = '\0';
	close(fd);
	return WEXITSTATUS(status);
}

static int check(void)
{
	return check_with((struct broker_options){ 0 }, NULL, 0);
}

static void assert_good(void)
{
	int status = check();

	ck_assert_msg(status == 0 && !*said, "%d: %s", status, said);
}

/* The check says that PATH cannot be read, with a command, and after this command everything is well. */
static void assert_refused(const char *name, const char *bits, const char *closed)
{
	char expected[512], *command;

	snprintf(
		expected, sizeof(expected),
		"%s: cannot open: Permission denied for the user rdmabroker; to permit it: chmod %s "
		"%s\n",
		in_dir(name), bits, in_dir(closed));
	ck_assert_int_eq(check(), 1);
	ck_assert_msg(strncmp(said, expected, strlen(expected)) == 0, "%s\nis no\n%s", said,
		      expected);
	command = strstr(said, "chmod ");
	*strchr(command, '\n') = '\0';
	ck_assert_int_eq(system(command), 0);
	assert_good();
}

START_TEST(files_that_only_root_can_read)
{
	if (!is_root())
		return;
	assert_good();
	/* As a umask of 077 does. */
	close_to_others("etc/policy.d/1.rules", 0600);
	assert_refused("etc/policy.d/1.rules", "a+r", "etc/policy.d/1.rules");
	close_to_others("etc/c.conf", 0640);
	assert_refused("etc/c.conf", "a+r", "etc/c.conf");
	close_to_others("etc/c.conf.d/1.conf", 0600);
	assert_refused("etc/c.conf.d/1.conf", "a+r", "etc/c.conf.d/1.conf");
}
END_TEST

START_TEST(directories_that_only_root_can_read)
{
	if (!is_root())
		return;
	close_to_others("etc/policy.d", 0700);
	assert_refused("etc/policy.d", "a+rx", "etc/policy.d");
	close_to_others("etc/c.conf.d", 0700);
	assert_refused("etc/c.conf.d", "a+rx", "etc/c.conf.d");
	/* A directory on the way. */
	close_to_others("etc", 0700);
	assert_refused("etc/c.conf", "a+x", "etc");
	/* Its names can be read, but nothing else. */
	close_to_others("etc/policy.d", 0744);
	assert_refused("etc/policy.d/1.rules", "a+x", "etc/policy.d");
}
END_TEST

START_TEST(rules_of_the_site)
{
	if (!is_root())
		return;
	close_to_others("version/2.rules", 0600);
	/* Messages name the version, not the link. */
	assert_refused("version/2.rules", "a+r", "version/2.rules");
	close_to_others("version", 0700);
	assert_refused("version", "a+rx", "version");
	/* What a link points to. */
	ck_assert_int_eq(mkdir(in_dir("closed"), 0700), 0);
	ck_assert_int_eq(rename(in_dir("version"), in_dir("closed/version")), 0);
	ck_assert_int_eq(unlink(in_dir("site")), 0);
	ck_assert_int_eq(symlink("closed/version", in_dir("site")), 0);
	assert_refused("site", "a+x", "closed");
}
END_TEST

START_TEST(files_of_the_daemons_own)
{
	if (!is_root())
		return;
	close_to_others("etc/policy.d/1.rules", 0400);
	ck_assert_int_eq(chown(in_dir("etc/policy.d/1.rules"), DAEMON_UID, 0), 0);
	assert_good();
	/* Nobody else's. */
	ck_assert_int_eq(chown(in_dir("etc/policy.d/1.rules"), 4242, 0), 0);
	close_to_others("etc/policy.d/1.rules", 0644);
	ck_assert_int_eq(check(), 1);
	ck_assert_ptr_nonnull(strstr(said, "refused: neither root nor the daemon's user owns it"));
}
END_TEST

START_TEST(groups_and_acls_count)
{
	acl_t acl;
	int r;

	if (!is_root())
		return;
	close_to_others("etc/policy.d/1.rules", 0640);
	ck_assert_int_eq(chown(in_dir("etc/policy.d/1.rules"), 0, DAEMON_GID), 0);
	assert_good();
	ck_assert_int_eq(chown(in_dir("etc/policy.d/1.rules"), 0, OTHER_GID), 0);
	assert_good();
	ck_assert_int_eq(chown(in_dir("etc/policy.d/1.rules"), 0, 4242), 0);
	ck_assert_int_eq(check(), 1);

	acl = acl_from_text("u::rw-,u:65534:r--,g::---,m::r--,o::---");
	ck_assert_ptr_nonnull(acl);
	r = acl_set_file(in_dir("etc/policy.d/1.rules"), ACL_TYPE_ACCESS, acl);
	acl_free(acl);
	if (r < 0)
		fprintf(stderr, "skipped: the file system of /tmp has no ACLs\n");
	else
		assert_good();
}
END_TEST

/* For example, on the host where configuration management makes the files. */
START_TEST(without_the_daemons_user)
{
	has_user = false;
	close_to_others("etc/policy.d/1.rules", 0600);
	assert_good();
}
END_TEST

/* Files that are named may not be where the daemon reads them, or not yet. */
START_TEST(files_that_are_named)
{
	char *files[] = { (char *)in_dir("1.rules") };
	const char *trials[] = { in_dir("1.tests") };
	struct broker_options named = { .config_is_named = true };
	struct broker_options policy = { .policy_dir = in_dir("etc/policy.d") };
	struct broker_options tests = { .trials = trials, .n_trials = 1 };

	if (!is_root())
		return;
	write_to("1.rules", "allow session\n");
	close_to_others("1.rules", 0600);
	ck_assert_int_eq(check_with((struct broker_options){ 0 }, files, 1), 0);
	close_to_others("etc/policy.d/1.rules", 0600);
	ck_assert_int_eq(check_with(named, NULL, 0), 0);
	ck_assert_int_eq(check_with(policy, NULL, 0), 0);
	ck_assert_int_eq(check_with(tests, NULL, 0), 1);
	/* The daemon does not read tests. */
	close_to_others("etc/policy.d/1.rules", 0644);
	write_to("1.tests", "allow session uid 7\n");
	close_to_others("1.tests", 0600);
	ck_assert_int_eq(check_with(tests, NULL, 0), 0);
}
END_TEST

START_TEST(files_of_the_daemon_that_are_named)
{
	static const char *const names[] = { "etc/policy.d/1.rules", "etc/c.conf",
					     "etc/c.conf.d/1.conf", "site/2.rules" };

	if (!is_root())
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *files[] = { (char *)in_dir(names[i]) };

		ck_assert_int_eq(check_with((struct broker_options){ 0 }, files, 1), 0);
		close_to_others(names[i], 0600);
		ck_assert_int_eq(check_with((struct broker_options){ 0 }, files, 1), 1);
		ck_assert_msg(strstr(said, "for the user rdmabroker; to permit it: chmod a+r "),
			      "%s", said);
		ck_assert_ptr_eq(strchr(said, '\n'), strrchr(said, '\n'));
		close_to_others(names[i], 0644);
	}
}
END_TEST

UNIT_MAIN("readable", set_up, tear_down, files_that_only_root_can_read,
	  directories_that_only_root_can_read, rules_of_the_site, files_of_the_daemons_own,
	  groups_and_acls_count, without_the_daemons_user, files_that_are_named,
	  files_of_the_daemon_that_are_named)

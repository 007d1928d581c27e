/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/site.h"

START_TEST(versions_are_installed)
{
	const char *dir;

	ck_assert_int_eq(site("status"), 0);
	ck_assert_str_eq(got.out, "in force: no version\n");
	version("v1", "10-site.rules", "allow listen user 1000 port 7471\n");
	dir = version("v1", "10-site.tests",
		      "allow listen uid 1000 port 7471\n"
		      "allow session uid 1000\n"
		      "reject listen uid 1000 port 7472\n");
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(got.out, "version v1 is in force\n");
	assert_current("versions/v1");
	dir = version("v2", "20-other.rules", "allow listen user 1000\n");
	ck_assert_int_eq(site("install", dir, "--json"), 0);
	assert_json(
		"d == {\"version\": \"v2\", \"previous\": \"v1\", \"changed\": True, \"reloaded\": True, "
		"\"state\": \"in-force\", \"code\": \"ok\", \"error\": None}");
	assert_current("versions/v2");
	ck_assert_int_eq(site("use", "v1"), 0);
	assert_has(got.out, "version v1 is in force, before it was v2\n");
	assert_current("versions/v1");
	ck_assert_int_eq(site("status", "--json"), 0);
	assert_json(
		"d[\"version\"] == \"v1\" and d[\"installed\"] == [\"v2\", \"v1\"] and not d[\"held\"]");
	ck_assert_int_eq(site("install", dir, "--name", "v3"), 0);
	assert_current("versions/v3");
}
END_TEST

/* What changes when the file NAME of the site is written, or a file is made in it. */
static struct stat stat_site(const char *name)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", site, name);
	ck_assert_msg(lstat(path, &st) == 0, "%s", path);
	return st;
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

START_TEST(installed_again_changes_nothing)
{
	static const char *const files[] = { ".", "versions", "versions/v1", "versions/v1/1.rules",
					     "current" };
	struct stat before[sizeof(files) / sizeof(files[0])], after;
	const char *dir = version("v1", "1.rules", "allow listen user 5\n");

	ck_assert_int_eq(site("install", dir), 0);
	/* A reload would fail from now on. This is a change of the host, so the next run checks the version once more. */
	write_text(harness.rules_path, "allow lisen\n");
	ck_assert_int_eq(site("install", dir), 0);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		before[i] = stat_site(files[i]);
	ck_assert_int_eq(site("install", dir), 0);
	ck_assert_str_eq(got.out, "version v1 is in force already, nothing has changed\n");
	ck_assert_str_eq(got.err, "");
	ck_assert_int_eq(site("install", dir, "--json"), 0);
	assert_json("not d[\"changed\"] and not d[\"reloaded\"] and d[\"previous\"] == \"v1\"");
	ck_assert_int_eq(site("use", "v1"), 0);
	assert_has(got.out, "version v1 is in force already, nothing has changed\n");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		after = stat_site(files[i]);
		ck_assert_msg(after.st_ino == before[i].st_ino &&
				      same_time(after.st_ctim, before[i].st_ctim),
			      "%s has changed", files[i]);
	}
	ck_assert_int_eq(site("install", dir, "--name", "v2"), 1);
	assert_has(got.err, "unknown operation 'lisen'");
}
END_TEST

/* The version in force is installed again after the rules of the host were mended. */
START_TEST(a_failed_reload_is_made_again)
{
	const char *dir = version("v1", "1.rules", "allow listen user 5\n");

	ck_assert_int_eq(site("install", dir), 0);
	write_text(harness.rules_path, "allow lisen\n");
	ck_assert_int_eq(ctl("reload"), 1);
	ck_assert_int_eq(site("install", dir), 1);
	assert_has(got.err, "unknown operation 'lisen'");
	assert_has(got.err, "the daemon cannot reload version v1");
	assert_current("versions/v1");
	write_text(harness.rules_path, "allow any\n");
	ck_assert_int_eq(site("use", "v1", "--dry-run"), 0);
	ck_assert_str_eq(got.out, "version v1 is in force, and would be reloaded\n");
	ck_assert_int_eq(site("install", dir), 0);
	ck_assert_str_eq(got.out, "version v1 is in force, and was reloaded\n");
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(got.out, "nothing has changed");
}
END_TEST

/* The link has changed, and the daemon has not: a further installation must not believe the link. */
START_TEST(killed_before_the_reload)
{
	const char *dir;

	ck_assert_int_eq(site("install", version("v1", "1.rules", "allow listen user 5\n")), 0);
	dir = version("v2", "1.rules", "allow listen user 6\n");
	kill_in_reload(dir);
	assert_current("versions/v2");
	ck_assert_int_eq(site("install", dir, "--json"), 0);
	assert_json("d[\"previous\"] == \"v1\" and d[\"changed\"] and d[\"reloaded\"]");
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(got.out, "nothing has changed");
}
END_TEST

START_TEST(dry_run)
{
	char tmp[256], path[512];
	const char *dir;

	snprintf(tmp, sizeof(tmp), "%s/tmp", work);
	ck_assert_int_eq(mkdir(tmp, 0755), 0);
	setenv("TMPDIR", tmp, 1);
	dir = version("v1", "1.rules", "allow listen user 5\n");
	ck_assert_int_eq(site("install", dir, "--dry-run"), 0);
	ck_assert_str_eq(got.out, "version v1 would be in force, now no version is\n");
	ck_assert_int_eq(access(site, F_OK), -1);
	ck_assert_int_eq(site("install", dir), 0);
	ck_assert_int_eq(site("install", dir, "--dry-run"), 0);
	assert_has(got.out, "version v1 is in force already");
	dir = version("v2", "1.rules", "allow listen user 6\n");
	ck_assert_int_eq(site("install", dir, "--dry-run", "--json"), 0);
	assert_json("d[\"previous\"] == \"v1\" and d[\"changed\"] and not d[\"reloaded\"]");
	ck_assert_int_eq(site("use", "v2", "--dry-run"), 1);
	assert_has(got.err, "cannot open");
	ck_assert_int_eq(site("install", dir), 0);
	ck_assert_int_eq(site("use", "v1", "--dry-run"), 0);
	ck_assert_str_eq(got.out, "version v1 would be in force, now it is v2\n");
	dir = version("bad", "1.rules", "allow lisen\n");
	ck_assert_int_eq(site("install", dir, "--dry-run"), 1);
	assert_has(got.err, "1.rules:1:7: unknown operation 'lisen'");
	assert_current("versions/v2");
	snprintf(path, sizeof(path), "%s/versions/bad", site);
	ck_assert_int_eq(access(path, F_OK), -1);
	unsetenv("TMPDIR");
	/* Nothing is left. */
	ck_assert_int_eq(rmdir(tmp), 0);
}
END_TEST

static void assert_refused(const char *dir, const char *why)
{
	ck_assert_int_eq(site("install", dir), 1);
	assert_has(got.err, why);
	/* A directory that is gone is not named. */
	ck_assert_msg(!strstr(got.err, ".version.new"), "%s", got.err);
	assert_current("versions/good");
}

START_TEST(bad_versions_are_refused)
{
	ck_assert_int_eq(site("install", version("good", "1.rules", "allow listen user 5\n")), 0);
	assert_refused(version("error", "1.rules", "allow listen\nallow lisen\n"),
		       "1.rules:2:7: unknown operation 'lisen'");
	version("test", "1.rules", "allow listen user 1000 port 7471\n");
	assert_refused(version("test", "2.tests", "# two\nallow listen uid 1000 port 7472\n"),
		       "2.tests:2:1: the test fails: it is rejected, because no rule matches");
	assert_has(got.err, "version test is refused, nothing has changed");
	assert_refused(version("admin", "1.rules", "allow admin user 7\n"),
		       "this host takes no rules for 'admin' from its site");
	assert_refused(version("names", "1.rules", "allow listen user no.such.user\n"),
		       "unknown user 'no.such.user'");
	/* A version never changes. */
	assert_refused(version("good", "1.rules", "allow listen user 6\n"),
		       "version good is installed already, with other contents");
	ck_assert_int_eq(site("use", "test"), 1);
	assert_has(got.err, "cannot open");
	ck_assert_int_eq(site("status"), 0);
	assert_has(got.out, "in force: good\nstate: refused since ");
	assert_has(got.out, "installed: good\n");
}
END_TEST

/* The check does not run in the caller's directory, but a relative RDMABROKERD is relative to that. */
START_TEST(relative_program)
{
	ck_assert_int_eq(chdir(harness.dir), 0);
	setenv("RDMABROKERD", "./check", 1);
	ck_assert_int_eq(site("install", version("v1", "1.rules", "allow listen user 5\n")), 0);
	assert_current("versions/v1");
	setenv("RDMABROKERD", "./nothing", 1);
	ck_assert_int_eq(site("install", version("v2", "1.rules", "allow listen user 6\n")), 75);
	assert_has(got.err, "cannot run ./nothing: No such file or directory");
	assert_current("versions/v1");
}
END_TEST

START_TEST(what_is_no_version)
{
	char path[512];
	const char *dir;

	ck_assert_int_eq(site("install", version("good", "1.rules", "allow listen user 5\n")), 0);
	assert_refused("/nonexistent/x", "cannot open /nonexistent/x");
	snprintf(path, sizeof(path), "%s/empty", work);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	assert_refused(path, "has no files");
	version("other", "1.rules", "allow any\n");
	assert_refused(version("other", "README", "x"),
		       "other/README: a version has only files NAME.rules and NAME.tests");
	assert_refused(version("hidden", ".1.rules", "x"), "a version has only files");
	assert_refused(version("names", "\xe2\x80\xae\033[2J\n.rules", "x"),
		       "names/\\u202e\\x1b[2J\\x0a.rules: a version has only files");
	/* Whoever writes the directory cannot make root read other files, or wait. */
	dir = version("link", "1.rules", "allow any\n");
	snprintf(path, sizeof(path), "%s/2.rules", dir);
	ck_assert_int_eq(symlink("/etc/shadow", path), 0);
	assert_refused(dir, "cannot open");
	dir = version("fifo", "1.rules", "allow any\n");
	snprintf(path, sizeof(path), "%s/2.rules", dir);
	ck_assert_int_eq(mkfifo(path, 0644), 0);
	assert_refused(dir, "is not a plain file");
	dir = version("directory", "1.rules", "allow any\n");
	snprintf(path, sizeof(path), "%s/2.rules", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	assert_refused(dir, "is not a plain file");
	dir = version("huge", "1.rules", "allow any\n");
	snprintf(path, sizeof(path), "%s/2.rules", dir);
	write_text(path, "");
	ck_assert_int_eq(truncate(path, 5 * 1024 * 1024), 0);
	assert_refused(dir, "more than 4194304 bytes");
	ck_assert_int_eq(site("install", dir, "--name", "../x"), 2);
	assert_has(got.err, "invalid name of a version \"../x\"");
	ck_assert_int_eq(site("use", "../x"), 2);
	ck_assert_int_eq(site("use"), 2);
	ck_assert_int_eq(site("remove", "x"), 2);
	assert_has(got.err, "site takes \"install DIR\"");
}
END_TEST

/* The check passes, but the daemon refuses: what was in force is in force again. */
START_TEST(daemon_refuses)
{
	ck_assert_int_eq(site("install", version("good", "1.rules", "allow listen user 5\n")), 0);
	write_text(harness.rules_path, "allow lisen\n");
	assert_refused(version("v2", "1.rules", "allow listen user 6\n"),
		       "version v2 is refused; in force is still version good");
	write_text(harness.rules_path, "allow any\n");
	ck_assert_int_eq(site("use", "v2"), 0);
	assert_current("versions/v2");
}
END_TEST

START_TEST(no_daemon_runs)
{
	const char *dir = version("v1", "1.rules", "allow listen user 5\n");

	stop_server();
	unlink(harness.socket_path);
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(got.out, "version v1 is in force when the daemon starts\n");
	assert_current("versions/v1");
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(got.out, "nothing has changed");
}
END_TEST

/* Root follows no link that somebody has made where versions are installed. */
START_TEST(links_are_not_followed)
{
	char kept[256], path[512];
	struct stat st;

	ck_assert_int_eq(site("install", version("good", "1.rules", "allow listen user 5\n")), 0);
	snprintf(kept, sizeof(kept), "%s", version("kept", "file", "kept"));
	snprintf(path, sizeof(path), "%s/.version.new", site);
	ck_assert_int_eq(symlink(kept, path), 0);
	snprintf(path, sizeof(path), "%s/.unconfirmed", site);
	snprintf(kept + strlen(kept), sizeof(kept) - strlen(kept), "/made");
	ck_assert_int_eq(symlink(kept, path), 0);
	ck_assert_int_eq(site("install", version("v2", "1.rules", "allow listen user 6\n")), 0);
	ck_assert_int_eq(stat(kept, &st), -1);
	ck_assert_int_eq(lstat(path, &st), -1);
	strcpy(strrchr(kept, '/'), "/file");
	snprintf(path, sizeof(path), "%s/.hold.new", site);
	ck_assert_int_eq(symlink(kept, path), 0);
	ck_assert_int_eq(site("hold"), 0);
	ck_assert_int_eq(stat(kept, &st), 0);
	ck_assert_int_eq(st.st_size, strlen("kept"));
	/* Who owns the directory could do it in other ways. */
	ck_assert_int_eq(chmod(site, 0777), 0);
	ck_assert_int_eq(site("release"), 75);
	assert_has(got.err, "must be a directory of this user, which nobody else can write");
	ck_assert_int_eq(chmod(site, 0755), 0);
	snprintf(path, sizeof(path), "%s/versions", site);
	snprintf(kept, sizeof(kept), "%s/elsewhere", site);
	ck_assert_int_eq(rename(path, kept), 0);
	ck_assert_int_eq(symlink(kept, path), 0);
	ck_assert_int_eq(site("use", "good"), 75);
	assert_has(got.err, "must be a directory of this user, which nobody else can write");
}
END_TEST

START_TEST(old_versions_are_forgotten)
{
	char name[16], path[512];

	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		ck_assert_int_eq(site("install", version(name, "1.rules", "allow listen user 5\n")),
				 0);
		if (i == 0)
			ck_assert_int_eq(site("status"), 0);
	}
	ck_assert_int_eq(site("status", "--json"), 0);
	assert_json("d[\"version\"] == \"v11\" and len(d[\"installed\"]) == 8");
	snprintf(path, sizeof(path), "%s/versions/v0", site);
	ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

START_TEST(one_at_a_time)
{
	const char *dir = version("v1", "1.rules", "allow listen user 5\n");
	char path[512];
	FILE *lock;

	ck_assert_int_eq(site("install", dir), 0);
	snprintf(path, sizeof(path), "%s/.lock", site);
	lock = fopen(path, "re");
	ck_assert_ptr_nonnull(lock);
	ck_assert_int_eq(flock(fileno(lock), LOCK_EX), 0);
	ck_assert_int_eq(site("use", "v1"), 75);
	assert_has(got.err, "another process changes the versions");
	fclose(lock);
	/* What an installation that was killed has left is no obstacle. */
	snprintf(path, sizeof(path), "%s/.version.new", site);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/.current.new", site);
	ck_assert_int_eq(symlink("x", path), 0);
	ck_assert_int_eq(site("install", dir, "--name", "v2"), 0);
}
END_TEST

UNIT_MAIN("site", set_up_site, tear_down_site, versions_are_installed,
	  installed_again_changes_nothing, a_failed_reload_is_made_again, killed_before_the_reload,
	  dry_run, bad_versions_are_refused, relative_program, what_is_no_version, daemon_refuses,
	  no_daemon_runs, links_are_not_followed, old_versions_are_forgotten, one_at_a_time)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/site.h"

/* `site install`, again and again: what it makes of what others have done to the host meanwhile, and what it records. */

#define ONE "allow listen user 5\n"
#define TWO "allow listen user 6\n"
/* In Python, the digest of a version that has only 1.rules, with TEXT. */
#define SHA256 "__import__(\"hashlib\").sha256"
#define DIGEST(text) \
	SHA256 "((" SHA256 "(b\"" text "\").hexdigest() + \"  1.rules\\n\").encode()).hexdigest()"

static const char *path_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", site, name);
	return path;
}

static const char *read_text(const char *name)
{
	static char text[8192];
	FILE *file = fopen(path_of(name), "re");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	ck_assert_msg(file != NULL, "%s", name);
	fclose(file);
	text[n] = 0;
	return text;
}

/* EXPRESSION is about the JSON of `site status`. */
static void assert_status(const char *expression)
{
	ck_assert_int_eq(site("status", "--json"), 0);
	assert_json(expression);
}

/* The installed version has exactly the file 1.rules with TEXT. */
static void assert_files(const char *name, const char *text)
{
	char file[128];

	snprintf(file, sizeof(file), "versions/%s/1.rules", name);
	ck_assert_str_eq(read_text(file), text);
}

static void write_site(const char *name, const char *text)
{
	write_text(path_of(name), text);
}

static void write_local(const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/local/50.rules", harness.dir);
	write_text(path, text);
}

START_TEST(edited_files_are_put_back)
{
	const char *dir = version("v1", "1.rules", ONE);
	char elsewhere[512];
	struct stat st;

	ck_assert_int_eq(site("install", dir), 0);
	write_site("versions/v1/1.rules", "allow any\n");
	assert_status("d[\"version\"] == \"v1\" and d[\"edited\"]");
	ck_assert_int_eq(site("install", dir, "--dry-run"), 0);
	assert_has(got.out, "version v1 is in force, and would be put back\n");
	assert_files("v1", "allow any\n");
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(
		got.err,
		"the files of version v1 were changed on this host since it was installed; they are put back");
	assert_has(got.out, "version v1 is in force, and was reloaded\n");
	assert_files("v1", ONE);
	assert_status(
		"d[\"state\"] == \"drift-put-back\" and not d[\"edited\"] and \"were changed\" in d[\"error\"]");
	/* It is said until something else changes, and nothing is written meanwhile. */
	ck_assert_int_eq(stat(path_of("."), &st), 0);
	ck_assert_int_eq(site("install", dir), 0);
	ck_assert_str_eq(got.err, "");
	assert_status("d[\"state\"] == \"drift-put-back\"");
	/* A file more, one less, a directory in it, and none at all. */
	write_site("versions/v1/2.rules", ONE);
	ck_assert_int_eq(site("install", dir), 0);
	ck_assert_int_eq(access(path_of("versions/v1/2.rules"), F_OK), -1);
	ck_assert_int_eq(unlink(path_of("versions/v1/1.rules")), 0);
	ck_assert_int_eq(site("install", dir), 0);
	assert_files("v1", ONE);
	ck_assert_int_eq(mkdir(path_of("versions/v1/notes"), 0755), 0);
	write_site("versions/v1/notes/x", "x");
	ck_assert_int_eq(site("install", dir), 0);
	assert_files("v1", ONE);
	ck_assert_int_eq(chmod(path_of("versions/v1/1.rules"), 0666), 0);
	ck_assert_int_eq(site("install", dir), 0);
	ck_assert_int_eq(stat(path_of("versions/v1/1.rules"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0644);
	strcpy(elsewhere, path_of("versions/elsewhere"));
	ck_assert_int_eq(rename(path_of("versions/v1"), elsewhere), 0);
	ck_assert_int_eq(site("install", dir), 0);
	assert_files("v1", ONE);
	/* The link is put back, too. */
	ck_assert_int_eq(site("install", version("v2", "1.rules", TWO)), 0);
	ck_assert_int_eq(site("use", "v1"), 0);
	assert_has(got.out, "puts its own in force again in its next run, unless \"site hold\"");
	ck_assert_int_eq(site("install", version("v2", "1.rules", TWO)), 0);
	assert_current("versions/v2");
	/* What was edited is not used as if it were the version. */
	write_site("versions/v1/1.rules", "allow any\n");
	ck_assert_int_eq(site("use", "v1"), 1);
	assert_has(got.err, "install it again");
	assert_status("d[\"version\"] == \"v2\" and d[\"state\"] == \"in-force\"");
}
END_TEST

START_TEST(held)
{
	const char *two;

	ck_assert_int_eq(site("install", version("v1", "1.rules", ONE)), 0);
	two = version("v2", "1.rules", TWO);
	ck_assert_int_eq(site("hold", "a ticket"), 0);
	assert_status(
		"d[\"state\"] == \"held\" and d[\"code\"] == \"held\" and d[\"error\"] == \"a ticket\" "
		"and d[\"held\"][\"why\"] == \"a ticket\"");
	/* Edited files are kept, and the digest tells. */
	write_site("versions/v1/1.rules", "allow any\n");
	ck_assert_int_eq(site("install", two, "--unless-held"), 75);
	assert_has(got.err, "the version in force is held by ");
	assert_current("versions/v1");
	assert_files("v1", "allow any\n");
	assert_status(
		"d[\"state\"] == \"held\" and d[\"wanted\"] == \"v2\" and d[\"edited\"] and d[\"sha256\"] == " DIGEST(
			"allow any\\n"));
	/* By hand, a version can be put in force, and is held then. */
	ck_assert_int_eq(site("install", two), 0);
	assert_status("d[\"state\"] == \"held\" and d[\"version\"] == \"v2\"");
	ck_assert_int_eq(site("release"), 0);
	assert_status(
		"d[\"state\"] == \"in-force\" and d[\"version\"] == \"v2\" and not d[\"held\"]");
	ck_assert_int_eq(site("install", two, "--unless-held"), 0);
	assert_has(got.out, "nothing has changed");
}
END_TEST

/* A refusal is told once, and the version is tried again when it, or this host, has changed. */
START_TEST(refused_once)
{
	const char *two;

	ck_assert_int_eq(site("install", version("v1", "1.rules", ONE)), 0);
	version("v2", "60.rules", TWO);
	two = version("v2", "60.tests", "allow listen uid 6\n");
	/* A rule of this host, which comes first; and a warning, which is not the reason. */
	write_local("reject listen user 6\nallow listen user 7\nallow listen user 7\n");
	ck_assert_int_eq(site("install", two), 1);
	assert_has(got.err, "60.tests:1:1: the test fails");
	assert_status(
		"d[\"state\"] == \"refused\" and d[\"code\"] == \"rules\" and d[\"version\"] == \"v1\" and "
		"d[\"wanted\"] == \"v2\" and d[\"error\"].startswith(\"60.tests:1:1: the test fails\")");
	ck_assert_int_eq(site("install", two, "--json"), 1);
	assert_has(got.err, "neither it nor this host has changed since");
	assert_has(got.out, "\"state\": \"refused\", \"code\": \"rules\", \"error\": \"");
	ck_assert_int_eq(site("install", two, "--again"), 1);
	assert_lacks(got.err, "neither it nor this host");
	/* Nor do a hold and its release make it valid. */
	ck_assert_int_eq(site("hold"), 0);
	ck_assert_int_eq(site("release"), 0);
	assert_status("d[\"state\"] == \"in-force\" and d[\"wanted\"] == \"v1\"");
	ck_assert_int_eq(site("install", two), 1);
	assert_has(got.err, "60.tests:1:1: the test fails");
	/* The local rule is corrected. */
	write_local("allow session user 1000\n");
	ck_assert_int_eq(site("install", two), 0);
	assert_status(
		"d[\"state\"] == \"in-force\" and d[\"version\"] == \"v2\" and d[\"error\"] is None");
	/* Other contents of the version. */
	version("v3", "1.rules", "allow lisen\n");
	ck_assert_int_eq(site("install", version("v3", "2.rules", ONE)), 1);
	ck_assert_int_eq(site("install", version("v3", "1.rules", TWO)), 0);
	/* Going back from what is refused to what is in force is no change. */
	ck_assert_int_eq(site("install", version("v4", "1.rules", "allow lisen\n")), 1);
	assert_status("d[\"state\"] == \"refused\" and d[\"version\"] == \"v3\"");
	ck_assert_int_eq(site("install", version("v3", "1.rules", TWO)), 0);
	assert_has(got.out, "nothing has changed");
	assert_status("d[\"state\"] == \"in-force\" and d[\"wanted\"] == \"v3\"");
}
END_TEST

/* What the check of this host lets pass, the daemon refuses: it is not reloaded again and again. */
START_TEST(refused_by_the_daemon_once)
{
	const char *two;

	ck_assert_int_eq(site("install", version("v1", "1.rules", ONE)), 0);
	write_text(harness.rules_path, "allow lisen\n");
	two = version("v2", "1.rules", TWO);
	ck_assert_int_eq(site("install", two), 1);
	assert_status(
		"d[\"state\"] == \"refused\" and d[\"code\"] == \"daemon\" and \"unknown operation\" in d[\"error\"]");
	ck_assert_int_eq(site("install", two), 1);
	assert_has(got.err, "neither it nor this host has changed");
	assert_current("versions/v1");
	write_text(harness.rules_path, "allow any\n");
	ck_assert_int_eq(site("install", two), 0);
	assert_status("d[\"state\"] == \"in-force\" and d[\"version\"] == \"v2\"");
}
END_TEST

START_TEST(unconfirmed)
{
	const char *two;

	ck_assert_int_eq(site("install", version("v1", "1.rules", ONE)), 0);
	two = version("v2", "1.rules", TWO);
	kill_in_reload(two);
	/* Until the daemon has confirmed it, the one before is in force. */
	assert_status(
		"d[\"version\"] == \"v1\" and d[\"wanted\"] == \"v2\" and d[\"state\"] == \"unconfirmed\"");
	/* The next run goes back to it, if the daemon refuses: the link alone does not tell where to. */
	write_text(harness.rules_path, "allow lisen\n");
	ck_assert_int_eq(site("install", two), 1);
	assert_has(got.err, "in force is still version v1");
	assert_current("versions/v1");
	write_text(harness.rules_path, "allow any\n");
	/* Another version was to be in force meanwhile. */
	kill_in_reload(two);
	ck_assert_int_eq(site("install", version("v3", "1.rules", ONE), "--json"), 0);
	assert_json("d[\"previous\"] == \"v1\" and d[\"reloaded\"]");
	assert_status("d[\"version\"] == \"v3\" and d[\"state\"] == \"in-force\"");
}
END_TEST

START_TEST(without_a_daemon)
{
	const char *dir = version("v1", "1.rules", ONE);

	stop_server();
	unlink(harness.socket_path);
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(got.out, "version v1 is in force when the daemon starts\n");
	assert_status(
		"d[\"state\"] == \"unconfirmed\" and d[\"version\"] is None and d[\"wanted\"] == \"v1\" and "
		"d[\"error\"] == \"the daemon does not run\"");
	ck_assert_int_eq(site("install", dir), 0);
	assert_has(got.out, "version v1 is in force when the daemon starts, nothing has changed\n");
}
END_TEST

START_TEST(changes_are_logged)
{
	char name[16];

	ck_assert_int_eq(site("log"), 0);
	ck_assert_str_eq(got.out, "TIME  ACTION  VERSION  BEFORE  BY\n");
	ck_assert_int_eq(site("install", version("v1", "1.rules", ONE)), 0);
	ck_assert_int_eq(
		site("install", version("v2", "1.rules", TWO), "--by", "git\tof \033alice"), 0);
	ck_assert_int_eq(site("use", "v1"), 0);
	ck_assert_int_eq(site("use", "v1"), 0);
	ck_assert_int_eq(site("hold", "why"), 0);
	ck_assert_int_eq(site("log", "--json"), 0);
	assert_json(
		"[(c[\"action\"], c[\"version\"], c[\"previous\"]) for c in d[\"changes\"]] == "
		"[(\"held\", \"v1\", None), (\"used\", \"v1\", \"v2\"), (\"installed\", \"v2\", \"v1\"), "
		"(\"installed\", \"v1\", None)] and d[\"changes\"][2][\"by\"] == \"git?of ?alice\" and "
		"\"@\" in d[\"changes\"][0][\"by\"] and d[\"changes\"][0][\"time\"] >= d[\"changes\"][3][\"time\"] > 0");
	for (int i = 3; i < 14; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		ck_assert_int_eq(site("install", version(name, "1.rules", i % 2 ? ONE : TWO)), 0);
	}
	ck_assert_int_eq(site("log", "--json"), 0);
	assert_json(
		"[c[\"version\"] for c in d[\"changes\"]] == [f\"v{i}\" for i in range(13, 5, -1)]");
}
END_TEST

/* Two names of the same contents: the new name is in force, and nothing is checked twice. */
START_TEST(two_names)
{
	ck_assert_int_eq(site("install", version("v1", "1.rules", ONE)), 0);
	ck_assert_int_eq(site("install", version("v2", "1.rules", ONE), "--json"), 0);
	assert_json("d[\"version\"] == \"v2\" and d[\"previous\"] == \"v1\" and d[\"changed\"]");
	assert_status(
		"d[\"version\"] == \"v2\" and d[\"sha256\"] == " DIGEST("allow listen user 5\\n"));
}
END_TEST

/* As a full disk: no file can have more than LIMIT bytes. */
static int site_with_limit(const char *dir, rlim_t limit)
{
	struct rlimit old, new;
	int status;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	new = (struct rlimit){ .rlim_cur = limit, .rlim_max = old.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &new), 0);
	status = site("install", dir);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
	return status;
}

START_TEST(no_space)
{
	static char large[200 * 64];
	const char *dir;

	for (int i = 0; i < 200; i++)
		strcat(large, "allow listen user 5 port 1000                                 \n");
	ck_assert_int_eq(site("install", version("v1", "1.rules", ONE)), 0);
	dir = version("v2", "1.rules", large);
	/* From what a version needs down to what the smallest file needs: nothing is half done, and nothing is said to be done. */
	for (rlim_t limit = 8192; limit > 0; limit /= 4) {
		ck_assert_int_eq(site_with_limit(dir, limit), 75);
		assert_current("versions/v1");
		ck_assert_int_eq(access(path_of("versions/v2"), F_OK), -1);
	}
	ck_assert_int_eq(site("install", dir), 0);
	assert_status("d[\"version\"] == \"v2\" and d[\"state\"] == \"in-force\"");
	/* Where only the record of what was done does not fit, the next run writes it. */
	dir = version("v3", "1.rules", TWO);
	ck_assert_int_eq(site_with_limit(dir, 80), 75);
	/* The limit is that of the captured output, too. */
	assert_has(got.err, "cannot write ");
	ck_assert_int_eq(site("install", dir), 0);
	assert_status(
		"d[\"version\"] == \"v3\" and d[\"state\"] == \"in-force\" and d[\"error\"] is None");
}
END_TEST

UNIT_MAIN("site_state", set_up_site, tear_down_site, edited_files_are_put_back, held, refused_once,
	  refused_by_the_daemon_once, unconfirmed, without_a_daemon, changes_are_logged, two_names,
	  no_space)

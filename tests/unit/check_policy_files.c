/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/check_policy.h"
#include "tests/unit/tree.h"

static char dir[64];

static void set_up(void)
{
	strcpy(dir, "/tmp/check_policy.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	policy_set_up();
}

static void tear_down(void)
{
	policy_tear_down();
	remove_tree(dir);
}

static int load_dir(void)
{
	return policy_load_dir(&policy, dir, POLICY_NAMES_MUST_EXIST, diag);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	char full[256];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", dir, name);
	f = fopen(full, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(full, mode), 0);
}

START_TEST(sizes_have_limits)
{
	size_t size = 1024 * 1024;
	char *text = malloc(size + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, ' ', size + 1);
	text[0] = '#';
	ck_assert_int_eq(load_bytes(text, 4096), 0);
	ck_assert_int_eq(load_bytes(text, 4097), -EBADMSG);
	ck_assert_str_eq(complaints_at(&diag->errors, 0),
			 "t:1:4097: the line is longer than 4096 bytes");

	memset(text, '\n', size + 1);
	ck_assert_int_eq(load_bytes(text, size), 0);
	ck_assert_int_eq(load_bytes(text, size + 1), -EFBIG);
	ck_assert_str_eq(complaints_at(&diag->errors, 0), "t: refused: larger than 1048576 bytes");

	free(text);
}
END_TEST

START_TEST(rules_have_a_limit)
{
	static const char *const names[] = { "1.rules", "2.rules", "3.rules" };
	FILE *f;
	char full[256];

	/* A file has at most 1 MiB, which is too small for 100000 rules, so there are two files. */
	for (int i = 0; i < 2; i++) {
		snprintf(full, sizeof(full), "%s/%s", dir, names[i]);
		f = fopen(full, "w");
		ck_assert_ptr_nonnull(f);
		for (int k = 0; k < 50000; k++)
			fputs("allow any log\n", f);
		fclose(f);
	}
	ck_assert_int_eq(load_dir(), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 100000);
	forget();

	write_file(names[2], "set a = { 10.0.0.1 }\nallow any\nallow any\n", 0644);
	ck_assert_int_eq(load_dir(), -EBADMSG);
	ck_assert_str_eq(strrchr(complaints_at(&diag->errors, 0), '/'),
			 "/3.rules:2:1: more than 100000 rules");
	ck_assert_uint_eq(diag->errors.n, 1);
}
END_TEST

START_TEST(a_directory_is_read_in_order)
{
	char expected[256];

	write_file("20-b.rules", "allow connect peer @a\n", 0644);
	write_file("10-a.rules", "set a = { 10.0.0.1 }\nallow session\n", 0600);
	write_file("9.rules", "reject any\n", 0444);
	write_file(".1.rules", "nonsense", 0644);
	write_file("1.rules~", "nonsense", 0644);
	write_file("rules", "nonsense", 0666);
	ck_assert_int_eq(load_dir(), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 3);
	ck_assert_int_eq(policy_rule_at(policy, 0)->operation, POLICY_SESSION);
	ck_assert_int_eq(policy_rule_at(policy, 1)->operation, POLICY_CONNECT);
	snprintf(expected, sizeof(expected), "%s/9.rules", dir);
	ck_assert_str_eq(policy_rule_at(policy, 2)->file, expected);
}
END_TEST

/* A rule that is not read can allow too much, because a reject is missing. */
START_TEST(files_that_are_not_read_are_told)
{
	static const char *const silent[] = {
		"README",
		"README.md",
		"readme.txt",
		".a.rules",
		".k8s.reload",
		"a.rules~",
		"#a.rules#",
		"a.rules.bak",
		"a.rules.old",
		"a.rules.orig",
		"a.rules.dpkg-old",
		"a.rules.dpkg-dist",
		"a.rules.ucf-dist",
		"a.rules.rpmsave",
		"a.rules.rpmnew",
		"a.rules.pacsave",
		"a.rules.disabled",
		"a.tests",
		"a.swp",
	};
	static const struct {
		const char *name, *meant;
	} told[] = {
		{ "10-a.conf", "10-a.rules" },     { "20-b", "20-b.rules" },
		{ "30-c.RULES", "30-c.rules" },    { "40-d.rules.txt", "40-d.rules" },
		{ "50-e.e.rule", "50-e.e.rules" }, { "rules", "rules.rules" },
	};
	char expected[256], full[256];

	write_file("10-a.k8s.rules", "allow session\n", 0644);
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++)
		write_file(silent[i], "nonsense", 0644);
	snprintf(full, sizeof(full), "%s/subdirectory", dir);
	ck_assert_int_eq(mkdir(full, 0755), 0);
	ck_assert_int_eq(load_dir(), 0);
	ck_assert_msg(diag->warnings.n == 0, "%s", complaints_at(&diag->warnings, 0));
	/* In reverse order, because the warnings are sorted. */
	for (size_t i = sizeof(told) / sizeof(told[0]); i > 0; i--)
		write_file(told[i - 1].name, "reject any\n", 0644);
	forget();
	ck_assert_int_eq(load_dir(), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 1);
	ck_assert_uint_eq(diag->warnings.n, sizeof(told) / sizeof(told[0]));
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		snprintf(expected, sizeof(expected),
			 "%s/%s: this file is not read, because its name does not end in "
			 "'.rules'; did you mean '%s'?",
			 dir, told[i].name, told[i].meant);
		ck_assert_str_eq(complaints_at(&diag->warnings, i), expected);
	}
}
END_TEST

START_TEST(an_empty_directory_is_a_policy)
{
	ck_assert_int_eq(load_dir(), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 0);
}
END_TEST

static void assert_dir_refused(int error, const char *expected)
{
	ck_assert_int_eq(load_dir(), error);
	ck_assert_ptr_null(policy);
	ck_assert_uint_eq(diag->errors.n, 1);
	ck_assert(!strncmp(complaints_at(&diag->errors, 0), dir, strlen(dir)));
	ck_assert_str_eq(complaints_at(&diag->errors, 0) + strlen(dir), expected);
	forget();
}

START_TEST(what_others_can_write_is_refused)
{
	write_file("a.rules", "allow session\n", 0664);
	assert_dir_refused(-EPERM, "/a.rules: refused: group or others can write it");
	write_file("a.rules", "allow session\n", 0646);
	assert_dir_refused(-EPERM, "/a.rules: refused: group or others can write it");
	write_file("a.rules", "allow session\n", 0644);
	ck_assert_int_eq(chmod(dir, 01777), 0);
	assert_dir_refused(-EPERM, ": refused: group or others can write it");
	ck_assert_int_eq(chmod(dir, 0755), 0);
	ck_assert_int_eq(load_dir(), 0);
}
END_TEST

START_TEST(what_others_own_is_refused)
{
	char full[256];

	if (geteuid() != 0)
		return;
	write_file("a.rules", "allow session\n", 0644);
	snprintf(full, sizeof(full), "%s/a.rules", dir);
	ck_assert_int_eq(chown(full, 12345, 0), 0);
	assert_dir_refused(-EPERM, "/a.rules: refused: neither root nor the daemon's user owns it");
	ck_assert_int_eq(chown(full, 0, 0), 0);
	ck_assert_int_eq(chown(dir, 12345, 0), 0);
	assert_dir_refused(-EPERM, ": refused: neither root nor the daemon's user owns it");
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/a.rules", dir);
	ck_assert_int_eq(mkdir(full, 0755), 0);
	assert_dir_refused(-EINVAL, "/a.rules: refused: not a regular file");
	ck_assert_int_eq(rmdir(full), 0);
	ck_assert_int_eq(mkfifo(full, 0644), 0);
	assert_dir_refused(-EINVAL, "/a.rules: refused: not a regular file");
	ck_assert_int_eq(unlink(full), 0);
	ck_assert_int_eq(symlink("nowhere", full), 0);
	assert_dir_refused(-ENOENT, "/a.rules: cannot open: No such file or directory");
	ck_assert_int_eq(unlink(full), 0);
	ck_assert_int_eq(rmdir(dir), 0);
	assert_dir_refused(-ENOENT, ": cannot open: No such file or directory");
	ck_assert_int_eq(mkdir(dir, 0755), 0);
}
END_TEST

START_TEST(symbolic_links_are_followed)
{
	char full[256];

	write_file("elsewhere", "allow session\n", 0644);
	snprintf(full, sizeof(full), "%s/a.rules", dir);
	ck_assert_int_eq(symlink("elsewhere", full), 0);
	ck_assert_int_eq(load_dir(), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 1);
	forget();
	write_file("elsewhere", "allow session\n", 0666);
	assert_dir_refused(-EPERM, "/a.rules: refused: group or others can write it");
}
END_TEST

START_TEST(errors_of_all_files_are_collected)
{
	write_file("a.rules", "nonsense\n", 0644);
	write_file("b.rules", "allow session\n", 0666);
	write_file("c.rules", "allow\n", 0644);
	ck_assert_int_eq(load_dir(), -EBADMSG);
	ck_assert_uint_eq(diag->errors.n, 3);
	ck_assert_ptr_nonnull(strstr(complaints_at(&diag->errors, 0), "/a.rules:1:1: "));
	ck_assert_ptr_nonnull(strstr(complaints_at(&diag->errors, 1), "/b.rules: refused"));
	ck_assert_ptr_nonnull(strstr(complaints_at(&diag->errors, 2), "/c.rules:1:6: "));
}
END_TEST

START_TEST(files_are_read_as_named)
{
	char a[256], b[256];
	const char *files[] = { b, a };

	write_file("a", "allow session\n", 0644);
	write_file("b", "reject any\n", 0644);
	snprintf(a, sizeof(a), "%s/a", dir);
	snprintf(b, sizeof(b), "%s/b", dir);
	ck_assert_int_eq(policy_load_files(&policy, files, 2, diag), 0);
	ck_assert_str_eq(policy_rule_at(policy, 0)->file, b);
	ck_assert_str_eq(policy_rule_at(policy, 1)->file, a);
	forget();
	write_file("a", "allow session\n", 0666);
	ck_assert_int_eq(policy_load_files(&policy, files, 2, diag), -EPERM);
}
END_TEST

static void make_dir(const char *name)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", dir, name);
	ck_assert_int_eq(mkdir(full, 0755), 0);
}

static void link_to(const char *name, const char *link)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", dir, link);
	unlink(full);
	ck_assert_int_eq(symlink(name, full), 0);
}

static int load_site(const char *link, bool may_admin)
{
	char own[256], full[256];
	const struct policy_site site = { full, may_admin };

	policy = policy_unref(policy);
	snprintf(own, sizeof(own), "%s/own", dir);
	snprintf(full, sizeof(full), "%s/%s", dir, link);
	return policy_load_dirs(&policy, own, &site, POLICY_NAMES_MUST_EXIST, diag);
}

static void assert_rules(const char *const *texts, size_t n)
{
	ck_assert_uint_eq(policy_n_rules(policy), n);
	for (size_t i = 0; i < n; i++)
		ck_assert_str_eq(policy_rule_at(policy, i)->text, texts[i]);
}

START_TEST(files_of_a_site_are_merged)
{
	static const char *const both[] = { "allow listen port 1", "allow listen port 2",
					    "allow listen port 3", "allow listen port 4",
					    "allow listen port 5" };

	make_dir("own");
	make_dir("1");
	make_dir("2");
	write_file("own/20-b.rules", "allow listen port 2\n", 0644);
	write_file("own/40-d.rules", "allow listen port 4\n", 0644);
	write_file("1/10-a.rules", "allow listen port 1\n", 0644);
	write_file("1/20-b.rules", "allow listen port 3\n", 0644);
	write_file("1/50-e.rules", "allow listen port 5\n", 0644);
	write_file("1/50-e.tests", "no rules\n", 0644);
	/* Without a version of the site. */
	ck_assert_int_eq(load_site("current", false), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 2);
	link_to("1", "current");
	ck_assert_int_eq(load_site("current", false), 0);
	assert_rules(both, 5);
	/* Messages name the version, not the link. */
	ck_assert_ptr_nonnull(strstr(policy_rule_at(policy, 0)->file, "/1/10-a.rules"));
	link_to("2", "current");
	ck_assert_int_eq(load_site("current", false), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 2);
	/* Sets are known in all files that follow. */
	write_file("2/00-sets.rules", "set a = { 10.0.0.0/8 }\n", 0644);
	write_file("own/20-b.rules", "allow connect peer @a\n", 0644);
	ck_assert_int_eq(load_site("current", false), 0);
}
END_TEST

START_TEST(a_site_makes_no_admins)
{
	make_dir("own");
	make_dir("1");
	link_to("1", "current");
	write_file("own/1.rules", "allow admin user 1\n", 0644);
	write_file("1/1.rules", "reject admin user 2\nallow observe user 3\nallow any\n", 0644);
	ck_assert_int_eq(load_site("current", false), 0);
	write_file("1/2.rules", "allow listen\nallow admin user 4\n", 0644);
	ck_assert_int_eq(load_site("current", false), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(complaints_at(&diag->errors, 0),
				     "/1/2.rules:2:7: this host takes no rules "
				     "for 'admin' from its site"));
	ck_assert_int_eq(load_site("current", true), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 6);
}
END_TEST

START_TEST(a_site_that_cannot_be_read)
{
	make_dir("own");
	make_dir("1");
	write_file("own/1.rules", "allow any\n", 0644);
	link_to("1", "current");
	write_file("1/1.rules", "allow any\n", 0666);
	ck_assert_int_eq(load_site("current", false), -EPERM);
	link_to("current", "current");
	ck_assert_int_eq(load_site("current", false), -ELOOP);
	/* A version that was removed. */
	link_to("gone", "current");
	ck_assert_int_eq(load_site("current", false), -ENOENT);
}
END_TEST

UNIT_MAIN("policy_files", set_up, tear_down, sizes_have_limits, rules_have_a_limit,
	  a_directory_is_read_in_order, files_that_are_not_read_are_told,
	  an_empty_directory_is_a_policy, what_others_can_write_is_refused,
	  what_others_own_is_refused, what_is_no_file_is_refused, symbolic_links_are_followed,
	  errors_of_all_files_are_collected, files_are_read_as_named, files_of_a_site_are_merged,
	  a_site_makes_no_admins, a_site_that_cannot_be_read)

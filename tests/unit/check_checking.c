/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/program.h"

/* The check of rules and configuration, by rdmabrokerctl check and rdmabrokerd --check. */

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

START_TEST(files_are_checked)
{
	char daemon[4096];

	snprintf(daemon, sizeof(daemon), "%s/rdmabrokerd", build_dir());
	setenv("RDMABROKERD", daemon, 1);
	write_file(harness.rules_path, "allow any user 0\nreject any\n");
	ck_assert_int_eq(ctl("check", harness.rules_path), 0);
	ck_assert_str_eq(got.out, "");
	ck_assert_str_eq(got.err, "");
	ck_assert_int_eq(ctl("check", "--json", harness.rules_path), 0);
	assert_json("d == {\"ok\": True, \"complaints\": [], \"more\": 0, \"warnings\": [], "
		    "\"more_warnings\": 0, \"rules\": 2, \"tests\": 0}");
	write_file(harness.rules_path, "allow any\nreject any\n");
	ck_assert_int_eq(ctl("check", harness.rules_path), 0);
	ck_assert_str_eq(got.out, "");
	assert_has(got.err,
		   "test.rules:2:1: warning: this rule never decides, because \"allow any\"");
	ck_assert_int_eq(ctl("check", "--json", harness.rules_path), 0);
	assert_json("d[\"ok\"] and d[\"complaints\"] == [] and len(d[\"warnings\"]) == 1 and "
		    "d[\"warnings\"][0][\"line\"] == 2 and d[\"warnings\"][0][\"column\"] == 1 and "
		    "d[\"warnings\"][0][\"text\"].startswith(\"this rule never decides\")");

	write_file(harness.rules_path, "allow any\n\nreject\teny\n");
	ck_assert_int_eq(ctl("check", harness.rules_path), 1);
	ck_assert_str_eq(got.out, "");
	assert_has(got.err, "test.rules:3:8: unknown operation 'eny', did you mean 'any'?\n"
			    "    reject\teny\n          \t^\n");
	ck_assert_int_eq(ctl("check", harness.rules_path, "--json"), 1);
	assert_json(
		"not d[\"ok\"] and d[\"rules\"] == 0 and len(d[\"complaints\"]) == 1 and "
		"d[\"complaints\"][0][\"file\"].endswith(\"/test.rules\") and "
		"d[\"complaints\"][0][\"line\"] == 3 and d[\"complaints\"][0][\"column\"] == 8 and "
		"d[\"complaints\"][0][\"text\"].startswith(\"unknown operation\")");
	ck_assert_int_eq(ctl("check", "--json", "/nonexistent.rules", "/nonexistent.conf"), 1);
	assert_json("len(d[\"complaints\"]) == 2 and d[\"complaints\"][0][\"line\"] is None");
	/* After "--", an argument that looks like an option is the name of a file. */
	ck_assert_int_eq(ctl("check", "--", "--version"), 1);
	assert_has(got.err, "--version: ");

	setenv("RDMABROKERD", "/nonexistent/rdmabrokerd", 1);
	ck_assert_int_eq(ctl("check"), 1);
	assert_has(got.err, "cannot run /nonexistent/rdmabrokerd: No such file or directory");
}
END_TEST

START_TEST(check_keeps_twenty)
{
	char daemon[4096], text[1024] = "";

	snprintf(daemon, sizeof(daemon), "%s/rdmabrokerd", build_dir());
	setenv("RDMABROKERD", daemon, 1);
	for (int i = 0; i < 23; i++)
		strcat(text, "reject eny\n");
	write_file(harness.rules_path, text);
	ck_assert_int_eq(ctl("check", "--json", harness.rules_path), 1);
	assert_json("len(d[\"complaints\"]) == 20 and d[\"more\"] == 3");
	ck_assert_int_eq(run((const char *const[]){ daemon, "--json", NULL }), 2);
	assert_has(got.err, "--json requires --check");
}
END_TEST

UNIT_MAIN("checking", set_up_ctl, tear_down, files_are_checked, check_keeps_twenty)

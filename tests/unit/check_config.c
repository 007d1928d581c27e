/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "config.h"
#include "tests/unit/tree.h"
#include "tests/unit/unit.h"
#include "util/diag.h"

static char dir[] = "/tmp/check_config.XXXXXX";
static char path[64];
static struct diag *diag;
static struct config config;

static void set_up(void)
{
	strcpy(dir, "/tmp/check_config.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/c", dir);
	ck_assert_int_eq(diag_new(&diag), 0);
	config_init(&config);
}

static void tear_down(void)
{
	config_done(&config);
	diag = diag_free(diag);
	remove_tree(dir);
}

static void write_bytes(const char *name, const char *text, size_t len)
{
	char full[256];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", dir, name);
	f = fopen(full, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, len, f), len);
	fclose(f);
	ck_assert_int_eq(chmod(full, 0644), 0);
}

static void write_file(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

static void make_dropin_dir(mode_t mode)
{
	char full[256];

	snprintf(full, sizeof(full), "%s.d", path);
	ck_assert_int_eq(mkdir(full, 0755), 0);
	ck_assert_int_eq(chmod(full, mode), 0);
}

static void assert_loads(void)
{
	int r = config_load(&config, path, true, diag);

	ck_assert_msg(r == 0, "%d: %s", r, complaints_at(&diag->errors, 0));
}

/* Checks that complaint I is the test's directory, a slash and EXPECTED. */
static void assert_complaint(size_t i, const char *expected)
{
	const char *found = complaints_at(&diag->errors, i);

	ck_assert_ptr_nonnull(found);
	ck_assert_msg(!strncmp(found, dir, strlen(dir)), "%s", found);
	ck_assert_str_eq(found + strlen(dir) + 1, expected);
}

static void assert_refused(const char *text, const char *expected)
{
	write_file("c", text);
	ck_assert_int_eq(config_load(&config, path, true, diag), -EBADMSG);
	assert_complaint(0, expected);
	ck_assert_uint_eq(diag->errors.n, 1);
	/* A refused file does not change CONFIG. */
	ck_assert_str_eq(config.socket_path, "");
	diag_free(diag);
	ck_assert_int_eq(diag_new(&diag), 0);
}

static void assert_defaults(void)
{
	const struct passwd *helper = getpwnam("rdmabroker-peerd");

	ck_assert_str_eq(config.socket_path, "/run/rdmabroker/rdmabroker.sock");
	ck_assert_str_eq(config.policy_dir, "/etc/rdmabroker/policy.d");
	ck_assert_str_eq(config.site_policy_dir, "/var/lib/rdmabroker/site/current");
	ck_assert(!config.site_admin_rules);
	ck_assert_str_eq(config.restricted_dir, "/run/rdmabroker-restricted");
	ck_assert_int_eq(config.log_level, LOG_INFO);
	ck_assert_int_eq(config.device_access, CONFIG_DEVICE_ACCESS_ACL);
	ck_assert_str_eq(config.subuid_path, "/etc/subuid");
	ck_assert_uint_eq(config.max_sessions, 4096);
	ck_assert_uint_eq(config.max_sessions_per_user, 1024);
	ck_assert_uint_eq(config.max_ids_per_session, 16384);
	ck_assert_uint_eq(config.max_ids_per_user, 65536);
	ck_assert_uint_eq(config.max_queued_bytes, 1048576);
	ck_assert_uint_eq(config.helper_uid, helper ? helper->pw_uid : (uid_t)-1);
	ck_assert_uint_eq(config.backlog, 1024);
	ck_assert_int_eq(config.tos, -1);
	ck_assert_uint_eq(config.resolve_timeout_ms, 10000);
	ck_assert_uint_eq(config.resume_timeout_s, 30);
}

START_TEST(missing_files_mean_defaults)
{
	assert_loads();
	assert_defaults();
}
END_TEST

START_TEST(a_named_file_has_to_be_there)
{
	ck_assert_int_eq(config_load(&config, path, false, diag), -ENOENT);
	assert_complaint(0, "c: cannot open: No such file or directory");
	write_file("c", "");
	ck_assert_int_eq(config_load(&config, path, false, diag), 0);
	assert_defaults();
}
END_TEST

START_TEST(every_key_is_read)
{
	write_file("c", "[Daemon]\nSocket=/s\nPolicyDir=/p q\nLogLevel=debug\n"
			"[Devices]\nAccess=open\n"
			"[Limits]\nSessions=1\nSessionsPerUser=2\nIdsPerSession=3\nIdsPerUser=4\n"
			"QueuedBytesPerSession=65536\nResumeTimeoutSec=0\n"
			"[Peers]\nHelper=root\n"
			"[Defaults]\nBacklog=6\nTOS=104\nResolveTimeoutMSec=600000");
	assert_loads();
	ck_assert_str_eq(config.socket_path, "/s");
	ck_assert_str_eq(config.policy_dir, "/p q");
	ck_assert_int_eq(config.log_level, LOG_DEBUG);
	ck_assert_int_eq(config.device_access, CONFIG_DEVICE_ACCESS_OPEN);
	ck_assert_uint_eq(config.max_sessions, 1);
	ck_assert_uint_eq(config.max_sessions_per_user, 2);
	ck_assert_uint_eq(config.max_ids_per_session, 3);
	ck_assert_uint_eq(config.max_ids_per_user, 4);
	ck_assert_uint_eq(config.max_queued_bytes, 65536);
	ck_assert_uint_eq(config.helper_uid, 0);
	ck_assert_uint_eq(config.backlog, 6);
	ck_assert_int_eq(config.tos, 104);
	ck_assert_uint_eq(config.resolve_timeout_ms, 600000);
	ck_assert_uint_eq(config.resume_timeout_s, 0);
}
END_TEST

/* The package that brings the helper's user can be installed later. */
START_TEST(a_helper_that_does_not_exist)
{
	write_file("c", "[Peers]\nHelper=nobody-at-all\n");
	assert_loads();
	ck_assert_uint_eq(config.helper_uid, (uid_t)-1);
	ck_assert_uint_eq(diag->errors.n, 0);
}
END_TEST

START_TEST(blanks_and_comments_do_not_matter)
{
	write_file("c",
		   "# comment\n; comment\n\n  [Defaults]\t\n\t Backlog = 7  \n   TOS\t=\t8 ; nine\n"
		   "  # comment\n");
	assert_loads();
	ck_assert_uint_eq(config.backlog, 7);
	ck_assert_int_eq(config.tos, 8);
}
END_TEST

START_TEST(later_values_win)
{
	make_dropin_dir(0755);
	write_file("c", "[Limits]\nSessions=1\nSessions=2\nIdsPerUser=1\nIdsPerSession=1\n");
	write_file("c.d/20-b.conf", "[Limits]\nSessions=4\n[Daemon]\nSocket=/b\n");
	write_file("c.d/10-a.conf", "[Limits]\nSessions=3\nIdsPerUser=3\n[Daemon]\nSocket=/a\n");
	write_file("c.d/30-c.conf~", "[Limits]\nSessions=5\n");
	write_file("c.d/.40-d.conf", "[Limits]\nSessions=6\n");
	assert_loads();
	ck_assert_uint_eq(config.max_sessions, 4);
	ck_assert_uint_eq(config.max_ids_per_user, 3);
	ck_assert_uint_eq(config.max_ids_per_session, 1);
	ck_assert_str_eq(config.socket_path, "/b");
}
END_TEST

START_TEST(dropins_apply_without_the_file)
{
	make_dropin_dir(0755);
	write_file("c.d/a.conf", "[Limits]\nSessions=3\n");
	assert_loads();
	ck_assert_uint_eq(config.max_sessions, 3);
}
END_TEST

START_TEST(bad_lines_are_named)
{
	assert_refused("Sessions=1\n", "c:1:1: a [Section] must come before the first key");
	assert_refused("[Limit]\nSessions=1\n",
		       "c:1:2: unknown section [Limit], did you mean 'Limits'?");
	assert_refused("[Nonsense]\n", "c:1:2: unknown section [Nonsense]");
	assert_refused("[]\n", "c:1:2: unknown section []");
	assert_refused("[Limits\n", "c:1:8: expected ']'");
	assert_refused("[Limits] x\n", "c:1:10: nothing may follow a section's name");
	assert_refused(
		"[Limits]\n  sessions=1\n",
		"c:2:3: unknown key 'sessions' in section [Limits], did you mean 'Sessions'?");
	assert_refused("[Limits]\nNonsense=1\n",
		       "c:2:1: unknown key 'Nonsense' in section [Limits]");
	assert_refused("[Limits]\n=1\n", "c:2:1: unknown key '' in section [Limits]");
	assert_refused("[Limits]\nBacklog=1\n",
		       "c:2:1: key 'Backlog' belongs to section [Defaults]");
	assert_refused("[Limits]\nSessions\n", "c:2:1: expected Key=Value");
	assert_refused("[Limits]\nSessions", "c:2:1: expected Key=Value");
	assert_refused("[Limits]\nSessions ; =1\n", "c:2:1: expected Key=Value");
}
END_TEST

START_TEST(bad_values_are_named)
{
	static const char *const numbers[] = { "0",   "1048577", "-1",
					       "+1",  "1k",      "0x1",
					       "1 2", "1.0",     "18446744073709551617" };
	char text[128];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(text, sizeof(text), "[Limits]\nSessions = %s\n", numbers[i]);
		assert_refused(text, "c:2:12: Sessions= takes a number from 1 to 1048576");
	}
	assert_refused("[Limits]\nSessions=\n",
		       "c:2:10: Sessions= takes a number from 1 to 1048576");
	assert_refused("[Limits]\nQueuedBytesPerSession=65535\n",
		       "c:2:23: QueuedBytesPerSession= takes a number from 65536 to 1073741824");
	assert_refused("[Defaults]\nTOS=256\n", "c:2:5: TOS= takes a number from 0 to 255 or none");
	assert_refused("[Defaults]\nTOS=None\n",
		       "c:2:5: TOS= takes a number from 0 to 255 or none");
	assert_refused("[Defaults]\nResolveTimeoutMSec=600001\n",
		       "c:2:20: ResolveTimeoutMSec= takes a number from 1 to 600000");
	assert_refused("[Daemon]\nSocket=run/s\n",
		       "c:2:8: Socket= takes an absolute path of at most 107 bytes");
	assert_refused(
		"[Daemon]\nSocket=/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
		"c:2:8: Socket= takes an absolute path of at most 107 bytes");
	assert_refused("[Daemon]\nRestrictedDirectory=/"
		       "1234567890123456789012345678901234567890123456789012345678\n",
		       "c:2:21: RestrictedDirectory= takes an absolute path of at most 58 bytes");
	assert_refused("[Daemon]\nSiteAdminRules=true\n",
		       "c:2:16: SiteAdminRules= takes yes or no");
	assert_refused("[Daemon]\nPolicyDir=\n", "c:2:11: PolicyDir= takes an absolute path");
	assert_refused("[Daemon]\nLogLevel=loud\n",
		       "c:2:10: LogLevel= takes error, warning, notice, info or debug");
	assert_refused("[Devices]\nAccess=fd\n", "c:2:8: Access= takes acl or open");
	assert_refused("[Peers]\nHelper=\n", "c:2:8: Helper= takes the name of a user");
}
END_TEST

START_TEST(bad_bytes_are_named)
{
	write_bytes("c", "[Limits]\nSess\0ions=1\n", 21);
	ck_assert_int_eq(config_load(&config, path, true, diag), -EBADMSG);
	assert_complaint(0, "c:2:5: NUL byte");
	diag_free(diag);
	ck_assert_int_eq(diag_new(&diag), 0);

	assert_refused("\xef\xbb\xbf[Limits]\n",
		       "c:1:1: byte order mark (save the file as UTF-8 without one)");
	assert_refused("[Limits]\r\n",
		       "c:1:9: carriage return (lines must end with a newline alone)");
	assert_refused("# \xff\n", "c:1:3: this is not printable UTF-8");
}
END_TEST

/* Loads one line of N bytes. */
static int load_line(const char *begin, unsigned n)
{
	char text[8192] = "[Daemon]\n";
	char *line = text + strlen(text);

	memset(line, 'x', n);
	memcpy(line, begin, strlen(begin));
	strcpy(line + n, "\n");
	write_file("c", text);
	return config_load(&config, path, true, diag);
}

static void assert_line_limit(const char *begin, unsigned max)
{
	ck_assert_int_eq(load_line(begin, max), 0);
	ck_assert_uint_eq(diag->errors.n, 0);
	config_done(&config);
	ck_assert_int_eq(load_line(begin, max + 1), -EBADMSG);
	diag_free(diag);
	ck_assert_int_eq(diag_new(&diag), 0);
}

/* The limit is that of rdmabrokerd.conf(5), for all lines. */
START_TEST(long_lines)
{
	const char *tree = getenv("SRCDIR");
	unsigned max = 0;
	char page[4096], line[512];
	FILE *f;

	snprintf(page, sizeof(page), "%s/daemon/rdmabrokerd.conf.5", tree ? tree : ".");
	f = fopen(page, "re");
	ck_assert_msg(f != NULL, "%s: %s", page, strerror(errno));
	while (fgets(line, sizeof(line), f))
		sscanf(line, "A file has at most %*u bytes, and a line %u.", &max);
	fclose(f);
	assert_line_limit("PolicyDir=/", max);
	assert_line_limit("#", max);
}
END_TEST

START_TEST(all_errors_are_collected)
{
	make_dropin_dir(0755);
	write_file("c", "[Limits]\nSessions=0\nnonsense\n[Bad]\nkey=1\n[Limits]\nIdsPerUser=x\n");
	write_file("c.d/a.conf", "[Limits]\nSessions=0\n");
	ck_assert_int_eq(config_load(&config, path, true, diag), -EBADMSG);
	assert_complaint(0, "c:2:10: Sessions= takes a number from 1 to 1048576");
	assert_complaint(1, "c:3:1: expected Key=Value");
	assert_complaint(2, "c:4:2: unknown section [Bad]");
	assert_complaint(3, "c:7:12: IdsPerUser= takes a number from 1 to 16777216");
	assert_complaint(4, "c.d/a.conf:2:10: Sessions= takes a number from 1 to 1048576");
	ck_assert_uint_eq(diag->errors.n, 5);
}
END_TEST

START_TEST(what_others_can_write_is_refused)
{
	write_file("c", "");
	ck_assert_int_eq(chmod(path, 0664), 0);
	ck_assert_int_eq(config_load(&config, path, true, diag), -EPERM);
	assert_complaint(0, "c: refused: group or others can write it");

	ck_assert_int_eq(chmod(path, 0600), 0);
	make_dropin_dir(0777);
	ck_assert_int_eq(config_load(&config, path, true, diag), -EPERM);
	assert_complaint(1, "c.d: refused: group or others can write it");
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(config_load(&config, path, true, diag), -EINVAL);
	assert_complaint(0, "c: refused: not a regular file");
}
END_TEST

static void assert_warning(size_t i, const char *expected)
{
	const char *warning = complaints_at(&diag->warnings, i);

	ck_assert_msg(warning && strstr(warning, expected), "%s", warning);
}

START_TEST(dropins_that_are_not_read_are_told)
{
	make_dropin_dir(0755);
	write_file("c.d/10-a.cnf", "nonsense\n");
	write_file("c.d/10-b.conf~", "nonsense\n");
	write_file("c.d/10-c.conf", "[Limits]\nSessions=7\n");
	assert_loads();
	ck_assert_uint_eq(config.max_sessions, 7);
	ck_assert_uint_eq(diag->warnings.n, 1);
	assert_warning(0, "c.d/10-a.cnf: this file is not read, because its name does not end in "
			  "'.conf'; did you mean '10-a.conf'?");
}
END_TEST

/* Returns the file's text, with the '#' removed before every line that sets a key. */
static char *uncomment(const char *name)
{
	static char text[65536];
	const char *top = getenv("SRCDIR");
	size_t len = 0;
	char line[512];
	FILE *f;

	snprintf(line, sizeof(line), "%s/%s", top ? top : ".", name);
	f = fopen(line, "r");
	ck_assert_msg(f, "%s", line);
	while (fgets(line, sizeof(line), f)) {
		bool is_key = line[0] == '#' && line[1] != ' ' && line[1] != '\n';

		len += snprintf(text + len, sizeof(text) - len, "%s", line + is_key);
	}
	fclose(f);
	return text;
}

START_TEST(the_shipped_file_shows_the_defaults)
{
	char *text = uncomment("conf/rdmabrokerd.conf");
	int n = 0;

	write_file("c", text);
	assert_loads();
	assert_defaults();
	for (char *c = text; (c = strstr(c, "\n")); c++)
		n += c[1] >= 'A' && c[1] <= 'Z';
	ck_assert_int_eq(n, 23);
}
END_TEST

UNIT_MAIN("config", set_up, tear_down, missing_files_mean_defaults, a_named_file_has_to_be_there,
	  every_key_is_read, a_helper_that_does_not_exist, blanks_and_comments_do_not_matter,
	  later_values_win, dropins_apply_without_the_file, bad_lines_are_named,
	  bad_values_are_named, bad_bytes_are_named, long_lines, all_errors_are_collected,
	  what_others_can_write_is_refused, what_is_no_file_is_refused,
	  dropins_that_are_not_read_are_told, the_shipped_file_shows_the_defaults)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/policy.h"
#include "tests/unit/unit.h"
#include "util/diag.h"

static char dir[64];
static struct diag *diag;
static struct policy *policy;

static void set_up(void)
{
	strcpy(dir, "/tmp/check_policy.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(diag_new(&diag), 0);
}

static int remove_one(const char *name, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(name);
}

static void tear_down(void)
{
	policy = policy_unref(policy);
	diag = diag_free(diag);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void forget(void)
{
	policy = policy_unref(policy);
	diag_free(diag);
	ck_assert_int_eq(diag_new(&diag), 0);
}

static int load_bytes(const char *text, size_t len)
{
	forget();
	return policy_load_text(&policy, "t", text, len, diag);
}

static void load(const char *text)
{
	int r = load_bytes(text, strlen(text));

	ck_assert_msg(r == 0, "%d: %s", r, diag_first(diag));
	ck_assert_uint_eq(diag_count(diag), 0);
}

/* One complaint, and it is this one. */
static void assert_refused(const char *text, const char *expected)
{
	ck_assert_int_eq(load_bytes(text, strlen(text)), -EBADMSG);
	ck_assert_ptr_null(policy);
	ck_assert_msg(diag_first(diag) && !strcmp(diag_first(diag), expected),
		      "'%s'\n     was: %s\nexpected: %s", text, diag_first(diag), expected);
	ck_assert_msg(diag_count(diag) == 1, "'%s': also %s", text, diag_at(diag, 1));
}

static const struct policy_rule *rule(const char *text)
{
	load(text);
	ck_assert_uint_eq(policy_n_rules(policy), 1);
	return policy_rule_at(policy, 0);
}

START_TEST(rules_are_kept_in_order)
{
	const struct policy_rule *r;

	load("# comment\n\n  allow session user root # more\n"
	     "reject any reason \"say \\\"why\\\" \\\\ twice\" log\n"
	     "\tallow\tlisten\tport 80");
	ck_assert_uint_eq(policy_n_rules(policy), 3);
	ck_assert_ptr_null(policy_rule_at(policy, 3));

	r = policy_rule_at(policy, 0);
	ck_assert_str_eq(r->file, "t");
	ck_assert_uint_eq(r->line, 3);
	ck_assert_int_eq(r->operation, POLICY_SESSION);
	ck_assert(r->allow && !r->log && !r->names_port);
	ck_assert_ptr_null(r->reason);
	ck_assert_int_eq(r->settings.tos, -1);
	ck_assert_int_eq(r->settings.tos_max, -1);
	ck_assert_int_eq(r->settings.backlog, -1);
	ck_assert_int_eq(r->settings.reuseaddr, POLICY_REUSEADDR_NO);

	r = policy_rule_at(policy, 1);
	ck_assert_uint_eq(r->line, 4);
	ck_assert_int_eq(r->operation, _POLICY_OPERATION_MAX);
	ck_assert(!r->allow && r->log);
	ck_assert_str_eq(r->reason, "say \"why\" \\ twice");

	r = policy_rule_at(policy, 2);
	ck_assert_uint_eq(r->line, 5);
	ck_assert_int_eq(r->operation, POLICY_LISTEN);
	ck_assert(r->names_port);
}
END_TEST

START_TEST(settings_are_read)
{
	const struct policy_rule *r;

	ck_assert_int_eq(rule("allow listen backlog 512")->settings.backlog, 512);
	ck_assert_int_eq(rule("allow connect tos 255")->settings.tos, 255);
	ck_assert_int_eq(rule("allow connect tos 0")->settings.tos, 0);
	ck_assert_int_eq(rule("allow accept dscp cs0")->settings.tos, 0);
	ck_assert_int_eq(rule("allow accept dscp cs7")->settings.tos, 224);
	ck_assert_int_eq(rule("allow accept dscp af11")->settings.tos, 40);
	ck_assert_int_eq(rule("allow accept dscp af31")->settings.tos, 104);
	ck_assert_int_eq(rule("allow accept dscp af43")->settings.tos, 152);
	ck_assert_int_eq(rule("allow accept dscp ef")->settings.tos, 184);
	ck_assert_int_eq(rule("allow connect reuseaddr yes")->settings.reuseaddr,
			 POLICY_REUSEADDR_YES);
	ck_assert_int_eq(rule("allow connect reuseaddr client")->settings.reuseaddr,
			 POLICY_REUSEADDR_CLIENT);
	ck_assert_int_eq(rule("allow connect reuseaddr no")->settings.reuseaddr,
			 POLICY_REUSEADDR_NO);
	r = rule("allow any tos-max 32 tos 32 backlog 65535 reuseaddr client log");
	ck_assert_int_eq(r->settings.tos_max, 32);
	ck_assert_int_eq(r->settings.tos, 32);
	ck_assert_int_eq(r->settings.backlog, 65535);
	ck_assert(r->log);
}
END_TEST

START_TEST(names_of_operations)
{
	ck_assert_str_eq(policy_operation_to_string(POLICY_SESSION), "session");
	ck_assert_str_eq(policy_operation_to_string(POLICY_DEVICE), "device");
	ck_assert_str_eq(policy_operation_to_string(POLICY_LISTEN), "listen");
	ck_assert_str_eq(policy_operation_to_string(POLICY_CONNECT), "connect");
	ck_assert_str_eq(policy_operation_to_string(POLICY_ACCEPT), "accept");
	ck_assert_str_eq(policy_operation_to_string(_POLICY_OPERATION_MAX), "any");
}
END_TEST

START_TEST(unknown_words_are_refused)
{
	assert_refused("alow session", "t:1:1: unknown action 'alow', did you mean 'allow'?");
	assert_refused("deny session", "t:1:1: unknown action 'deny'");
	assert_refused("= x", "t:1:1: a line begins with allow, reject or set");
	assert_refused("allow sesion user root",
		       "t:1:7: unknown operation 'sesion', did you mean 'session'?");
	assert_refused("allow user root", "t:1:7: unknown operation 'user'");
	assert_refused("allow", "t:1:6: an operation is missing here");
	assert_refused("allow \"any\"", "t:1:7: an operation is missing here");
	assert_refused("allow any usr root", "t:1:11: unknown word 'usr', did you mean 'user'?");
	assert_refused("allow any User root", "t:1:11: unknown word 'User', did you mean 'user'?");
	assert_refused("allow any nonsense", "t:1:11: unknown word 'nonsense'");
	assert_refused("allow any = 1", "t:1:11: a match or a setting should stand here");
	assert_refused("allow session ,", "t:1:15: a match or a setting should stand here");
	assert_refused("allow session user root root", "t:1:25: unknown word 'root'");
}
END_TEST

START_TEST(words_out_of_place_are_refused)
{
	assert_refused("allow session reason \"x\"", "t:1:15: 'reason' is for reject rules only");
	assert_refused("reject listen backlog 1", "t:1:15: 'backlog' is for allow rules only");
	assert_refused("allow session peer 10.0.0.1",
		       "t:1:15: 'peer' makes no sense with 'session'");
	assert_refused("allow device port 80", "t:1:14: 'port' makes no sense with 'device'");
	assert_refused("allow listen peer 10.0.0.1", "t:1:14: 'peer' makes no sense with 'listen'");
	assert_refused("allow session device rxe0",
		       "t:1:15: 'device' makes no sense with 'session'");
	assert_refused("allow device ps tcp", "t:1:14: 'ps' makes no sense with 'device'");
	assert_refused("allow connect backlog 5",
		       "t:1:15: 'backlog' makes no sense with 'connect'");
	assert_refused("allow listen reuseaddr yes",
		       "t:1:14: 'reuseaddr' makes no sense with 'listen'");
	assert_refused("allow listen tos 5", "t:1:14: 'tos' makes no sense with 'listen'");
	assert_refused("allow any peer 10.0.0.1 backlog 5",
		       "t:1:25: 'backlog' makes no sense with 'any' and the matches before it");
	assert_refused("allow listen backlog 5 user root",
		       "t:1:24: match 'user' must stand before the settings");
	assert_refused("allow session log user root",
		       "t:1:19: match 'user' must stand before the settings");
}
END_TEST

START_TEST(repetitions_and_contradictions_are_refused)
{
	assert_refused("allow session user 1 user 2", "t:1:22: 'user' stands twice in this rule");
	assert_refused("allow session log log", "t:1:19: 'log' stands twice in this rule");
	assert_refused("allow connect tos 1 tos 2", "t:1:21: 'tos' stands twice in this rule");
	assert_refused("allow connect tos 1 dscp ef",
		       "t:1:21: the traffic class is already set in this rule");
	assert_refused("allow connect dscp ef tos 1",
		       "t:1:23: the traffic class is already set in this rule");
	assert_refused("allow connect tos 33 tos-max 32",
		       "t:1:30: tos-max 32 is below the forced traffic class 33");
	assert_refused("allow connect tos-max 32 dscp ef",
		       "t:1:31: tos-max 32 is below the forced traffic class 184");
}
END_TEST

START_TEST(bad_numbers_are_refused)
{
	assert_refused("allow connect tos 256", "t:1:19: 'tos' takes a number from 0 to 255");
	assert_refused("allow connect tos -1", "t:1:19: 'tos' takes a number from 0 to 255");
	assert_refused("allow connect tos 0x10", "t:1:19: 'tos' takes a number from 0 to 255");
	assert_refused("allow connect tos 010", "t:1:19: 'tos' takes a number from 0 to 255");
	assert_refused("allow connect tos", "t:1:18: 'tos' takes a number from 0 to 255");
	assert_refused("allow connect tos \"1\"", "t:1:19: 'tos' takes a number from 0 to 255");
	assert_refused("allow connect tos 4294967297",
		       "t:1:19: 'tos' takes a number from 0 to 255");
	assert_refused("allow connect tos-max 99999999999999999999",
		       "t:1:23: 'tos-max' takes a number from 0 to 255");
	assert_refused("allow listen backlog 0",
		       "t:1:22: 'backlog' takes a number from 1 to 65535");
	assert_refused("allow listen backlog 65536",
		       "t:1:22: 'backlog' takes a number from 1 to 65535");
	assert_refused("allow connect dscp af44",
		       "t:1:20: 'dscp' takes cs0 to cs7, af11 to af43 or ef");
	assert_refused("allow connect dscp cs8",
		       "t:1:20: 'dscp' takes cs0 to cs7, af11 to af43 or ef");
	assert_refused("allow connect dscp", "t:1:19: 'dscp' takes cs0 to cs7, af11 to af43 or ef");
	assert_refused("allow connect reuseaddr maybe",
		       "t:1:25: 'reuseaddr' takes yes, no or client");
	assert_refused("allow connect ps sctp", "t:1:18: 'ps' takes tcp, udp, ib or ipoib");
}
END_TEST

START_TEST(bad_ports_are_refused)
{
	const char *what = "t:1:19: a port N or a range N-M from 1 to 65535 should stand here";

	assert_refused("allow listen port 0", what);
	assert_refused("allow listen port 65536", what);
	assert_refused("allow listen port 0-5", what);
	assert_refused("allow listen port 5-65536", what);
	assert_refused("allow listen port 5-", what);
	assert_refused("allow listen port -5", what);
	assert_refused("allow listen port 1-2-3", what);
	assert_refused("allow listen port http", what);
	assert_refused("allow listen port ,", what);
	assert_refused("allow listen port \"5\"", what);
	assert_refused("allow listen port",
		       "t:1:18: a port N or a range N-M from 1 to 65535 should stand here");
	assert_refused("allow listen port 5,",
		       "t:1:21: a port N or a range N-M from 1 to 65535 should stand here");
	assert_refused("allow listen port 20-10",
		       "t:1:19: the range is reversed, did you mean 10-20?");
	assert_refused("allow listen port 10-20,5,20-21", "t:1:27: this overlaps 10-20 before it");
	assert_refused("allow listen port 5,5", "t:1:21: this overlaps 5-5 before it");
	ck_assert(rule("allow listen port 1, 5-10 ,65535")->names_port);
	ck_assert(!rule("allow listen")->names_port);
}
END_TEST

START_TEST(bad_users_are_refused)
{
	assert_refused("allow session user no-such-user", "t:1:20: unknown user 'no-such-user'");
	assert_refused("allow session group root,no-such-group log",
		       "t:1:26: unknown group 'no-such-group'");
	assert_refused("allow session user root,0", "t:1:25: this user is named twice");
	assert_refused("allow session user 4294967295",
		       "t:1:20: an id is a number from 0 to 4294967294");
	assert_refused("allow session user 007", "t:1:20: an id is a number from 0 to 4294967294");
	assert_refused("allow session user \"0\"", "t:1:20: unknown user '0'");
	assert_refused("allow session user", "t:1:19: user is missing here");
	assert_refused("allow session user root,", "t:1:25: user is missing here");
	assert_refused("allow session group {", "t:1:21: group is missing here");
	assert_refused("allow session user \"\"", "t:1:20: user has 1 to 255 bytes");
	load("allow session user root,4294967294 group \"root\",5");
}
END_TEST

START_TEST(bad_addresses_are_refused)
{
	assert_refused("allow connect peer 10.1.2.3/16",
		       "t:1:20: bits behind the prefix are set, did you mean 10.1.0.0/16?");
	assert_refused("allow connect peer fd00::1/64",
		       "t:1:20: bits behind the prefix are set, did you mean fd00::/64?");
	assert_refused("allow connect peer 10.0.0.0/33", "t:1:20: bad prefix length");
	assert_refused("allow connect peer localhost",
		       "t:1:20: this match takes an IP address, a prefix or @SET");
	assert_refused("allow connect peer",
		       "t:1:19: this match takes an IP address, a prefix or @SET");
	assert_refused("allow connect local 10.0.0.1,10.0.0.2",
		       "t:1:29: this match takes one value; name several in a set");
	assert_refused("allow connect peer @storage",
		       "t:1:20: no set of this name is defined above");
	assert_refused("allow connect peer @", "t:1:20: no set of this name is defined above");
}
END_TEST

START_TEST(bad_devices_are_refused)
{
	assert_refused("allow device device", "t:1:20: device pattern is missing here");
	assert_refused("allow device device \"\"", "t:1:21: device pattern has 1 to 255 bytes");
	assert_refused("allow device device mlx5_[0",
		       "t:1:21: a '[' of this pattern is not closed");
	assert_refused("allow device device [!", "t:1:21: a '[' of this pattern is not closed");
	assert_refused("allow device device []", "t:1:21: a '[' of this pattern is not closed");
	assert_refused("allow device device rxe0,rxe1",
		       "t:1:25: 'device' takes one pattern; a ',' in it needs quotes");
	load("allow device device mlx5_[!0-3]*");
	load("allow device device \"mlx5_[0,1]\"");
}
END_TEST

START_TEST(reasons_have_limits)
{
	char text[300], reason[200];

	memset(reason, 'a', sizeof(reason));
	snprintf(text, sizeof(text), "reject any reason \"%.136s\"", reason);
	ck_assert_uint_eq(strlen(rule(text)->reason), 136);
	snprintf(text, sizeof(text), "reject any reason \"%.134s\xc3\xa4\"", reason);
	ck_assert_uint_eq(strlen(rule(text)->reason), 136);
	/* what the escapes stand for counts */
	snprintf(text, sizeof(text), "reject any reason \"%.135s\\\"\"", reason);
	ck_assert_uint_eq(strlen(rule(text)->reason), 136);
	snprintf(text, sizeof(text), "reject any reason \"%.137s\"", reason);
	assert_refused(text, "t:1:19: a reason has 1 to 136 bytes, this one has 137");
	assert_refused("reject any reason \"\"",
		       "t:1:19: a reason has 1 to 136 bytes, this one has 0");
	assert_refused("reject any reason no", "t:1:19: 'reason' takes a text in double quotes");
	assert_refused("reject any reason", "t:1:18: 'reason' takes a text in double quotes");
}
END_TEST

START_TEST(bad_strings_and_comments_are_refused)
{
	assert_refused("reject any reason \"no", "t:1:19: the string does not end on its line");
	assert_refused("reject any reason \"no\\\n\"",
		       "t:1:19: the string does not end on its line");
	assert_refused("reject any reason \"a\\n\"",
		       "t:1:21: only \\\" and \\\\ can be escaped in a string");
	assert_refused("allow session user root# admin",
		       "t:1:24: a comment must have a blank before it");
	ck_assert_str_eq(rule("reject any reason \"#1\" # 2")->reason, "#1");
}
END_TEST

START_TEST(bad_joins_are_refused)
{
	assert_refused("allow session \\ \nuser root\n",
		       "t:1:15: '\\' must be the last character of its line");
	assert_refused("allow session\\\t\n",
		       "t:1:14: '\\' must be the last character of its line");
	assert_refused("allow session user root \\",
		       "t:1:25: the file ends where the line should go on");
	assert_refused("allow session user root \\\n",
		       "t:1:25: the file ends where the line should go on");
	/* A comment ends a joined line; what follows it is one of its own. */
	assert_refused("allow listen \\\n# comment\nport 4420", "t:3:1: unknown action 'port'");
}
END_TEST

START_TEST(joined_lines_name_the_physical_one)
{
	const char *text = "set s = { 10.0.0.0/8, \\\n"
			   "\t10.1.2.3/16 }\n"
			   "allow listen \\\n"
			   "  port 80 \\\n"
			   "  usr root\n";
	char *printed;
	size_t size;
	FILE *f;

	ck_assert_int_eq(load_bytes(text, strlen(text)), -EBADMSG);
	f = open_memstream(&printed, &size);
	diag_print(diag, f);
	fclose(f);
	ck_assert_str_eq(printed,
			 "t:2:2: bits behind the prefix are set, did you mean 10.1.0.0/16?\n"
			 "    \t10.1.2.3/16 }\n"
			 "    \t^\n"
			 "t:5:3: unknown word 'usr', did you mean 'user'?\n"
			 "      usr root\n"
			 "      ^\n");
	free(printed);

	load("\nallow listen \\\n\\\n  port 80 \\\n  backlog 2 # the end \\\nallow session\n");
	ck_assert_uint_eq(policy_n_rules(policy), 2);
	ck_assert_uint_eq(policy_rule_at(policy, 0)->line, 2);
	ck_assert_int_eq(policy_rule_at(policy, 0)->settings.backlog, 2);
	ck_assert_uint_eq(policy_rule_at(policy, 1)->line, 6);
}
END_TEST

START_TEST(bad_sets_are_refused)
{
	assert_refused("set", "t:1:4: a set's name is 1 to 64 letters, digits, '_' and '-', no "
			      "digit or '-' first");
	assert_refused("set 1a = { 10.0.0.1 }",
		       "t:1:5: a set's name is 1 to 64 letters, digits, '_' and '-', no digit or "
		       "'-' first");
	assert_refused("set a { 10.0.0.1 }", "t:1:7: '=' is missing here");
	assert_refused("set a = 10.0.0.1", "t:1:9: '{' is missing here");
	assert_refused("set a = { }", "t:1:11: the set is empty");
	assert_refused("set a = {}", "t:1:10: the set is empty");
	assert_refused("set a = {", "t:1:10: a set takes an IP address, a prefix or @SET");
	assert_refused("set a = { 10.0.0.1,",
		       "t:1:20: a set takes an IP address, a prefix or @SET");
	assert_refused("set a = { 10.0.0.1, }",
		       "t:1:21: a set takes an IP address, a prefix or @SET");
	assert_refused("set a = { 10.0.0.1",
		       "t:1:19: '}' is missing ('\\' at its end continues a line)");
	assert_refused("set a = { 10.0.0.1 10.0.0.2 }", "t:1:20: ',' or '}' should stand here");
	assert_refused("set a = { 10.0.0.1 } log", "t:1:22: nothing may follow the set");
	assert_refused("set a = { @a }", "t:1:11: no set of this name is defined above");
	assert_refused("set a = { @b }\nset b = { 10.0.0.1 }",
		       "t:1:11: no set of this name is defined above");
	assert_refused("set a = { 10.0.0.1 }\nset a = { 10.0.0.2 }",
		       "t:2:5: this set is already defined in t:1");
	/* A set that is complained about is not complained about again where it is used. */
	assert_refused("set a = { 10.0.0.1/8 }\nset b = { @a }\nallow connect peer @b",
		       "t:1:11: bits behind the prefix are set, did you mean 10.0.0.0/8?");
	load("set a={10.0.0.1,fd00::/8}\nset b-_2 = { @a , 10.0.0.0/8,\\\n@a }\n"
	     "allow connect peer @b-_2 local @a");
}
END_TEST

START_TEST(bad_bytes_are_refused)
{
	ck_assert_int_eq(load_bytes("allow session\0 user root\n", 25), -EBADMSG);
	ck_assert_str_eq(diag_first(diag), "t:1:14: NUL byte");
	assert_refused("# \x1b[2J", "t:1:3: control character");
	assert_refused("# \xe4", "t:1:3: neither UTF-8 nor printable");
	assert_refused("\xef\xbb\xbf# comment", "t:1:1: byte order mark");
	assert_refused("allow session\r\n",
		       "t:1:14: carriage return (lines must end with a newline alone)");
	load("# \xc3\xa4\n");
}
END_TEST

START_TEST(sizes_have_limits)
{
	size_t size = 1024 * 1024;
	char *text = malloc(size + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, ' ', size + 1);
	text[0] = '#';
	ck_assert_int_eq(load_bytes(text, 4096), 0);
	ck_assert_int_eq(load_bytes(text, 4097), -EBADMSG);
	ck_assert_str_eq(diag_first(diag), "t:1:4097: the line is longer than 4096 bytes");

	memset(text, '\n', size + 1);
	ck_assert_int_eq(load_bytes(text, size), 0);
	ck_assert_int_eq(load_bytes(text, size + 1), -EFBIG);
	ck_assert_str_eq(diag_first(diag), "t: larger than 1048576 bytes");

	free(text);
}
END_TEST

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

START_TEST(rules_have_a_limit)
{
	static const char *const names[] = { "1.rules", "2.rules", "3.rules" };
	FILE *f;
	char full[256];

	/* 1 MiB is not enough for them. */
	for (int i = 0; i < 2; i++) {
		snprintf(full, sizeof(full), "%s/%s", dir, names[i]);
		f = fopen(full, "w");
		ck_assert_ptr_nonnull(f);
		for (int k = 0; k < 50000; k++)
			fputs("allow any log\n", f);
		fclose(f);
	}
	ck_assert_int_eq(policy_load_dir(&policy, dir, diag), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 100000);
	forget();

	write_file(names[2], "set a = { 10.0.0.1 }\nallow any\nallow any\n", 0644);
	ck_assert_int_eq(policy_load_dir(&policy, dir, diag), -EBADMSG);
	ck_assert_str_eq(strrchr(diag_first(diag), '/'), "/3.rules:2:1: more than 100000 rules");
	ck_assert_uint_eq(diag_count(diag), 1);
}
END_TEST

START_TEST(lists_have_a_limit)
{
	static char text[20000];
	size_t len = sprintf(text, "allow session user 1");

	for (int i = 2; i <= 1024; i++)
		len += sprintf(text + len, ",%s%d", i % 500 ? "" : "\\\n", i);
	load(text);
	sprintf(text + len, ",9999");
	ck_assert_int_eq(load_bytes(text, strlen(text)), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(diag_first(diag), ": more than 1024 in one list"));
}
END_TEST

START_TEST(sets_have_a_limit)
{
	size_t len = 0;
	char *text = malloc(1024 * 1024);

	ck_assert_ptr_nonnull(text);
	len += sprintf(text, "set s = { \\\n");
	for (int i = 0; i < 45000; i++)
		len += sprintf(text + len, "10.%d.%d.1%s", i / 250, i % 250,
			       i < 44999 ? ",\\\n" : "}\n");
	for (int i = 0; i < 22; i++)
		len += sprintf(text + len, "set a%d = { @s }\n", i);
	ck_assert_int_eq(load_bytes(text, len), -EBADMSG);
	ck_assert_str_eq(diag_first(diag),
			 "t:45023:5: more than 1000000 prefixes in all sets together");
	ck_assert_uint_eq(diag_count(diag), 1);
	free(text);
}
END_TEST

START_TEST(sets_that_double_do_not_grow)
{
	char text[4096];
	size_t len = sprintf(text, "set a0 = { 10.0.0.1, 10.0.0.2 }\n");

	for (int i = 1; i < 64; i++)
		len += sprintf(text + len, "set a%d = { @a%d, @a%d }\n", i, i - 1, i - 1);
	ck_assert_int_eq(load_bytes(text, len), 0);
}
END_TEST

START_TEST(all_errors_are_collected)
{
	const char *text = "allow sesion\n"
			   "allow listen port 0\n"
			   "allow connect peer 10.0.0.1/8 port 9-8 tos 1 dscp ef\n"
			   "reject any reason \"x\n"
			   "allow session\n"
			   "allow session user no-such-user,no-such-user2\n";

	ck_assert_int_eq(load_bytes(text, strlen(text)), -EBADMSG);
	ck_assert_str_eq(diag_at(diag, 2), "t:3:20: bits behind the prefix are set, did you mean "
					   "10.0.0.0/8?");
	ck_assert_str_eq(diag_at(diag, 3), "t:3:36: the range is reversed, did you mean 8-9?");
	ck_assert_str_eq(diag_at(diag, 4), "t:3:46: the traffic class is already set in this rule");
	ck_assert_str_eq(diag_at(diag, 5), "t:4:19: the string does not end on its line");
	ck_assert_str_eq(diag_at(diag, 6), "t:6:20: unknown user 'no-such-user'");
	ck_assert_str_eq(diag_at(diag, 7), "t:6:33: unknown user 'no-such-user2'");
	ck_assert_uint_eq(diag_count(diag), 8);
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
	ck_assert_int_eq(policy_load_dir(&policy, dir, diag), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 3);
	ck_assert_int_eq(policy_rule_at(policy, 0)->operation, POLICY_SESSION);
	ck_assert_int_eq(policy_rule_at(policy, 1)->operation, POLICY_CONNECT);
	snprintf(expected, sizeof(expected), "%s/9.rules", dir);
	ck_assert_str_eq(policy_rule_at(policy, 2)->file, expected);
}
END_TEST

START_TEST(an_empty_directory_is_a_policy)
{
	ck_assert_int_eq(policy_load_dir(&policy, dir, diag), 0);
	ck_assert_uint_eq(policy_n_rules(policy), 0);
}
END_TEST

static void assert_dir_refused(int error, const char *expected)
{
	ck_assert_int_eq(policy_load_dir(&policy, dir, diag), error);
	ck_assert_ptr_null(policy);
	ck_assert_uint_eq(diag_count(diag), 1);
	ck_assert(!strncmp(diag_first(diag), dir, strlen(dir)));
	ck_assert_str_eq(diag_first(diag) + strlen(dir), expected);
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
	ck_assert_int_eq(policy_load_dir(&policy, dir, diag), 0);
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
	ck_assert_int_eq(policy_load_dir(&policy, dir, diag), 0);
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
	ck_assert_int_eq(policy_load_dir(&policy, dir, diag), -EBADMSG);
	ck_assert_uint_eq(diag_count(diag), 3);
	ck_assert_ptr_nonnull(strstr(diag_at(diag, 0), "/a.rules:1:1: "));
	ck_assert_ptr_nonnull(strstr(diag_at(diag, 1), "/b.rules: refused"));
	ck_assert_ptr_nonnull(strstr(diag_at(diag, 2), "/c.rules:1:6: "));
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

START_TEST(references_keep_a_policy)
{
	load("allow session");
	ck_assert_ptr_eq(policy_ref(policy), policy);
	ck_assert_ptr_null(policy_unref(policy));
	ck_assert_uint_eq(policy_n_rules(policy), 1);
	ck_assert_ptr_null(policy_unref(NULL));
}
END_TEST

UNIT_MAIN("policy", set_up, tear_down, rules_are_kept_in_order, settings_are_read,
	  names_of_operations, unknown_words_are_refused, words_out_of_place_are_refused,
	  repetitions_and_contradictions_are_refused, bad_numbers_are_refused,
	  bad_ports_are_refused, bad_users_are_refused, bad_addresses_are_refused,
	  bad_devices_are_refused, reasons_have_limits, bad_strings_and_comments_are_refused,
	  bad_joins_are_refused, joined_lines_name_the_physical_one, bad_sets_are_refused,
	  bad_bytes_are_refused, sizes_have_limits, rules_have_a_limit, lists_have_a_limit,
	  sets_have_a_limit, sets_that_double_do_not_grow, all_errors_are_collected,
	  a_directory_is_read_in_order, an_empty_directory_is_a_policy,
	  what_others_can_write_is_refused, what_others_own_is_refused, what_is_no_file_is_refused,
	  symbolic_links_are_followed, errors_of_all_files_are_collected, files_are_read_as_named,
	  references_keep_a_policy)

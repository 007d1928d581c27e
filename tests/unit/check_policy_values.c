/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/check_policy.h"

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
	ck_assert_int_eq(rule("allow connect qp reserved")->settings.qp, POLICY_QP_RESERVED);
	ck_assert_int_eq(rule("allow accept peer 10.0.0.1 qp own log")->settings.qp, POLICY_QP_OWN);
	ck_assert_int_eq(rule("allow any tos 1 qp reserved")->settings.qp, POLICY_QP_RESERVED);
	r = rule("allow any tos-max 32 tos 32 backlog 65535 reuseaddr client log");
	ck_assert_int_eq(r->settings.tos_max, 32);
	ck_assert_int_eq(r->settings.tos, 32);
	ck_assert_int_eq(r->settings.backlog, 65535);
	ck_assert(r->log);
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
	assert_refused("allow connect qp", "t:1:17: 'qp' takes own or reserved");
	assert_refused("allow connect qp 17", "t:1:18: 'qp' takes own or reserved");
	assert_refused("allow connect tos 1 qp any log", "t:1:24: 'qp' takes own or reserved");
	assert_refused("allow connect \\\n qp=reserved", "t:2:4: 'qp' takes its value without '='");
	assert_refused("allow connect ps sctp", "t:1:18: 'ps' takes tcp, udp, ib or ipoib");
}
END_TEST

START_TEST(bad_ports_are_refused)
{
	const char *what = "t:1:19: expected a port N or a range N-M, from 1 to 65535";

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
		       "t:1:18: expected a port N or a range N-M, from 1 to 65535");
	assert_refused("allow listen port 5,",
		       "t:1:21: expected a port N or a range N-M, from 1 to 65535");
	assert_refused("allow listen port 20-10",
		       "t:1:19: the range is reversed, did you mean 10-20?");
	assert_refused("allow listen port 10-20,5,20-21",
		       "t:1:27: this overlaps 10-20 in the same list");
	assert_refused("allow listen port 5,5", "t:1:21: this overlaps 5-5 in the same list");
	ck_assert(rule("allow listen port 1, 5-10 ,65535")->names_port);
	ck_assert(!rule("allow listen")->names_port);
}
END_TEST

START_TEST(bad_pkeys_are_refused)
{
	const char *what =
		"t:1:19: expected a P_Key N or a range N-M, from 1 to 0x7fff, or with the bit "
		"0x8000, which makes no difference";

	assert_refused("allow listen pkey 0", what);
	assert_refused("allow listen pkey 0x0", what);
	assert_refused("allow listen pkey 0x8000", what);
	assert_refused("allow listen pkey 65536", what);
	assert_refused("allow listen pkey 0x10001", what);
	assert_refused("allow listen pkey 0x", what);
	assert_refused("allow listen pkey 0x800g", what);
	assert_refused("allow listen pkey 8001h", what);
	assert_refused("allow listen pkey 5-", what);
	assert_refused("allow listen pkey 1-2-3", what);
	assert_refused("allow listen pkey default", what);
	assert_refused("allow listen pkey \"5\"", what);
	assert_refused("allow listen pkey 0x8014-10",
		       "t:1:19: the range is reversed, did you mean 0xa-0x14?");
	assert_refused("allow listen pkey 0x8001-0x8005,7,5-6",
		       "t:1:35: this overlaps 0x1-0x5 in the same list");
	assert_refused("allow listen pkey 1,0x8001",
		       "t:1:21: this overlaps 0x1-0x1 in the same list");
	assert_refused("allow session pkey 5", "t:1:15: 'pkey' cannot be used with 'session'");
	assert_refused("allow listen backlog 5 pkey 5",
		       "t:1:24: match 'pkey' must come before the settings");
	ck_assert(!rule("allow any pkey 1, 0x8002-0x80FF ,0xffff")->names_port);
}
END_TEST

START_TEST(bad_users_are_refused)
{
	assert_refused("allow session user no-such-user", "t:1:20: unknown user 'no-such-user'");
	assert_refused("allow session group root,no-such-group log",
		       "t:1:26: unknown group 'no-such-group'");
	assert_refused("allow session user root,0", "t:1:25: this user is named twice");
	assert_refused("allow session user 4294967295",
		       "t:1:20: a user id is a number from 0 to 4294967294");
	assert_refused("allow session user 007",
		       "t:1:20: a user id is a number from 0 to 4294967294");
	assert_refused("allow session user \"0\"", "t:1:20: unknown user '0'");
	assert_refused("allow session user", "t:1:19: expected a user");
	assert_refused("allow session user root,", "t:1:25: expected a user");
	assert_refused("allow session group {", "t:1:21: expected a group");
	assert_refused("allow session user \"\"", "t:1:20: a user has 1 to 255 bytes");
	load("allow session user root,4294967294 group \"root\",5");
}
END_TEST

START_TEST(bad_addresses_are_refused)
{
	assert_refused("allow connect peer 10.1.2.3/16",
		       "t:1:20: bits after the prefix are set, did you mean 10.1.0.0/16?");
	assert_refused("allow connect peer fd00::1/64",
		       "t:1:20: bits after the prefix are set, did you mean fd00::/64?");
	assert_refused("allow connect peer 10.0.0.0/33",
		       "t:1:20: the prefix length must be from 0 to 32");
	assert_refused("allow connect peer 10.0.0.0/255.0.0.0",
		       "t:1:20: the prefix length must be from 0 to 32");
	assert_refused("allow connect peer fd00::/129",
		       "t:1:20: the prefix length must be from 0 to 128");

	assert_refused(
		"allow connect peer localhost",
		"t:1:20: this match takes an IP address, a prefix, gid:GID or @SET; host names are not "
		"looked up");
	assert_refused(
		"allow connect peer fe80::1%eth0",
		"t:1:20: this match takes an IP address, a prefix, gid:GID or @SET; leave out "
		"%INTERFACE, which no rule looks at");
	assert_refused("allow connect peer 10.0.0",
		       "t:1:20: this match takes an IP address, a prefix, gid:GID or @SET");
	assert_refused("allow connect peer",
		       "t:1:19: this match takes an IP address, a prefix, gid:GID or @SET");
	assert_refused("allow connect local 10.0.0.1,10.0.0.2",
		       "t:1:29: this match takes one value; for several, define a set");
	assert_refused("allow connect peer @storage",
		       "t:1:20: no set of this name is defined above");
	assert_refused("allow connect peer @", "t:1:20: no set of this name is defined above");
	assert_refused("set storage = { 10.0.0.1 }\nallow connect peer @storag",
		       "t:2:20: no set of this name is defined above, did you mean '@storage'?");
	assert_refused(
		"set x = { 10.0.0.1 }\nset storage = { @x }\nallow connect peer storage",
		"t:3:20: this match takes an IP address, a prefix, gid:GID or @SET, did you mean "
		"'@storage'?");
	assert_refused("set @a = { 10.0.0.1 }",
		       "t:1:5: write the set's name without '@' where the set is defined; "
		       "'@name' is how a rule uses the set");
}
END_TEST

START_TEST(bad_devices_are_refused)
{
	assert_refused("allow device device", "t:1:20: expected a device pattern");
	assert_refused("allow device device \"\"", "t:1:21: a device pattern has 1 to 255 bytes");
	assert_refused("allow device device mlx5_[0",
		       "t:1:21: the '[' in this pattern is not closed");
	assert_refused("allow device device [!", "t:1:21: the '[' in this pattern is not closed");
	assert_refused("allow device device []", "t:1:21: the '[' in this pattern is not closed");
	assert_refused(
		"allow device device rxe0,rxe1",
		"t:1:25: 'device' takes one pattern: write two rules, or one pattern that matches both; put a pattern that contains ',' in double quotes");
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
	/* An escaped character counts as one byte. */
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

START_TEST(bad_sets_are_refused)
{
	assert_refused("set", "t:1:4: a set's name has 1 to 64 letters, digits, '_' and '-', and "
			      "begins with a letter or '_'");
	assert_refused("set 1a = { 10.0.0.1 }",
		       "t:1:5: a set's name has 1 to 64 letters, digits, '_' and '-', and begins "
		       "with a letter or '_'");
	assert_refused("set a { 10.0.0.1 }", "t:1:7: expected '='");
	assert_refused("set a = 10.0.0.1", "t:1:9: expected '{'");
	assert_refused("set a = { }", "t:1:11: the set is empty");
	assert_refused("set a = {}", "t:1:10: the set is empty");
	assert_refused("set a = {", "t:1:10: a set takes an IP address, a prefix, gid:GID or @SET");
	assert_refused("set a = { 10.0.0.1,",
		       "t:1:20: a set takes an IP address, a prefix, gid:GID or @SET");
	assert_refused("set a = { 10.0.0.1, }",
		       "t:1:21: a set takes an IP address, a prefix, gid:GID or @SET");
	assert_refused("set a = { 10.0.0.1",
		       "t:1:19: expected '}' ('\\' at the end of a line continues it)");
	assert_refused("set a = { 10.0.0.1 10.0.0.2 }", "t:1:20: expected ',' or '}'");
	assert_refused("set a = { 10.0.0.1 } log", "t:1:22: nothing may follow the set");
	assert_refused("set a = { @a }", "t:1:11: no set of this name is defined above");
	assert_refused("set a = { @b }\nset b = { 10.0.0.1 }",
		       "t:1:11: no set of this name is defined above");
	assert_refused("set a = { 10.0.0.1 }\nset a = { 10.0.0.2 }",
		       "t:2:5: this set is already defined in t:1");
	/* An error in the definition of a set is not reported again where the set is used. */
	assert_refused("set a = { 10.0.0.1/8 }\nset b = { @a }\nallow connect peer @b",
		       "t:1:11: bits after the prefix are set, did you mean 10.0.0.0/8?");
	load("set a={10.0.0.1,fd00::/8}\nset b-_2 = { @a , 10.0.0.0/8,\\\n@a }\n"
	     "allow connect peer @b-_2 local @a");
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
	ck_assert_str_eq(complaints_at(&diag->errors, 0),
			 "t:45023:5: more than 1000000 prefixes in all sets together");
	ck_assert_uint_eq(diag->errors.n, 1);
	free(text);
}
END_TEST

START_TEST(sets_of_repeated_members_do_not_grow)
{
	char text[4096];
	size_t len = sprintf(text, "set a0 = { 10.0.0.1, 10.0.0.2 }\n");

	for (int i = 1; i < 64; i++)
		len += sprintf(text + len, "set a%d = { @a%d, @a%d }\n", i, i - 1, i - 1);
	ck_assert_int_eq(load_bytes(text, len), 0);
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
	ck_assert_ptr_nonnull(
		strstr(complaints_at(&diag->errors, 0), ": more than 1024 values in one list"));
}
END_TEST

START_TEST(rates_are_read)
{
	const struct policy_settings *s;

	s = &rule("allow accept rate 200/s burst 400 rate-per-user 5/s rate-per-peer 1000000/s "
		  "burst 1")
		     ->settings;
	ck_assert_uint_eq(s->rate.per_second, 200);
	ck_assert_uint_eq(s->rate.burst, 400);
	ck_assert_uint_eq(s->rate_per_user.per_second, 5);
	ck_assert_uint_eq(s->rate_per_user.burst, 5);
	ck_assert_uint_eq(s->rate_per_peer.per_second, 1000000);
	ck_assert_uint_eq(s->rate_per_peer.burst, 1);
	s = &rule("allow any rate 1/s log")->settings;
	ck_assert_uint_eq(s->rate.per_second, 1);
	ck_assert_uint_eq(s->rate.burst, 1);
	ck_assert_uint_eq(s->rate_per_user.per_second, 0);
	ck_assert_uint_eq(s->rate_per_user.burst, 0);
	load("allow session rate 5/s\nallow device rate 5/s\nallow listen rate 5/s\n"
	     "allow join rate 5/s rate-per-peer 5/s\nallow connect rate-per-peer 5/s");
}
END_TEST

START_TEST(bad_rates_are_refused)
{
	const char *what = "t:1:20: 'rate' takes N/s, with N from 1 to 1000000";

	assert_refused("allow connect rate 0/s", what);
	assert_refused("allow connect rate 1000001/s", what);
	assert_refused("allow connect rate 05/s", what);
	assert_refused("allow connect rate /s", what);
	assert_refused("allow connect rate x/s", what);
	assert_refused("allow connect rate 1.5/s", what);
	assert_refused("allow connect rate \"5/s\"", what);
	assert_refused("allow connect rate log", what);
	assert_refused("allow connect rate", "t:1:19: 'rate' takes N/s, with N from 1 to 1000000");
	assert_refused("allow connect rate 200",
		       "t:1:20: 'rate' takes a number per second, did you mean '200/s'?");
	assert_refused("allow connect rate-per-user 9/sec",
		       "t:1:29: 'rate-per-user' takes a number per second, did you mean '9/s'?");
	assert_refused("allow connect rate-per-peer 9/m",
		       "t:1:29: 'rate-per-peer' takes a number per second, did you mean '9/s'?");
	assert_refused("allow connect rate 9/",
		       "t:1:20: 'rate' takes a number per second, did you mean '9/s'?");
	assert_refused("allow connect rate 9/s burst 0",
		       "t:1:30: 'burst' takes a number from 1 to 1000000");
	assert_refused("allow connect rate 9/s burst 1000001",
		       "t:1:30: 'burst' takes a number from 1 to 1000000");
	assert_refused("allow connect rate 9/s burst",
		       "t:1:29: 'burst' takes a number from 1 to 1000000");
	assert_refused("allow admin rate 9/s", "t:1:13: 'rate' cannot be used with 'admin'");
	assert_refused("allow listen rate-per-peer 9/s",
		       "t:1:14: 'rate-per-peer' cannot be used with 'listen'");
}
END_TEST

START_TEST(a_burst_belongs_to_a_rate)
{
	assert_refused("allow connect burst 5",
		       "t:1:15: 'burst' must directly follow the rate that it belongs to");
	assert_refused("allow connect rate 5/s log burst 5",
		       "t:1:28: 'burst' must directly follow the rate that it belongs to");
	assert_refused("allow connect rate 5/s burst 5 burst 6",
		       "t:1:32: 'burst' must directly follow the rate that it belongs to");
	assert_refused("allow connect rate 5/s rate 6/s",
		       "t:1:24: 'rate' occurs twice in this rule");
}
END_TEST

START_TEST(rates_without_effect_are_refused)
{
	assert_refused(
		"allow connect rate 5/s rate-per-user 6/s",
		"t:1:38: rate-per-user 6/s never takes effect, because the rate of the rule is 5/s");
	assert_refused(
		"allow connect rate-per-peer 6/s rate 5/s",
		"t:1:38: rate-per-peer 6/s never takes effect, because the rate of the rule is 5/s");
	/* During a burst of the rule, the limit for each user can take effect. */
	load("allow connect rate 5/s burst 100 rate-per-user 6/s");
	load("allow connect rate 5/s rate-per-user 5/s rate-per-peer 5/s");
	load("allow connect rate-per-user 5/s rate-per-peer 6/s");
}
END_TEST

START_TEST(counts_are_read)
{
	const struct policy_settings *s;

	s = &rule("allow accept max-per-user 5 max 5 pending 16777216")->settings;
	ck_assert_uint_eq(s->max, 5);
	ck_assert_uint_eq(s->max_per_user, 5);
	ck_assert_uint_eq(s->pending, 16777216);
	s = &rule("allow accept")->settings;
	ck_assert_uint_eq(s->max, 0);
	ck_assert_uint_eq(s->max_per_user, 0);
	ck_assert_uint_eq(s->pending, 0);
	load("allow session max 1\nallow device max 1\nallow listen max-per-user 1\n"
	     "allow connect max 1\nallow join max 1\nallow any max 1");

	assert_refused("allow accept max 0", "t:1:18: 'max' takes a number from 1 to 16777216");
	assert_refused("allow accept max-per-user 16777217",
		       "t:1:27: 'max-per-user' takes a number from 1 to 16777216");
	assert_refused("allow accept pending no",
		       "t:1:22: 'pending' takes a number from 1 to 16777216");
	assert_refused("allow listen pending 5", "t:1:14: 'pending' cannot be used with 'listen'");
	assert_refused("allow admin max 5", "t:1:13: 'max' cannot be used with 'admin'");
	assert_refused("reject accept max 5", "t:1:15: 'max' is for allow and warn rules only");
	assert_refused(
		"allow accept max 5 max-per-user 6",
		"t:1:33: max-per-user 6 never takes effect, because the max of the rule is 5");
	assert_refused(
		"allow accept max-per-user 6 max 5",
		"t:1:33: max-per-user 6 never takes effect, because the max of the rule is 5");
}
END_TEST

START_TEST(caps_are_read)
{
	const struct policy_settings *s;

	s = &rule("allow connect ack-timeout 31 responder-resources 255 initiator-depth 0 "
		  "retry-count 7 rnr-retry-count 6")
		     ->settings;
	ck_assert_int_eq(s->ack_timeout, 31);
	ck_assert_int_eq(s->responder_resources, 255);
	ck_assert_int_eq(s->initiator_depth, 0);
	ck_assert_int_eq(s->retry_count, 7);
	ck_assert_int_eq(s->rnr_retry_count, 6);
	s = &rule("allow accept ack-timeout 0 min-rnr-timer 31")->settings;
	ck_assert_int_eq(s->ack_timeout, 0);
	ck_assert_int_eq(s->min_rnr_timer, 31);
	ck_assert_int_eq(s->responder_resources, -1);
	ck_assert_int_eq(s->initiator_depth, -1);
	ck_assert_int_eq(s->retry_count, -1);
	ck_assert_int_eq(s->rnr_retry_count, -1);
	ck_assert_int_eq(rule("allow accept")->settings.ack_timeout, -1);
	ck_assert_int_eq(rule("allow accept")->settings.min_rnr_timer, -1);

	assert_refused("allow connect min-rnr-timer 32",
		       "t:1:29: 'min-rnr-timer' takes a number from 0 to 31");
	assert_refused("allow connect ack-timeout 32",
		       "t:1:27: 'ack-timeout' takes a number from 0 to 31");
	assert_refused("allow connect responder-resources 256",
		       "t:1:35: 'responder-resources' takes a number from 0 to 255");
	assert_refused("allow connect initiator-depth 256",
		       "t:1:31: 'initiator-depth' takes a number from 0 to 255");
	assert_refused("allow connect retry-count 8",
		       "t:1:27: 'retry-count' takes a number from 0 to 7");
	assert_refused("allow connect rnr-retry-count 8",
		       "t:1:31: 'rnr-retry-count' takes a number from 0 to 7");
	assert_refused("allow listen ack-timeout 5",
		       "t:1:14: 'ack-timeout' cannot be used with 'listen'");
	assert_refused("allow join retry-count 5",
		       "t:1:12: 'retry-count' cannot be used with 'join'");
}
END_TEST

START_TEST(bad_units_are_refused)
{
	assert_refused("allow session unit", "t:1:19: expected a unit pattern");
	assert_refused("allow session unit \"\"", "t:1:20: a unit pattern has 1 to 255 bytes");
	assert_refused("allow session unit [a", "t:1:20: the '[' in this pattern is not closed");
	assert_refused(
		"allow session unit a.service,b.service",
		"t:1:29: 'unit' takes one pattern: write two rules, or one pattern that matches both; put a pattern that contains ',' in double quotes");
	load("allow admin unit user@*.service");
	load("allow connect unit slurmstepd* peer-unit [ab]");
	ck_assert_uint_eq(diag->warnings.n, 0);
	load("allow connect unit slurmstepd peer-unit gluster");
	ck_assert_uint_eq(diag->warnings.n, 2);
	ck_assert_str_eq(complaints_at(&diag->warnings, 0),
			 "t:1:20: 'slurmstepd' matches no unit: the names of units have a suffix, "
			 "as in slurmstepd.service");
	assert_refused("allow session container", "t:1:24: expected a container pattern");
	assert_refused(
		"allow session pod a,b",
		"t:1:20: 'pod' takes one pattern: write two rules, or one pattern that matches both; put a pattern that contains ',' in double "
		"quotes");
	assert_refused("allow device access", "t:1:20: 'access' takes acl or open");
	assert_refused("allow device access fd", "t:1:21: 'access' takes acl or open");
	assert_refused("allow connect access open",
		       "t:1:15: 'access' cannot be used with 'connect'");
	load("allow device access open\nallow device access acl");
	load("allow any container * pod * job 7 cgroup /system.slice");
}
END_TEST

START_TEST(bad_control_groups_are_refused)
{
	const char *what = "t:1:22: 'cgroup' takes a path from the root of the hierarchy, such as "
			   "/system.slice, without a slash at its end";

	assert_refused("allow session cgroup system.slice", what);
	assert_refused("allow session cgroup *", what);
	assert_refused("allow session cgroup /system.slice/", what);
	assert_refused("allow session cgroup //", what);
	load("allow session cgroup /");
	load("allow session cgroup /system.slice/*");
}
END_TEST

START_TEST(bad_data_is_refused)
{
	const char *what = "t:1:19: 'data' takes a text in double quotes, or 0x followed by pairs "
			   "of hexadecimal digits";
	char text[512], bytes[200];

	assert_refused("allow accept data NVMe", what);
	assert_refused("allow accept data 0x0", what);
	assert_refused("allow accept data 0x0g", what);
	assert_refused("allow accept data 0X00", what);
	assert_refused("allow accept data 00", what);
	assert_refused("allow accept data ,", what);
	assert_refused("allow accept data 0x",
		       "t:1:19: 'data' takes 1 to 180 bytes, but this is 0");
	assert_refused("allow accept data \"\"",
		       "t:1:19: 'data' takes 1 to 180 bytes, but this is 0");
	assert_refused("allow connect data \"a\"", "t:1:15: 'data' cannot be used with 'connect'");

	memset(bytes, '0', sizeof(bytes));
	snprintf(text, sizeof(text), "allow accept data \"%.180s\"", bytes);
	load(text);
	snprintf(text, sizeof(text), "allow accept data \"%.181s\"", bytes);
	assert_refused(text, "t:1:19: 'data' takes 1 to 180 bytes, but this is 181");
	snprintf(text, sizeof(text), "allow accept ps udp data 0x%.114s", bytes);
	load(text);
	snprintf(text, sizeof(text), "allow accept ps tcp data 0x%.112s", bytes);
	load(text);
	snprintf(text, sizeof(text), "allow accept ps tcp data 0x%.114s", bytes);
	assert_refused(text, "t:1:21: this rule can never match: requests of its port space "
			     "carry at most 56 bytes of private data, but the rule has 57");
	snprintf(text, sizeof(text), "allow accept data \"%.57s\" ps ib", bytes);
	assert_refused(text, "t:1:79: this rule can never match: requests of its port space "
			     "carry at most 56 bytes of private data, but the rule has 57");
}
END_TEST

START_TEST(values_are_suggested)
{
	assert_refused("allow connect dscp AF31",
		       "t:1:20: 'dscp' takes cs0 to cs7, af11 to af43 or ef, did you mean 'af31'?");
	assert_refused("allow connect dscp af-31",
		       "t:1:20: 'dscp' takes cs0 to cs7, af11 to af43 or ef, did you mean 'af31'?");
	assert_refused("allow connect dscp eff",
		       "t:1:20: 'dscp' takes cs0 to cs7, af11 to af43 or ef, did you mean 'ef'?");
	/* Several values are equally near. */
	assert_refused("allow connect dscp af",
		       "t:1:20: 'dscp' takes cs0 to cs7, af11 to af43 or ef");
	assert_refused("allow connect dscp \"ef\"",
		       "t:1:20: 'dscp' takes cs0 to cs7, af11 to af43 or ef");
	assert_refused("allow connect reuseaddr cleint",
		       "t:1:25: 'reuseaddr' takes yes, no or client, did you mean 'client'?");
	assert_refused("allow connect qp reseved",
		       "t:1:18: 'qp' takes own or reserved, did you mean 'reserved'?");
	assert_refused("allow connect ps upd",
		       "t:1:18: 'ps' takes tcp, udp, ib or ipoib, did you mean 'udp'?");
	assert_refused("allow connect rate_per_user 5/s",
		       "t:1:15: unknown word 'rate_per_user', did you mean 'rate-per-user'?");
	assert_refused("allow connect ack-timout 5",
		       "t:1:15: unknown word 'ack-timout', did you mean 'ack-timeout'?");
	assert_refused("allow accept dta \"a\"",
		       "t:1:14: unknown word 'dta', did you mean 'data'?");
	assert_refused("allow accept rate 5/s brust 5",
		       "t:1:23: unknown word 'brust', did you mean 'burst'?");
	assert_refused("reject admn", "t:1:8: unknown operation 'admn', did you mean 'admin'?");
}
END_TEST

UNIT_MAIN("policy_values", policy_set_up, policy_tear_down, settings_are_read,
	  bad_numbers_are_refused, bad_ports_are_refused, bad_pkeys_are_refused,
	  bad_users_are_refused, bad_addresses_are_refused, bad_devices_are_refused,
	  reasons_have_limits, bad_sets_are_refused, sets_have_a_limit,
	  sets_of_repeated_members_do_not_grow, lists_have_a_limit, rates_are_read,
	  bad_rates_are_refused, a_burst_belongs_to_a_rate, rates_without_effect_are_refused,
	  counts_are_read, caps_are_read, bad_units_are_refused, bad_control_groups_are_refused,
	  bad_data_is_refused, values_are_suggested)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/check_policy.h"

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
	ck_assert_int_eq(policy_rule_reuseaddr(r, POLICY_CONNECT), POLICY_REUSEADDR_NO);
	ck_assert_int_eq(policy_rule_reuseaddr(r, POLICY_LISTEN), POLICY_REUSEADDR_CLIENT);
	ck_assert_int_eq(r->settings.qp, POLICY_QP_OWN);

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

START_TEST(rules_have_a_text)
{
	load("set s = { 10.0.0.1 }\n"
	     "  allow\tlisten  user 1 , 2,3 port 1-2 ,4   backlog 5 # why\n"
	     "reject any \\\n"
	     "  peer @s \\\n"
	     "\treason \"say \\\"why\\\" # \\\\\" log");
	ck_assert_str_eq(policy_rule_at(policy, 0)->text,
			 "allow listen user 1,2,3 port 1-2,4 backlog 5");
	ck_assert_uint_eq(policy_rule_at(policy, 0)->index, 0);
	ck_assert_str_eq(policy_rule_at(policy, 1)->text,
			 "reject any peer @s reason \"say \\\"why\\\" # \\\\\" log");
	ck_assert_uint_eq(policy_rule_at(policy, 1)->index, 1);
	ck_assert_str_eq(rule("allow any")->text, "allow any");
}
END_TEST

START_TEST(the_text_of_a_rule_parses_to_the_same_rule)
{
	static const char *const texts[] = {
		"allow connect unit \"a{b,c}=\\\\x2d*.service\" rate 5/s burst 9",
		"reject accept data \"\\\"\\\\\" log",
		"allow session user 0,5 group \"root\",7 max 5",
	};
	char again[256];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		ck_assert_str_eq(rule(texts[i])->text, texts[i]);
		snprintf(again, sizeof(again), "%s", policy_rule_at(policy, 0)->text);
		ck_assert_str_eq(rule(again)->text, texts[i]);
	}
}
END_TEST

START_TEST(names_of_operations)
{
	ck_assert_str_eq(policy_operation_to_string(POLICY_SESSION), "session");
	ck_assert_str_eq(policy_operation_to_string(POLICY_DEVICE), "device");
	ck_assert_str_eq(policy_operation_to_string(POLICY_LISTEN), "listen");
	ck_assert_str_eq(policy_operation_to_string(POLICY_CONNECT), "connect");
	ck_assert_str_eq(policy_operation_to_string(POLICY_ACCEPT), "accept");
	ck_assert_str_eq(policy_operation_to_string(POLICY_JOIN), "join");
	ck_assert_str_eq(policy_operation_to_string(POLICY_OBSERVE), "observe");
	ck_assert_str_eq(policy_operation_to_string(POLICY_ADMIN), "admin");
	ck_assert_str_eq(policy_operation_to_string(_POLICY_OPERATION_MAX), "any");
}
END_TEST

START_TEST(unknown_words_are_refused)
{
	assert_refused("alow session", "t:1:1: unknown action 'alow', did you mean 'allow'?");
	assert_refused("weigh session",
		       "t:1:1: unknown action 'weigh': it must be one of allow, reject, warn, set");
	assert_refused("= x", "t:1:1: a line must begin with allow, reject, warn or set");
	assert_refused("permissive any",
		       "t:1:1: unknown action 'permissive', did you mean 'warn'?");
	assert_refused("allow sesion user root",
		       "t:1:7: unknown operation 'sesion', did you mean 'session'?");
	ck_assert_int_eq(load_bytes("allow user root", 15), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(complaints_at(&diag->errors, 0),
				     "t:1:7: unknown operation 'user': it must be one "
				     "of session, device, listen, connect, "));
	assert_refused("allow", "t:1:6: expected an operation");
	assert_refused("allow \"any\"", "t:1:7: expected an operation");
	assert_refused("allow any usr root", "t:1:11: unknown word 'usr', did you mean 'user'?");
	assert_refused("allow any User root", "t:1:11: unknown word 'User', did you mean 'user'?");
	assert_refused("allow any nonsense", "t:1:11: unknown word 'nonsense'");
	assert_refused("allow any = 1", "t:1:11: expected a match or a setting");
	assert_refused("allow session ,", "t:1:15: expected a match or a setting");
	assert_refused("allow session user root root", "t:1:25: unknown word 'root'");
}
END_TEST

/* Words of other languages, which are not similar to those of this one. */
START_TEST(words_of_other_languages)
{
	assert_refused("deny session", "t:1:1: unknown action 'deny', did you mean 'reject'?");
	assert_refused("Permit session", "t:1:1: unknown action 'Permit', did you mean 'allow'?");
	assert_refused("allow all", "t:1:7: unknown operation 'all', did you mean 'any'?");
	assert_refused("allow * user root", "t:1:7: unknown operation '*', did you mean 'any'?");
	assert_refused("allow bind port 7",
		       "t:1:7: unknown operation 'bind', did you mean 'listen'?");
	assert_refused("allow any uid 7", "t:1:11: unknown word 'uid', did you mean 'user'?");
	assert_refused("allow any service x",
		       "t:1:11: unknown word 'service', did you mean 'unit'?");
}
END_TEST

/* What word processors and web pages make of quotes, hyphens and blanks. */
START_TEST(typographic_characters_are_named)
{
	assert_refused("reject any reason “no”",
		       "t:1:19: this is a typographic quote, “ (U+201C): write \"");
	assert_refused("reject any reason ‘no’",
		       "t:1:19: this is a typographic quote, ‘ (U+2018): write \"");
	assert_refused("reject any reason „no“",
		       "t:1:19: this is a typographic quote, „ (U+201E): write \"");
	assert_refused("reject any reason «no»",
		       "t:1:19: this is a typographic quote, « (U+00AB): write \"");
	assert_refused("allow session user bob’s",
		       "t:1:23: this is a typographic quote, ’ (U+2019): write \"");
	assert_refused("allow listen port 1–2", "t:1:20: this is an en dash, – (U+2013): write -");
	assert_refused("allow connect tos—max 2",
		       "t:1:18: this is an em dash, — (U+2014): write -");
	assert_refused("allow connect tos‑max 2",
		       "t:1:18: this is a no-break hyphen, ‑ (U+2011): write -");
	assert_refused("allow\u00a0session",
		       "t:1:6: this is a no-break space (U+00A0): write a blank");
	assert_refused("\u00a0allow session",
		       "t:1:1: this is a no-break space (U+00A0): write a blank");
	assert_refused("allow session\u00a0# mine",
		       "t:1:14: this is a no-break space (U+00A0): write a blank");
	assert_refused("allow session\u200b",
		       "t:1:14: this is an invisible character (U+200B): remove it");
	assert_refused("set a = { 10.0.0.1，10.0.0.2 }",
		       "t:1:19: this is a wide comma, ， (U+FF0C): write ,");
	/* In comments and in double quotes they are text. Other letters are, too. */
	load("# “no” – yes\u00a0");
	load("allow session # “no”");
	ck_assert_str_eq(rule("reject any reason \"don’t – “no”\"")->reason, "don’t – “no”");
	rule("allow session cgroup /größe/€");
}
END_TEST

START_TEST(foreign_syntax_is_refused_with_a_hint)
{
	assert_refused("// mine", "t:1:1: unknown action '//'; a comment begins with '#'");
	assert_refused("; mine", "t:1:1: unknown action ';'; a comment begins with '#'");
	assert_refused("-- mine", "t:1:1: unknown action '--'; a comment begins with '#'");
	assert_refused("/* mine", "t:1:1: unknown action '/*'; a comment begins with '#'");
	assert_refused("allow any ;mine",
		       "t:1:11: unknown word ';mine'; a comment begins with '#'");
	assert_refused("allow //any",
		       "t:1:7: unknown operation '//any'; a comment begins with '#'");
	assert_refused("allow session user=root", "t:1:19: 'user' takes its value without '='");
	assert_refused("allow listen port = 80", "t:1:19: 'port' takes its value without '='");
	assert_refused("allow connect tos=8", "t:1:18: 'tos' takes its value without '='");
}
END_TEST

START_TEST(words_out_of_place_are_refused)
{
	assert_refused("allow session reason \"x\"",
		       "t:1:15: 'reason' is for reject and warn rules only");
	assert_refused("reject listen backlog 1",
		       "t:1:15: 'backlog' is for allow and warn rules only");
	assert_refused("allow session peer 10.0.0.1",
		       "t:1:15: 'peer' cannot be used with 'session'");
	assert_refused("allow device port 80", "t:1:14: 'port' cannot be used with 'device'");
	assert_refused("allow listen peer 10.0.0.1", "t:1:14: 'peer' cannot be used with 'listen'");
	assert_refused("allow session device rxe0",
		       "t:1:15: 'device' cannot be used with 'session'");
	assert_refused("allow admin port 80", "t:1:13: 'port' cannot be used with 'admin'");
	assert_refused("allow device ps tcp", "t:1:14: 'ps' cannot be used with 'device'");
	assert_refused("allow connect backlog 5",
		       "t:1:15: 'backlog' cannot be used with 'connect'");
	assert_refused("allow accept reuseaddr yes",
		       "t:1:14: 'reuseaddr' cannot be used with 'accept'");
	assert_refused("allow device qp reserved", "t:1:14: 'qp' cannot be used with 'device'");
	assert_refused("reject connect qp own", "t:1:16: 'qp' is for allow and warn rules only");
	assert_refused("allow connect qp reserved user 1",
		       "t:1:27: match 'user' must come before the settings");
	assert_refused("allow listen tos 5", "t:1:14: 'tos' cannot be used with 'listen'");
	assert_refused("allow any peer 10.0.0.1 backlog 5",
		       "t:1:25: 'backlog' cannot be used with 'any' and the matches before it");
	assert_refused("allow listen backlog 5 user root",
		       "t:1:24: match 'user' must come before the settings");
	assert_refused("allow session log user root",
		       "t:1:19: match 'user' must come before the settings");
}
END_TEST

START_TEST(repetitions_and_contradictions_are_refused)
{
	assert_refused("allow session user 1 user 2", "t:1:22: 'user' occurs twice in this rule");
	assert_refused("allow session log log", "t:1:19: 'log' occurs twice in this rule");
	assert_refused("allow connect tos 1 tos 2", "t:1:21: 'tos' occurs twice in this rule");
	assert_refused("allow connect qp own qp reserved",
		       "t:1:22: 'qp' occurs twice in this rule");
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

START_TEST(bad_strings_and_comments_are_refused)
{
	assert_refused("reject any reason \"no", "t:1:19: the string does not end on its line");
	assert_refused("reject any reason \"no\\\n\"",
		       "t:1:19: the string does not end on its line");
	assert_refused("reject any reason \"a\\n\"",
		       "t:1:21: only \\\" and \\\\ can be escaped in a string");
	assert_refused(
		"allow session user root# admin",
		"t:1:24: '#' begins a comment only after a blank; put a name that contains '#' in "
		"double quotes");
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
		       "t:1:25: the file ends here, but this '\\' continues the line");
	assert_refused("allow session user root \\\n",
		       "t:1:25: the file ends here, but this '\\' continues the line");
	/* A comment ends a joined line, so the next line begins a statement of its own. */
	assert_refused("allow listen \\\n# comment\nport 4420",
		       "t:3:1: unknown action 'port': it must be one of allow, reject, warn, set");
}
END_TEST

START_TEST(errors_in_joined_lines_name_the_physical_line)
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
			 "t:2:2: bits after the prefix are set, did you mean 10.1.0.0/16?\n"
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

START_TEST(bad_bytes_are_refused)
{
	ck_assert_int_eq(load_bytes("allow session\0 user root\n", 25), -EBADMSG);
	ck_assert_str_eq(complaints_at(&diag->errors, 0), "t:1:14: NUL byte");
	assert_refused("# \x1b[2J", "t:1:3: control character");
	assert_refused("# \xe4", "t:1:3: this is not printable UTF-8");
	assert_refused("\xef\xbb\xbf# comment",
		       "t:1:1: byte order mark (save the file as UTF-8 without one)");
	assert_refused("allow session\r\n",
		       "t:1:14: carriage return (lines must end with a newline alone)");
	load("# \xc3\xa4\n");
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
	ck_assert_str_eq(complaints_at(&diag->errors, 2),
			 "t:3:20: bits after the prefix are set, did you mean "
			 "10.0.0.0/8?");
	ck_assert_str_eq(complaints_at(&diag->errors, 3),
			 "t:3:36: the range is reversed, did you mean 8-9?");
	ck_assert_str_eq(complaints_at(&diag->errors, 4),
			 "t:3:46: the traffic class is already set in this rule");
	ck_assert_str_eq(complaints_at(&diag->errors, 5),
			 "t:4:19: the string does not end on its line");
	ck_assert_str_eq(complaints_at(&diag->errors, 6), "t:6:20: unknown user 'no-such-user'");
	ck_assert_str_eq(complaints_at(&diag->errors, 7), "t:6:33: unknown user 'no-such-user2'");
	ck_assert_uint_eq(diag->errors.n, 8);
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

UNIT_MAIN("policy", policy_set_up, policy_tear_down, rules_are_kept_in_order, rules_have_a_text,
	  the_text_of_a_rule_parses_to_the_same_rule, names_of_operations,
	  unknown_words_are_refused, words_of_other_languages, typographic_characters_are_named,
	  foreign_syntax_is_refused_with_a_hint, words_out_of_place_are_refused,
	  repetitions_and_contradictions_are_refused, bad_strings_and_comments_are_refused,
	  bad_joins_are_refused, errors_in_joined_lines_name_the_physical_line,
	  bad_bytes_are_refused, all_errors_are_collected, references_keep_a_policy)

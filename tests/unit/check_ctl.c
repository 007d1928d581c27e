/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/program.h"
#include "util/diag.h"

/* The real rdmabrokerctl, against the server over a real socket. */

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

static void assert_usage(const char *part)
{
	ck_assert_int_eq(got.status, 2);
	ck_assert_str_eq(got.out, "");
	assert_has(got.err, part);
	assert_has(got.err, "see rdmabrokerctl help");
}

START_TEST(a_wrong_command_line_is_explained)
{
	run((const char *const[]){ program, NULL });
	assert_usage("no verb given");
	ctl("stauts");
	assert_usage("unknown verb \"stauts\", did you mean \"status\"?");
	ctl("frobnicate");
	assert_usage("unknown verb \"frobnicate\"\n");
	ctl("rules", "--fulll");
	assert_usage("unknown option \"--fulll\", did you mean \"--full\"?");
	assert_has(got.err, "see rdmabrokerctl help rules\n");
	/* An option of one verb is accepted neither with another verb nor before the verb. */
	ctl("status", "--full");
	assert_usage("unknown option \"--full\"\n");
	ctl("--full", "rules");
	assert_usage("unknown option \"--full\"\n");
	ctl("rules", "--full=1");
	assert_usage("option --full takes no argument");
	ctl("rules", "-x");
	assert_usage("unknown option \"-x\"");
	ctl("rules", "all");
	assert_usage("unexpected argument \"all\": rules takes no arguments\n");
	ctl("explain");
	assert_usage("explain needs an argument: OPERATION\n");
	ctl("explain", "connect", "listen");
	assert_usage("unexpected argument \"listen\": explain takes only OPERATION\n");
	ctl("explain", "connect", "--port");
	assert_usage("option --port needs an argument");
	ctl("explain", "connect", "--group", "1", "--group", "2");
	assert_usage("option --group is given twice");
	run((const char *const[]){ program, "status", "--socket", NULL });
	assert_usage("option --socket needs an argument");
}
END_TEST

START_TEST(help)
{
	static const char *const ways[] = { "help", "--help", "-h" };

	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(ctl(ways[i]), 0);
		ck_assert_str_eq(got.err, "");
		assert_has(got.out, "Usage: rdmabrokerctl [OPTION ...] VERB [ARGUMENT ...]\n");
		assert_has(got.out, "  explain OPERATION ");
		assert_has(got.out, "      --peer ADDR ");
		assert_has(got.out, "3 rejected (explain)");
	}
	ck_assert_int_eq(ctl("help", "explain"), 0);
	assert_has(got.out, "Usage: rdmabrokerctl explain [OPTION ...] OPERATION\n");
	assert_has(got.out, "OPERATION: session device listen connect accept join observe admin\n");
	assert_lacks(got.out, "rules");
	ck_assert_int_eq(ctl("explain", "--help"), 0);
	assert_has(got.out, "Usage: rdmabrokerctl explain ");
	ck_assert_int_eq(ctl("--help", "explain"), 0);
	assert_has(got.out, "Usage: rdmabrokerctl explain ");
	ck_assert_int_eq(ctl("help", "--json"), 0);
	assert_json(
		"[v[\"name\"] for v in d[\"verbs\"]] == [\"cdi\", \"check\", \"drain\", \"dropin\", \"events\", \"explain\", \"fleet\", \"help\", "
		"\"kick\", \"limits\", \"list\", \"metrics\", \"nodes\", \"refusals\", \"reload\", \"restrict\", \"rules\", \"run\", \"site\", \"status\", \"suggest\", \"version\"]");
	ck_assert_int_eq(ctl("--json", "help", "rules"), 0);
	assert_json("[o[\"name\"] for o in d[\"verbs\"][0][\"options\"]] == [\"full\"]");
	ck_assert_int_eq(ctl("help", "rulez"), 2);
	assert_has(got.err, "did you mean \"rules\"?");
}
END_TEST

START_TEST(version)
{
	ck_assert_int_eq(ctl("version"), 0);
	assert_has(got.out, "rdmabrokerctl ");
	ck_assert_int_eq(ctl("--version"), 0);
	assert_has(got.out, "rdmabrokerctl ");
	ck_assert_int_eq(ctl("version", "--json"), 0);
	assert_json("list(d) == [\"version\"]");
}
END_TEST

START_TEST(restricted_program)
{
	static const char session[] =
		"test -S \"$RDMABROKER_SOCKET\" && echo \"$RDMABROKER_SOCKET\"";
	char path[128], command[PATH_MAX + 64];

	set_policy("allow any\nallow observe\n");
	ck_assert_int_eq(ctl("restrict", "--rules", "allow observe", "--", "sh", "-c", session), 0);
	assert_has(got.out, harness.restricted_dir);
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(got.out, "\n"), got.out);
	/* The broker notices a little later. */
	AWAIT(access(path, F_OK) == -1, "the end of %s", path);
	/* The program's own rdmabrokerctl has the restriction. */
	snprintf(command, sizeof(command), "%s list --sessions", program);
	ck_assert_int_eq(ctl("restrict", "--rules", "allow observe; reject any reason \"a;b\"",
			     "--ids", "3", "--", "sh", "-c", command),
			 0);
	assert_has(got.out, " restricted ");
	snprintf(command, sizeof(command), "%s drain --cancel", program);
	ck_assert_int_eq(ctl("restrict", "--rules", "allow observe", "--", "sh", "-c", command), 1);
	assert_has(got.err, "may do this");
	/* The exit status is the program's. */
	ck_assert_int_eq(ctl("restrict", "--rules", "", "--", "sh", "-c", "exit 42"), 42);
	ck_assert_int_eq(ctl("restrict", "--rules", "", "--", "sh", "-c", "kill -KILL $$"), 137);
	ck_assert_int_eq(ctl("restrict", "--rules", "", "--", "/nonexistent"), 127);
	assert_has(got.err, "cannot run /nonexistent");
}
END_TEST

START_TEST(restrict_refuses_bad_arguments)
{
	FILE *rules = fopen(harness.rules_path, "w");

	ck_assert_ptr_nonnull(rules);
	fputs("# a program\nallow listen port 7471\nallow listn\n", rules);
	fclose(rules);
	ck_assert_int_eq(ctl("restrict", "--file", harness.rules_path, "--", "true"), 1);
	assert_has(got.err, "restriction:3:7: unknown operation 'listn', did you mean 'listen'?");
	ck_assert_int_eq(ctl("restrict", "--file", "/nonexistent", "--", "true"), 1);
	assert_has(got.err, "cannot open /nonexistent");
	ck_assert_int_eq(ctl("restrict", "--file", "/", "--", "true"), 1);
	ck_assert_int_eq(ctl("restrict", "--file", "/bin/sh", "--", "true"), 1);
	assert_has(got.err, "must be a text of at most 1023 bytes");
	ck_assert_int_eq(ctl("restrict", "--", "true"), 2);
	assert_has(got.err, "either --rules or --file");
	ck_assert_int_eq(ctl("restrict", "--rules", "", "--file", "x", "--", "true"), 2);
	ck_assert_int_eq(ctl("restrict", "--rules", ""), 2);
	assert_has(got.err, "restrict needs an argument");
	ck_assert_int_eq(ctl("restrict", "--rules", "", "--ids", "0", "--", "true"), 2);
	assert_has(got.err, "invalid number of ids \"0\"");
	ck_assert_int_eq(ctl("restrict", "--rules", "", "sh", "-c", "true"), 2);
	assert_has(got.err, "the program must follow \"--\": \"rdmabrokerctl restrict ... -- sh");
	ck_assert_int_eq(ctl("restrict", "--rules", "allow any user root", "--", "true"), 1);
	assert_has(got.err, "'user' cannot be used in a restriction");
}
END_TEST

START_TEST(instances)
{
	ck_assert_int_eq(ctl("--instance", "blue", "status"), 2);
	assert_has(got.err, "--instance and --socket exclude each other");
	ck_assert_int_eq(
		run((const char *const[]){ program, "--instance", "no.such", "status", NULL }), 1);
	assert_has(got.err, "no broker answers on /run/rdmabroker@no.such/rdmabroker.sock");
	ck_assert_int_eq(
		run((const char *const[]){ program, "--instance", "../x", "status", NULL }), 2);
	assert_has(got.err, "invalid name of an instance \"../x\"");
}
END_TEST

START_TEST(a_failed_write_is_reported)
{
	ck_assert_int_eq(run((const char *const[]){ "sh", "-c", "exec \"$0\" help >/dev/full",
						    program, NULL }),
			 1);
	assert_has(got.err, "cannot write the output: No space left on device");
}
END_TEST

START_TEST(status)
{
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out, "policy: 1 rule\n");
	assert_has(got.out, "sessions: 1\n");
	ck_assert_int_eq(ctl("status", "--json"), 0);
	assert_json(
		"d[\"policy\"] == {\"rules\": 1, \"error\": None, \"loaded\": True, "
		"\"missing_names\": 0, \"warn_rules\": 0, \"warned\": 0} and d[\"sessions\"] == 1 and d[\"warnings\"] == []");
	/* Common options such as --json can stand before or after the verb. */
	ck_assert_int_eq(ctl("--json", "status"), 0);
	assert_json("d[\"sessions\"] == 1");
}
END_TEST

static void do_set_fallback(void *arg)
{
	struct policy *policy = NULL;

	ck_assert_int_eq(policy_new_fallback(&policy), 0);
	ck_assert_int_eq(core_set_policy(harness.core, policy), 0);
	policy_unref(policy);
	control_set_policy_error(server_get_control(harness.server),
				 "my.rules:7:1: unknown action");
}

START_TEST(status_without_a_policy)
{
	FILE *rules;

	in_server(do_set_fallback, NULL);
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out,
		   "policy: NOT LOADED: my.rules:7:1: unknown action\n"
		   "             everything is rejected, except rdmabrokerctl run by root; fix the "
		   "error, then run rdmabrokerctl reload\n");
	ck_assert_int_eq(ctl("status", "--json"), 0);
	assert_json("d[\"policy\"] == {\"rules\": 0, \"error\": \"my.rules:7:1: unknown action\", "
		    "\"loaded\": False, \"missing_names\": 0, \"warn_rules\": 0, \"warned\": 0}");
	rules = fopen(harness.rules_path, "w");
	ck_assert_ptr_nonnull(rules);
	fputs("allow sesion\n", rules);
	fclose(rules);
	ck_assert_int_eq(ctl("reload"), 1);
	assert_has(got.err, "did you mean 'session'?");
	assert_has(got.err, "nothing was reloaded; the daemon still rejects everything\n");
	ck_assert_int_eq(ctl("metrics"), 0);
	assert_has(got.out, "rdmabroker_policy_loaded 0\n");
	assert_has(got.out, "rdmabroker_rules 0\n");
	/* A user who is no admin also learns that the policy has an error. */
	if (!run_as_nobody())
		return;
	ck_assert_int_eq(ctl("status"), 1);
	assert_has(got.err, "the broker's policy has an error and could not be loaded");
	end_nobody();
}
END_TEST

START_TEST(status_without_rdma)
{
	fake_set_no_rdma("the kernel module rdma_ucm is not loaded: run \"modprobe rdma_ucm\"");
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out,
		   "warning: cannot use RDMA or some of its devices: the kernel module rdma_ucm is "
		   "not loaded: run \"modprobe rdma_ucm\"\n");
	fake_set_no_rdma(NULL);
	ck_assert_int_eq(ctl("status"), 0);
	assert_lacks(got.out, "warning");
}
END_TEST

static void do_miss_names(void *arg)
{
	struct policy *policy = NULL;
	struct diag *diag;

	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_int_eq(policy_load_dir(&policy, harness.dir, POLICY_NAMES_MAY_BE_MISSING, diag),
			 0);
	ck_assert_int_eq(core_set_policy(harness.core, policy), 0);
	policy_unref(policy);
	diag_free(diag);
}

START_TEST(status_with_missing_names)
{
	FILE *rules = fopen(harness.rules_path, "w");

	ck_assert_ptr_nonnull(rules);
	fputs("allow session user no.such.user,no.such.user2\nallow any\n", rules);
	fclose(rules);
	in_server(do_miss_names, NULL);
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out, "policy: 2 rules\n");
	assert_has(got.out, "warning: cannot look up 2 user or group names: ");
	assert_has(got.out, "/test.rules:1:20: unknown user 'no.such.user'\n");
	ck_assert_int_eq(ctl("status", "--json"), 0);
	assert_json("d[\"policy\"][\"missing_names\"] == 2 and d[\"policy\"][\"loaded\"] and "
		    "len(d[\"warnings\"]) == 1 and d[\"policy\"][\"error\"] is None");
}
END_TEST

START_TEST(no_daemon_is_running)
{
	static const char *const verbs[] = { "status", "rules", "reload" };

	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(ctl("--socket", "/nonexistent", verbs[i], "--json"), 1);
		ck_assert_str_eq(got.out, "");
		assert_has(got.err, "the daemon is not running");
	}
	ck_assert_int_eq(ctl("--socket", "/nonexistent", "explain", "connect"), 1);
	assert_has(got.err, "the daemon is not running");
	/* The verbs version and help do not contact the daemon. */
	ck_assert_int_eq(ctl("--socket", "/nonexistent", "version"), 0);
	ck_assert_int_eq(ctl("--socket", "/nonexistent", "help"), 0);

	setenv("RDMABROKER_SOCKET", harness.socket_path, 1);
	ck_assert_int_eq(run((const char *const[]){ program, "status", NULL }), 0);
}
END_TEST

START_TEST(not_permitted)
{
	static const char *const verbs[] = { "status", "rules", "reload" };
	static const char *const seeing[] = { "status", "rules", "list", "metrics" };
	static const char *const changing[] = { "drain", "kick", "reload" };

	if (!run_as_nobody())
		return;
	set_policy("allow session\nreject admin\n");
	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(ctl(verbs[i]), 1);
		ck_assert_str_eq(got.out, "");
		/* The message names neither the library's call nor the request of the protocol. */
		assert_has(got.err, "rdmabrokerctl: only root and the daemon's own user");
		assert_has(got.err, "try again as root");
	}
	set_policy("reject session reason \"closed on sundays\"\n");
	ck_assert_int_eq(ctl("rules"), 1);
	assert_has(got.err, "closed on sundays");

	/* A rule can make a user an admin. Without --user, explain decides for the user who runs it. */
	set_policy("allow admin user 65534\nallow session\nreject connect user 65534\n");
	ck_assert_int_eq(ctl("rules"), 0);
	ck_assert_int_eq(ctl("drain", "--cancel"), 0);
	ck_assert_int_eq(ctl("explain", "connect"), 3);
	assert_has(got.out, "who: uid 65534, gids 65534\n");

	/* A rule for "any" makes its users neither observers nor admins. */
	set_policy("allow any\n");
	ck_assert_int_eq(ctl("status"), 1);
	assert_has(got.err, "whom a rule allows the operation observe or admin");
	ck_assert_int_eq(ctl("drain", "--cancel"), 1);
	/* An observer needs no rule for sessions, and cannot change anything. */
	set_policy("allow observe user 65534\n");
	for (size_t i = 0; i < sizeof(seeing) / sizeof(seeing[0]); i++)
		ck_assert_int_eq(ctl(seeing[i]), 0);
	ck_assert_int_eq(ctl("explain", "observe"), 0);
	assert_has(got.out, "allow");
	ck_assert_int_eq(ctl("explain", "admin"), 3);
	for (size_t i = 0; i < sizeof(changing) / sizeof(changing[0]); i++) {
		ck_assert_int_eq(ctl(changing[i], i == 0 ? "--cancel" : i == 1 ? "77" : NULL), 1);
		assert_has(
			got.err,
			"only root and the daemon's own user on the socket for administration, and "
			"users whom a rule allows the operation admin, may do this");
	}

	end_nobody();
}
END_TEST

static void listen_thrice(struct rdmabroker *session)
{
	struct rdmabroker_id *id;

	start_listening(session, 7471);
	for (uint16_t i = 0; i < 2; i++) {
		ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
		ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7472 + i)), 0);
		ck_assert_int_lt(rdmabroker_listen(id, 0), 0);
	}
}

static const char counted_rules[] =
	"allow session\n"
	"allow listen port 7471,7472 \\\n  max 1 # one\n"
	"reject listen port 7473 reason \"\xc3\xa4\xc3\xb6\xc3\xbc \\\"quoted\\\" text that is rather "
	"long, so that a terminal has to cut it somewhere\"\n"
	"allow connect\n";

START_TEST(rules)
{
	struct rdmabroker *session = open_session(0);
	char *line, *text;

	set_policy(counted_rules);
	listen_thrice(session);
	ck_assert_int_eq(ctl("rules"), 0);
	ck_assert_str_eq(got.err, "");
	assert_lacks(got.out, "\033");
	line = strtok(got.out, "\n");
	ck_assert_str_eq(line, "RULE          ALLOWED  REJECTED  BUSY  WARNED  NOW  PENDING  TEXT");
	text = strstr(line, "TEXT");
	line = strtok(NULL, "\n");
	ck_assert_int_eq(strncmp(line, "test.rules:1 ", 13), 0);
	line = strtok(NULL, "\n");
	ck_assert_str_eq(line, "test.rules:2        2         0     1       0    1        0  "
			       "allow listen port 7471,7472 max 1");
	line = strtok(NULL, "\n");
	assert_has(line,
		   "test.rules:4        0         1     0       0    0        0  reject listen");
	/* If the output is no terminal, nothing is cut. */
	assert_has(line, "has to cut it somewhere\"");
	line = strtok(NULL, "\n");
	assert_has(line, "allow connect");
	line = strtok(NULL, "\n");
	ck_assert_str_eq(line, "(no rule)           0         0     0       0    0        0  "
			       "(rejected: no rule matches)");
	ck_assert_ptr_null(strtok(NULL, "\n"));
	ck_assert_ptr_nonnull(text);

	ck_assert_int_eq(ctl("rules", "--json"), 0);
	assert_json("len(d[\"rules\"]) == 5 and d[\"rules\"][1] == {\"file\": \"test.rules\", "
		    "\"line\": 2, \"text\": \"allow listen port 7471,7472 max 1\", \"allowed\": 2, "
		    "\"rejected\": 0, \"busy\": 1, \"warned\": 0, \"now\": 1, \"pending\": 0}");
	assert_json("d[\"rules\"][4][\"file\"] is None and d[\"rules\"][4][\"line\"] is None and "
		    "d[\"rules\"][4][\"text\"] == \"\"");
	assert_json("\"\\u00e4\\u00f6\\u00fc \" in d[\"rules\"][2][\"text\"]");
	rdmabroker_close(session);
}
END_TEST

/* Returns the line of the output that contains WORD, without its CR. */
static char *line_with(const char *word)
{
	static char line[4096];
	const char *at = strstr(got.out, word);

	ck_assert_msg(at, "no '%s' in '%s'", word, got.out);
	while (at > got.out && at[-1] != '\n')
		at--;
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\r"), at);
	return line;
}

static size_t columns_of(const char *line)
{
	size_t n = 0;

	for (; *line; line++) {
		if (*line == '\033')
			line = strchr(line, 'm');
		else if ((*line & 0xc0) != 0x80)
			n++;
	}
	return n;
}

START_TEST(rules_on_a_terminal)
{
	struct rdmabroker *session = open_session(0);
	char *line;

	set_policy(counted_rules);
	listen_thrice(session);
	ck_assert_int_eq(ctl_on_terminal(98, "rules"), 0);
	line = line_with("test.rules:4");
	assert_has(line, "  \033[31m       1\033[0m  ");
	assert_has(line, "...");
	ck_assert_uint_eq(columns_of(line), 98);
	line = line_with("test.rules:2");
	assert_has(line, "  \033[33m   1\033[0m  ");
	assert_has(line, "allow listen port 7471,7472 max 1");

	/* A column that does not fit keeps a minimum of its text. */
	ck_assert_int_eq(ctl_on_terminal(20, "rules"), 0);
	assert_has(line_with("test.rules:2"), "allow listen ...");
	/* If a terminal does not report its width, nothing is cut. */
	ck_assert_int_eq(ctl_on_terminal(0, "rules"), 0);
	assert_has(line_with("test.rules:4"), "has to cut it somewhere\"");
	ck_assert_int_eq(ctl_on_terminal(98, "rules", "--full"), 0);
	assert_has(line_with("test.rules:4"), "has to cut it somewhere\"");
	ck_assert_int_eq(ctl_on_terminal(98, "rules", "--json"), 0);
	assert_lacks(got.out, "\033");

	setenv("NO_COLOR", "1", 1);
	ck_assert_int_eq(ctl_on_terminal(98, "rules"), 0);
	assert_lacks(got.out, "\033");
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	ck_assert_int_eq(ctl_on_terminal(98, "rules"), 0);
	assert_lacks(got.out, "\033");
	rdmabroker_close(session);
}
END_TEST

static const char explained_rules[] =
	"set far = { 10.2.0.0/16, fd00::/16 }\n"
	"reject connect user 1000 device mlx* port 1-1023, 7000 log reason \"a, peer\"\n"
	"allow connect group 2000 peer @far tos-max 32 rate-per-user 500/s\n"
	"allow accept data \"RDMA\" dscp af31 pending 64\n"
	"allow listen local 10.2.0.1 ps udp\n"
	"allow listen user 7\n"
	"reject connect reason \"not \\\"here\\\"\"\n"
	"allow session\n";

START_TEST(explain_names_the_deciding_rule)
{
	set_policy(explained_rules);
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--group", "2000", "--peer",
			     "10.2.3.4", "--port", "7471"),
			 0);
	ck_assert_str_eq(got.err, "");
	ck_assert_str_eq(got.out, "allow\n"
				  "      who: uid 1001, gids 2000\n"
				  "     rule: test.rules:3\n"
				  "           allow connect group 2000 peer @far "
				  "tos-max 32 rate-per-user 500/s\n"
				  "     sets: tos-max 32\n"
				  "           reuseaddr no\n"
				  "           rate-per-user 500/s burst 500\n");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--group", "2000", "--peer",
			     "fd00::1", "--json"),
			 0);
	assert_json("d[\"answer\"] == \"allow\" and d[\"reason\"] is None and d[\"uid\"] == 1001 "
		    "and d[\"gids\"] == [2000] and d[\"rule\"][\"line\"] == 3 and "
		    "\"tos-max 32\" in d[\"effects\"] and d[\"depends\"] is None");

	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--group", "2000", "--peer",
			     "10.3.0.1"),
			 3);
	ck_assert_str_eq(got.out, "reject: not \"here\"\n"
				  "      who: uid 1001, gids 2000\n"
				  "     rule: test.rules:7\n"
				  "           reject connect reason \"not \\\"here\\\"\"\n");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--json"), 3);
	assert_json("d[\"answer\"] == \"reject\" and d[\"reason\"] == \"not \\\"here\\\"\" and "
		    "d[\"rule\"][\"file\"] == \"test.rules\" and d[\"effects\"] == []");

	ck_assert_int_eq(ctl("explain", "connect", "--user", "1001", "--peer", "fe80::1%lo"), 3);
	ck_assert_int_eq(ctl("explain", "join"), 3);
	assert_has(got.out, "reject: no-rule\n");
	assert_has(got.out, "     rule: no rule matches\n");
	ck_assert_int_eq(ctl("explain", "join", "--json"), 3);
	assert_json("d[\"reason\"] == \"no-rule\" and d[\"rule\"] is None");

	ck_assert_int_eq(ctl_on_terminal(80, "explain", "session"), 0);
	assert_has(got.out, "\033[32mallow\033[0m");
	ck_assert_int_eq(ctl_on_terminal(80, "explain", "join"), 3);
	assert_has(got.out, "\033[31mreject: no-rule\033[0m");
}
END_TEST

START_TEST(explain_names_the_missing_facts)
{
	set_policy(explained_rules);
	/* Words in a rule's reason or in its list of ports are not taken for keywords of matches. */
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1000", "--group", "2000", "--peer",
			     "10.2.0.9"),
			 3);
	assert_has(got.out, "  depends: test.rules:2\n");
	assert_has(got.out, "may not match; to find out, give --port, --device\n");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1000", "--group", "2000", "--peer",
			     "10.2.0.9", "--device", "mlx5_0", "--json"),
			 3);
	assert_json("d[\"depends\"][\"line\"] == 2 and d[\"depends\"][\"missing\"] == [\"port\"]");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "1000", "--group", "2000", "--peer",
			     "10.2.0.9", "--device", "rxe0"),
			 0);
	assert_lacks(got.out, "depends");

	ck_assert_int_eq(ctl("explain", "accept"), 3);
	assert_has(got.out, "may match first; to find out, give --data\n");
	ck_assert_int_eq(ctl("explain", "accept", "--data", "RDMAx"), 0);
	assert_has(got.out, "     sets: tos 104\n");
	ck_assert_int_eq(ctl("explain", "accept", "--data", "0x52444d41"), 0);
	ck_assert_int_eq(ctl("explain", "accept", "--data", "RDM"), 3);
	assert_lacks(got.out, "depends");

	/* If the local address is a wildcard, the address that a rule would match is not known yet. */
	ck_assert_int_eq(ctl("explain", "listen", "--local", "0.0.0.0"), 3);
	assert_has(got.out, "to find out, give --local, --ps\n");
	ck_assert_int_eq(ctl("explain", "listen", "--local", "::", "--ps", "udp"), 3);
	assert_has(got.out, "to find out, give --local\n");
	ck_assert_int_eq(ctl("explain", "listen", "--local", "10.2.0.1", "--ps", "udp"), 0);
}
END_TEST

START_TEST(explain_names_what_decides_besides_rules)
{
	set_policy(explained_rules);
	ck_assert_int_eq(ctl("explain", "listen", "--user", "7", "--port", "80", "--ps", "tcp"), 3);
	assert_has(got.out, "reject: a port below 1024 needs a rule that names it");
	ck_assert_int_eq(ctl("explain", "listen", "--user", "7", "--port", "1024", "--ps", "tcp"),
			 0);
	assert_lacks(got.out, "note");
	ck_assert_int_eq(ctl("explain", "admin"), 3);
	assert_has(got.out, "     note: root and the daemon's own user");
}
END_TEST

START_TEST(explain_knows_users)
{
	const struct passwd *root = getpwuid(0);

	ck_assert_ptr_nonnull(root);
	set_policy("allow connect user 0\n");
	ck_assert_int_eq(ctl("explain", "connect", "--user", root->pw_name, "--json"), 0);
	assert_json("d[\"uid\"] == 0 and 0 in d[\"gids\"]");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "0", "--json"), 0);
	assert_json("d[\"uid\"] == 0 and 0 in d[\"gids\"]");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "0", "--group", "+77,78", "--json"),
			 0);
	assert_json("0 in d[\"gids\"] and 77 in d[\"gids\"] and 78 in d[\"gids\"]");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "0", "--group", "77,78", "--json"), 0);
	assert_json("d[\"gids\"] == [77, 78]");
	/* A user need not have an entry in the user database. */
	ck_assert_int_eq(ctl("explain", "connect", "--user", "3999999999", "--json"), 3);
	assert_json("d[\"uid\"] == 3999999999 and d[\"gids\"] == []");
	ck_assert_int_eq(ctl("explain", "connect", "--user", "3999999999"), 3);
	assert_has(got.out, "who: uid 3999999999, no groups\n");
	/* Without --user, explain decides for the user who runs it. */
	ck_assert_int_eq(ctl("explain", "connect", "--json") == 0, geteuid() == 0);
	assert_json("len(d[\"gids\"]) >= 1");

	ck_assert_int_eq(ctl("explain", "connect", "--user", "nobody-at-all"), 1);
	assert_has(got.err, "unknown user \"nobody-at-all\"\n");
	ck_assert_int_eq(ctl("explain", "connect", "--group", "nothing-at-all"), 1);
	assert_has(got.err, "unknown group \"nothing-at-all\"\n");
	ck_assert_int_eq(ctl("explain", "connect", "--group", ""), 1);
	ck_assert_int_eq(ctl("explain", "connect", "--user", "4294967295"), 2);
	ck_assert_int_eq(ctl("explain", "connect", "--group", "99999999999999999999"), 2);
	ck_assert_str_eq(got.out, "");
}
END_TEST

START_TEST(explain_refuses_bad_arguments)
{
	static const struct {
		const char *operation, *option, *value, *complaint;
	} cases[] = {
		{ "conect", "--port", "1",
		  "unknown operation \"conect\", did you mean \"connect\"?" },
		{ "any", "--port", "1", "unknown operation \"any\": it must be one of session" },
		{ "connect", "--peer", "10.1",
		  "invalid address \"10.1\": it must be IPv4 or IPv6" },
		{ "connect", "--peer", "localhost",
		  "invalid address \"localhost\": it must be IPv4 or IPv6" },
		{ "connect", "--local", "", "invalid address \"\": it must be IPv4 or IPv6" },
		{ "connect", "--port", "0", "invalid port 0: it stands for any free port" },
		{ "connect", "--port", "65536", "invalid port \"65536\"" },
		{ "connect", "--port", "-1", "invalid port \"-1\"" },
		{ "connect", "--ps", "tpc", "unknown port space \"tpc\", did you mean \"tcp\"?" },
		{ "connect", "--data", "0x1",
		  "0x must be followed by pairs of hexadecimal digits" },
		{ "connect", "--data", "0x1g",
		  "0x must be followed by pairs of hexadecimal digits" },
		{ "connect", "--prot", "1", "unknown option \"--prot\", did you mean \"--port\"?" },
	};
	char data[200] = "";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_int_eq(
			ctl("explain", cases[i].operation, cases[i].option, cases[i].value), 2);
		ck_assert_str_eq(got.out, "");
		assert_has(got.err, cases[i].complaint);
	}
	memset(data, 'x', 181);
	ck_assert_int_eq(ctl("explain", "connect", "--data", data), 2);
	assert_has(got.err, "the private data is too long: at most 180 bytes are allowed");
	data[180] = '\0';
	ck_assert_int_eq(ctl("explain", "connect", "--data", data), 0);
}
END_TEST

START_TEST(reload)
{
	write_file(harness.rules_path, "allow any\nreject any\n");
	ck_assert_int_eq(ctl("reload"), 0);
	ck_assert_str_eq(got.out, "2 rules in force\n");
	ck_assert_int_eq(ctl("reload", "--json"), 0);
	assert_json("d == {\"ok\": True, \"rules\": 2, \"complaints\": []}");

	write_file(harness.rules_path, "allow any\nreject eny\nallow\n");
	ck_assert_int_eq(ctl("reload"), 1);
	ck_assert_str_eq(got.out, "");
	assert_has(got.err, "test.rules:2:8: unknown operation 'eny'");
	assert_has(got.err, "test.rules:3:");
	assert_has(got.err, "nothing was reloaded; the previous 2 rules stay in force");
	ck_assert_int_eq(ctl("reload", "--json"), 1);
	assert_json("not d[\"ok\"] and d[\"rules\"] == 2 and len(d[\"complaints\"]) == 2 and "
		    "\"test.rules:2:8: \" in d[\"complaints\"][0]");
	ck_assert_int_eq(ctl("rules"), 0);
	assert_has(got.out, "reject any");
}
END_TEST

START_TEST(refusals)
{
	struct rdmabroker *session = open_session(0);

	set_policy(counted_rules);
	listen_thrice(session);
	ck_assert_int_eq(ctl("refusals"), 0);
	assert_has(got.out, "COUNT  LAST ");
	assert_has(got.out, "  busy      listen     ");
	assert_has(got.out, "  rejected  listen     ");
	assert_has(got.out, "  test.rules:4\n");
	assert_has(got.out, "  check_ctl  7472  10.9.0.1  ");
	ck_assert_int_eq(ctl("refusals", "--json"), 0);
	assert_json("len(d[\"refusals\"]) == 2 and d[\"refusals\"][0][\"count\"] == 1 and "
		    "{r[\"outcome\"] for r in d[\"refusals\"]} == {\"busy\", \"rejected\"} and "
		    "all(r[\"local\"] == \"10.9.0.1\" and r[\"peer\"] is None and "
		    "r[\"ps\"] == \"tcp\" for r in d[\"refusals\"])");
	ck_assert_int_eq(ctl("refusals", "--warned"), 0);
	assert_lacks(got.out, "listen");
	ck_assert_int_eq(ctl("refusals", "--user", "daemon"), 0);
	assert_lacks(got.out, "listen");
	ck_assert_int_eq(ctl("refusals", "--user", "no-such-user"), 1);
	rdmabroker_close(session);
}
END_TEST

/* Of a reject rule, and of a limit, nothing is suggested unless that is asked for. */
START_TEST(suggest)
{
	struct rdmabroker *session = open_session(0);

	set_policy(counted_rules);
	listen_thrice(session);
	ck_assert_int_eq(ctl("suggest"), 0);
	ck_assert_str_eq(got.out,
			 "# Nothing was refused because no rule matched, or allowed by a warn "
			 "rule.\n");
	ck_assert_int_eq(ctl("suggest", "--rejected"), 0);
	assert_has(got.out, "\n# 1 time since 20");
	assert_has(got.out, ", by check_ctl\nallow listen user ");
	assert_has(got.out, " port 7473\n");
	ck_assert_int_eq(ctl("suggest", "--rejected", "--tests"), 0);
	assert_has(got.out, "allow listen uid ");
	ck_assert_int_eq(ctl("suggest", "--rejected", "--json"), 0);
	assert_json("d[\"rules\"].endswith(\" port 7473\\n\")");
	ck_assert_int_eq(ctl("suggest", "--peer-prefix", "24,129"), 2);
	assert_has(got.err, "invalid --peer-prefix \"24,129\": \"129\" must be a number from 0 to "
			    "128");
	ck_assert_int_eq(ctl("suggest", "--peer-prefix", ""), 2);
	ck_assert_int_eq(ctl("suggest", "--kernel", "--rejected"), 2);
	assert_has(got.err, "--kernel and --rejected exclude each other");
	rdmabroker_close(session);
}
END_TEST

START_TEST(reload_dry_run)
{
	struct rdmabroker *session = open_session(0);

	set_policy("allow any\n");
	start_listening(session, 7471);
	write_file(harness.rules_path, "allow any\nreject any\n");
	ck_assert_int_eq(ctl("reload", "--dry-run"), 0);
	ck_assert_str_eq(got.out, "2 rules would be in force\n"
				  "they allow all sessions and ids that there are now\n");
	write_file(harness.rules_path, "allow session\nreject listen reason \"not here\"\n");
	ck_assert_int_eq(ctl("reload", "--dry-run"), 0);
	assert_has(got.out, "NOT ALLOWED\n");
	assert_has(got.out, "listen on 10.9.0.1:7471");
	assert_has(got.out, "not here");
	ck_assert_int_eq(ctl("reload", "--dry-run", "--json"), 0);
	assert_json("d[\"ok\"] and d[\"rules\"] == 2 and len(d[\"denied\"]) == 1 and "
		    "d[\"denied\"][0][\"id\"] == 1 and "
		    "d[\"denied\"][0][\"state\"] == \"listening\" and "
		    "\"not here\" in d[\"denied\"][0][\"denied\"]");
	write_file(harness.rules_path, "allow eny\n");
	ck_assert_int_eq(ctl("reload", "--dry-run"), 1);
	assert_has(got.err, "unknown operation 'eny'");
	/* Nothing has changed. */
	ck_assert_int_eq(ctl("rules"), 0);
	assert_has(got.out, "allow any");
	assert_lacks(got.out, "reject listen");
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out, "policy: 1 rule\n");
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("ctl", set_up_ctl, tear_down, a_wrong_command_line_is_explained, help, version,
	  a_failed_write_is_reported, restricted_program, restrict_refuses_bad_arguments, instances,
	  status, status_without_a_policy, status_without_rdma, status_with_missing_names,
	  no_daemon_is_running, not_permitted, rules, rules_on_a_terminal,
	  explain_names_the_deciding_rule, explain_names_the_missing_facts,
	  explain_names_what_decides_besides_rules, explain_knows_users,
	  explain_refuses_bad_arguments, reload, reload_dry_run, refusals, suggest)

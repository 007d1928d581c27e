/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/program.h"
#include "util/diag.h"

/* The real rdmabrokerctl, against the server over a real socket. */

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
	ck_assert_int_eq(ctl("refuse"), 2);
	assert_usage("unknown verb \"refuse\", did you mean \"refusals\"?");
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
		"[v[\"name\"] for v in d[\"verbs\"]] == [\"cdi\", \"check\", \"drain\", \"dropin\", \"events\", \"explain\", \"help\", "
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
	fake_set_port_mapper_missing(true);
	ck_assert_int_eq(ctl("status"), 0);
	assert_has(got.out,
		   "warning: iwpmd.service does not run, but fake0 is a device of iWARP: ");
	fake_set_port_mapper_missing(false);
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

UNIT_MAIN("ctl", set_up_ctl, tear_down, a_wrong_command_line_is_explained, help, version,
	  a_failed_write_is_reported, restricted_program, restrict_refuses_bad_arguments, instances,
	  status, status_without_a_policy, status_without_rdma, status_with_missing_names,
	  no_daemon_is_running, not_permitted)

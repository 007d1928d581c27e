/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "fleet/report.h"
#include "tests/unit/fleetctl.h"

/* `rdmabrokerctl fleet` with a real etcd. Most hosts are states that the test writes as agents do. */

START_TEST(versions_and_the_rollout)
{
	char text[512];

	if (!begin())
		return;
	must_ctl("status");
	assert_has(out, "etcd: 1 of 1 endpoints answer");
	assert_has(out, "hosts: 0\n");
	/* Completion adds a slash. */
	snprintf(text, sizeof(text), "%s/", version("v1", "allow listen user 5\n"));
	must_ctl("push", text);
	assert_has(out, "version v1 is in etcd");
	must_ctl("push", version("v1", "allow listen user 5\n"));
	assert_has(out, "version v1 is in etcd already, with the same contents");
	must_ctl("push", version("v2", "allow listen user 6\n"), "--label", "canary");
	ck_assert_str_eq(out, "version v2 is rolled out to label canary\n");
	must_ctl("push", version("x", "allow listen user 7\n"), "--name", "v3");
	must_ctl("list", "versions");
	squeeze(out);
	assert_has(out, "VERSION HOSTS LABELS PUSHED BYTES BY\nv1 0 - 2");
	assert_has(out, "\nv2 0 canary 2");
	assert_has(out, ":");
	assert_has(out, " 20 ");
	assert_has(out, "@");
	must_ctl("use", "v1");
	must_ctl("use", "v1");
	ck_assert_str_eq(out, "version v1 is already rolled out to label all\n");
	must_ctl("use", "v2");
	ck_assert_str_eq(out, "version v2 is rolled out to label all, before it was v1\n");
	ck_assert_int_eq(ctl("diff", "v1", "v2"), 1);
	assert_has(out, "-allow listen user 5\n+allow listen user 6\n");
	ck_assert_int_eq(ctl("diff", version("v1", "allow listen user 8\n")), 1);
	assert_has(out, "-allow listen user 6\n+allow listen user 8\n");
	must_ctl("diff", "v1", "v1");
	ck_assert_str_eq(out, "");
	must_ctl("use", "v3");
	must_ctl("rollback");
	ck_assert_str_eq(out, "version v2 is rolled out to label all, before it was v3\n");
	must_ctl("rollback");
	ck_assert_str_eq(out, "version v1 is rolled out to label all, before it was v2\n");
	ck_assert_int_eq(ctl("rollback"), 1);
	assert_has(err, "no version before v1 is known for label all");
	/* Another program rolls out, too. */
	roll_out("all", "v3");
	must_ctl("use", "v2");
	must_ctl("rollback");
	ck_assert_str_eq(out, "version v3 is rolled out to label all, before it was v2\n");
	must_ctl("status");
	assert_has(out, "\nall     v3 ");
	assert_has(out, "\ncanary  v2 ");
	assert_has(out, "@");
	ck_assert_int_eq(ctl("remove", "v2"), 1);
	assert_has(err, "version v2 is rolled out to label canary");
	must_ctl("clear", "--label", "canary");
	must_ctl("remove", "v2");
	ck_assert_int_eq(ctl("remove", "v2"), 1);
	ck_assert_int_eq(ctl("use", "v2"), 1);
	assert_has(err, "etcd has no version v2");
	must_ctl("check", "v3");
}
END_TEST

START_TEST(what_is_refused)
{
	static const struct {
		const char *arguments[6];
		int status;
		const char *text;
	} cases[] = {
		{ { "nothing" }, 2, "unknown action \"nothing\"" },
		{ { "status", "x" }, 2, "usage: rdmabrokerctl fleet status" },
		{ { "push" }, 2, "usage: rdmabrokerctl fleet push DIR" },
		{ { "push", "/no/such/dir" }, 1, "cannot open /no/such/dir" },
		{ { "push", "/no/such/a b" }, 2, "invalid name of a version \"a b\"" },
		{ { "list", "x" }, 2, "unknown list \"x\"" },
		{ { "list", "--watch" }, 2, "--watch needs a terminal" },
		{ { "use", "../x" }, 2, "invalid name of a version \"../x\"" },
		{ { "use", "v1", "--wait", "0" }, 2, "--wait must be" },
		{ { "use", "v1", "--wait", "1h" }, 2, "--wait must be" },
		{ { "use", "v1", "--label", "a/b" }, 2, "invalid label \"a/b\"" },
		{ { "clear" }, 2, "clear needs --label" },
		{ { "clear", "--label", "x" }, 1, "no version is rolled out to label x" },
		{ { "rollback" }, 1, "no version is rolled out to label all" },
		{ { "diff", "v1" }, 2, "no version is rolled out to label all" },
		{ { "check", "v1" }, 1, "etcd has no version v1" },
		{ { "remove", "v1" }, 1, "etcd has no version v1" },
		{ { "forget", "x" }, 1, "no host x is known" },
	};

	if (!begin())
		return;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_msg(run_ctl(cases[i].arguments) == cases[i].status, "%s: %s",
			      cases[i].text, err);
		assert_has(err, cases[i].text);
		assert_has(err, "rdmabrokerctl: ");
	}
	/* A version that is not valid, or whose tests fail, does not come into etcd. */
	ck_assert_int_eq(ctl("push", version("bad", "allow lisen\n"), "--label", "all"), 1);
	assert_has(err, "10-site.rules:1:7: unknown operation 'lisen'");
	assert_has(err, "version bad is not valid, nothing has changed");
	version("test", "allow listen user 5\n");
	write_text(path("test/1.tests"), "allow listen uid 6\n");
	ck_assert_int_eq(ctl("push", path("test")), 1);
	assert_has(err, "1.tests:1:1: the test fails");
	must_ctl("list", "versions");
	ck_assert_str_eq(out, "VERSION  HOSTS  LABELS  PUSHED  BYTES  BY\n");
	/* One that is there does not change. A push that did not end can be repeated, or removed. */
	must_ctl("push", version("v1", "allow listen user 5\n"));
	ck_assert_int_eq(ctl("push", version("v1", "allow listen user 6\n")), 1);
	assert_has(err, "/rdmabroker/versions/v1/10-site.rules already, with other contents");
	must(etcd, etcd_delete(etcd, "/rdmabroker/versions/v1", false, NULL));
	must_ctl("push", version("v1", "allow listen user 5\n"));
	/* What etcd has is verified. */
	put_manifest("esc", put_file("esc", "1.rules", "# \033[2J\n"));
	ck_assert_int_eq(ctl("diff", "esc", "v1"), 2);
	assert_has(err, "esc: 1.rules has control characters");
	put_text(etcd, "/rdmabroker/versions/v1/10-site.rules", "allow listen user 9\n");
	ck_assert_int_eq(ctl("check", "v1"), 1);
	assert_has(err, "10-site.rules does not have the sha256 of the manifest");
	write_text(path("fleet.conf"), "[Fleet]\n");
	ck_assert_int_eq(ctl("status"), 1);
	assert_has(err, "fleet.conf: Endpoints= has to be set");
	/* The agent's package is not there. */
	fleetctl = "/no/such/program";
	ck_assert_int_eq(ctl("status"), 1);
	assert_has(err, "install the package rdmabroker-fleet");
}
END_TEST

/* More hosts than are read at a time, with all that there is to say about them. */
START_TEST(many_hosts)
{
	json_t *one, *json;
	char name[32];

	if (!begin())
		return;
	roll_out("all", "v7");
	roll_out("canary", "v8");
	for (unsigned i = 0; i < 450; i++) {
		snprintf(name, sizeof(name), "n%03u", i);
		put_state(name, new_state(name, i < 2 ? "canary" : "x", i < 2 ? "v8" : "v7"));
	}
	one = new_state("a-stale", "x", "v7");
	json_object_set_new(one, "time", json_integer((json_int_t)time(NULL) - 361));
	put_state("a-stale", one);
	one = new_state("b-refused", "canary", "v7");
	json_object_set_new(one, "install",
			    json_pack("{s:s, s:b, s:s}", "version", "v8", "installed", 0, "text",
				      "1.rules:2:7: a\033[31m\xc2\x9b wrong word\nmore\n"));
	put_state("b-refused", one);
	one = new_state("c-failed", "canary", "v7");
	json_object_set_new(one, "wanted", json_string("v8"));
	json_object_set_new(one, "error", json_string("there is no manifest"));
	put_state("c-failed", one);
	one = new_state("d-broker", "x", "v7");
	json_object_set_new(one, "daemon", json_pack("{s:b, s:s}", "answers", 0, "error", "hangs"));
	put_state("d-broker", one);
	one = new_state("e-policy", "x", "v7");
	json_object_set_new(json_object_get(one, "daemon"), "policy_error", json_string("bad"));
	put_state("e-policy", one);
	put_state("f-waiting", new_state("f-waiting", "x", "v6"));
	put_key("hosts", "g-invalid", "[1]");
	put_key("hosts", "h-invalid", "{\"daemon\": 1}");
	put_key("known", "i-away", "{\"labels\":[\"canary\"],\"in_force\":\"v6\"}");
	put_key("known", "n000", "{\"labels\":[\"canary\"],\"in_force\":\"v8\"}");
	one = new_state("j", "x", "v7");
	json_object_set_new(one, "refusals",
			    json_pack("[{s:s, s:i, s:i, s:i}, {s:n, s:i, s:i}]", "rule",
				      "1.rules:3", "rejected", 7, "busy", 1, "warned", 9, "rule",
				      "rejected", 2, "busy", 0));
	json_object_set_new(json_object_get(one, "daemon"), "warn_rules", json_integer(1));
	json_object_set_new(one, "listeners",
			    json_pack("[{s:s, s:i, s:s, s:i}]", "user", "alice", "uid", 1000,
				      "address", "10.0.0.1", "port", 7471));
	json_object_set_new(one, "listeners_left_out", json_integer(3));
	put_state("j", one);
	must_ctl("status");
	assert_has(out, "hosts: 460: 451 ok, 1 waiting, 1 policy, 1 no-broker, 1 failed, "
			"1 refused, 1 stale, 2 invalid, 1 away\n");
	assert_has(out, "\nall     v7         455  449        1        5     0  -");
	assert_has(out, "\ncanary  v8           5    2        0        2     1  -");
	ck_assert(!strchr(out, '\033') && !strstr(out, "\xc2\x9b") && !strstr(out, "more"));
	squeeze(out);
	assert_has(out, "\na-stale stale v7 6m");
	assert_has(out, "\nb-refused refused v7 ");
	assert_has(out, "s 1.rules:2:7: a?[31m?? wrong word\nc-failed failed v7 ");
	assert_has(out, "s there is no manifest\n");
	assert_has(out, "\ni-away away v6 - -\n");
	assert_has(out, "\n 7 1 9 1 1.rules:3\n");
	assert_has(out, "\nwarn rules: on 1 hosts; admitted with a warning: 9\n");
	must_ctl("status", "--json");
	json = json_loads(out, 0, NULL);
	ck_assert_int_eq(
		json_integer_value(json_object_get(json_object_get(json, "warnings"), "warned")),
		9);
	json_decref(json);
	/* Only j is known to have a version that reports how many warn rules there are. */
	must_ctl("push", version("w", "  warn any\n"));
	assert_has(err, "refuses; 459 hosts are not known to have a later one");
	must_ctl("list", "--label", "canary");
	ck_assert_uint_eq(count(out, "\n"), 6);
	must_ctl("list", "listeners");
	assert_has(out, "\nj     alice  1000  10.0.0.1  7471\n");
	assert_has(out, "(and 3 that did not fit into the states of their hosts)\n");
	must_ctl("list", "refusals", "--json");
	json = json_loads(out, 0, NULL);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "refusals")), 2);
	json_decref(json);
	must_ctl("list", "--json");
	json = json_loads(out, 0, NULL);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "hosts")), 460);
	json_decref(json);
	must_ctl("status", "--json");
	json = json_loads(out, 0, NULL);
	ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(json, "states"), "ok")),
			 451);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "problems")), 8);
	json_decref(json);
	must_ctl("forget", "i-away");
	ck_assert_int_eq(ctl("forget", "n000"), 1);
	assert_has(err, "host n000 is there");
}
END_TEST

/* The real agent, and root's part. */
START_TEST(a_rollout_to_its_end)
{
	int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	pid_t pid;

	if (!begin())
		return;
	configure(etcd_service.endpoint, "Labels=canary rack7\n");
	start_broker();
	start_agent();
	await_state("daemon.answers", "true");
	pid = start_ctl((const char *const[]){ "push", version("v1", "allow listen user 5\n"),
					       "--label", "rack7", "--wait", "180", NULL },
			sink, sink);
	await_state("staged", "v1");
	ck_assert_int_eq(install(), 0);
	ck_assert_int_eq(end_of(pid), 0);
	must_ctl("list");
	assert_has(out, "node7  rack7  ok     v1       v1 ");
	/* A version that this host refuses: the one who rolls it out is told. */
	write_text(path("policy.d/90-last.rules"), "allow listen user 1 limit set missing\n");
	must_ctl("list");
	put_manifest("v2", put_file("v2", "10-site.rules", "allow lisen\n"));
	pid = start_ctl((const char *const[]){ "use", "v2", "--label", "canary", "--wait", "180",
					       NULL },
			sink, open(path("told"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	await_state("staged", "v2");
	ck_assert_int_eq(install(), 1);
	ck_assert_int_eq(end_of(pid), 4);
	assert_has(read_text(path("told")), "rdmabrokerctl: node7: refused: ./10-site.rules:1:7: ");
	must_ctl("status");
	assert_has(out, "node7  refused  v1 ");
	/* Not even etcd knows more than that the host exists. */
	stop_agent();
	await_no_state();
	must_ctl("list");
	assert_has(out, "node7  canary  away   v1       v2 ");
	ck_assert_int_eq(ctl("use", "v1", "--wait", "1"), 6);
	assert_has(out, "version v1 is in force on 0 of 0 hosts");
	must_ctl("forget", "node7");
	must_ctl("status");
	assert_has(out, "hosts: 0\n");
	stop_broker();
	close(sink);
}
END_TEST

/* Numbers, texts and sizes that no agent writes. */
START_TEST(hostile_states)
{
	char *huge = malloc(1500001);
	json_t *one;
	char name[32];

	if (!begin())
		return;
	roll_out("all", "v7");
	memset(huge, 'x', 1500000);
	huge[1500000] = 0;
	/* Together they are larger than what is read at a time, and etcd takes no larger ones. */
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "huge%u", i);
		put_key("hosts", name, huge);
	}
	free(huge);
	one = new_state("a", "x", "v7");
	json_object_set_new(one, "time", json_integer(INT64_MIN));
	json_object_set_new(one, "period", json_integer(INT64_MAX));
	put_state("a", one);
	one = new_state("b", "x", "v7");
	json_object_set_new(json_object_get(one, "daemon"), "connections", json_integer(-7));
	json_object_set_new(one, "refusals",
			    json_pack("[{s:s, s:I}, {s:s, s:I}]", "rule", "r:1", "rejected",
				      INT64_MAX, "rule", "r:1", "rejected", INT64_MAX));
	put_state("b", one);
	one = new_state("c", "x", "v7");
	json_object_set_new(json_object_get(one, "daemon"), "policy_error",
			    json_string("\xc2\x9b"
					"2J"));
	put_state("c", one);
	must_ctl("status");
	assert_has(out, "hosts: 43: ");
	assert_has(out, " 40 invalid");
	must(etcd, etcd_delete(etcd, "/rdmabroker/hosts/huge", true, NULL));
	assert_has(out, "connections: 10\n");
	must_ctl("list", "--json");
	ck_assert(!strstr(out, "\xc2\x9b") && strstr(out, "\\u009B2J"));
	must_ctl("status", "--json");
	ck_assert(!strstr(out, "\xc2\x9b"));
}
END_TEST

/* Who waits for a version is told that somebody else has rolled out another one. */
START_TEST(another_rollout_meanwhile)
{
	int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const struct etcd_interval interval = { "/rdmabroker/rollout/", true };
	struct etcd_watch *watch;
	struct etcd_event event;
	pid_t pid;

	if (!begin())
		return;
	publish("v1", "allow listen user 1\n");
	put_state("n1", new_state("n1", "x", "v0"));
	must(etcd, etcd_watch_new(&watch, etcd, &interval, 1, put_text(etcd, "/x", "") + 1));
	pid = start_ctl((const char *const[]){ "use", "v1", "--wait", "180", NULL }, sink,
			open(path("told"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	ck_assert_int_eq(etcd_watch_next(watch, PATIENCE_MS, NULL, 0, &event), ETCD_EVENT);
	etcd_event_done(&event);
	etcd_watch_free(watch);
	put_state("n1", new_state("n1", "x", "v2"));
	roll_out("all", "v2");
	ck_assert_int_eq(end_of(pid), 8);
	assert_has(read_text(path("told")), "somebody else has rolled out another version");
	close(sink);
}
END_TEST

/* Reads what the screen shows next until it has PART: out ends with it. What follows is kept for the next call. */
static void await_screen(int master, const char *part)
{
	static char rest[sizeof(out)];
	char *end;
	size_t len;
	ssize_t n;

	strcpy(out, rest);
	for (len = strlen(out); !(end = strstr(out, part)); out[len] = 0) {
		AWAIT_INPUT(master, "'%s' in '%s'", part, out);
		n = read(master, out + len, sizeof(out) - 1 - len);
		ck_assert_int_gt(n, 0);
		len += (size_t)n;
	}
	end += strlen(part);
	strcpy(rest, end);
	*end = 0;
}

/* A screen shows what changes, and how old it is when etcd is away. */
START_TEST(a_screen)
{
	struct winsize size = { .ws_row = 40, .ws_col = 200 };
	int master, slave;
	pid_t pid;

	if (!begin())
		return;
	put_state("n1", new_state("n1", "x", "v7"));
	ck_assert_int_eq(openpty(&master, &slave, NULL, NULL, &size), 0);
	pid = start_ctl((const char *const[]){ "status", "--watch", NULL }, slave, slave);
	close(slave);
	await_screen(master, "hosts: 1: 1 ok");
	roll_out("all", "v8");
	await_screen(master, "hosts: 1: 1 waiting");
	put_state("n2", new_state("n2", "x", "v8"));
	await_screen(master, "hosts: 2: 1 ok, 1 waiting");
	put_key("known", "n1", "{\"labels\":[\"x\"]}");
	must(etcd, etcd_delete(etcd, "/rdmabroker/hosts/n1", false, NULL));
	await_screen(master, "hosts: 2: 1 ok, 1 away");
	kill_etcd();
	await_screen(master, "what follows is ");
	await_screen(master, "hosts: 2: 1 ok, 1 away");
	start_etcd();
	roll_out("all", "v9");
	await_screen(master, "hosts: 2: 1 waiting, 1 away");
	kill(pid, SIGTERM);
	ck_assert_int_eq(end_of(pid), 0);
	close(master);
}
END_TEST

/* 80 columns and 24 lines: what is left out is neither why nor the number of what is left out. */
START_TEST(a_small_screen)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	int master, slave;
	char name[32];
	json_t *one;
	pid_t pid;

	if (!begin())
		return;
	publish("v8", "allow listen user 1\n");
	roll_out("all", "v8");
	for (unsigned i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "node%02u", i);
		one = new_state(name, "x", "v7");
		json_object_set_new(one, "daemon",
				    json_pack("{s:b, s:s}", "answers", 0, "error",
					      "the daemon hangs, so nobody knows"));
		json_object_set_new(one, "refusals",
				    json_pack("[{s:s, s:i}]", "rule", "r:1", "rejected", 1));
		put_state(name, one);
	}
	ck_assert_int_eq(openpty(&master, &slave, NULL, NULL, &size), 0);
	pid = start_ctl((const char *const[]){ "status", "--watch", NULL }, slave, slave);
	await_screen(master, "r:1"); /* is the last of the screen */
	assert_has(out, "the daemon hangs, so nobody knows");
	/* 22 lines: six before the hosts, two headings, a rule, and the number; so there are twelve hosts. */
	ck_assert_uint_eq(count(out, "the daemon hangs"), 12);
	assert_has(out, "node11 ");
	ck_assert_ptr_null(strstr(out, "node12 "));
	assert_has(out, "(and 18 more hosts, see \"rdmabrokerctl fleet list\")");
	kill(pid, SIGTERM);
	ck_assert_int_eq(end_of(pid), 0);
	pid = start_ctl((const char *const[]){ "list", NULL }, slave, slave);
	await_screen(master, "node29");
	ck_assert_int_eq(end_of(pid), 0);
	ck_assert_ptr_null(strstr(out, "CONNECTIONS"));
	assert_has(out, "HOST    LABEL  STATE      VERSION  WANTED  LABELS  ");
	assert_has(out, "the daemon hangs, so nobody knows");
	close(slave);
	close(master);
}
END_TEST

START_TEST(numbers_alone_wait)
{
	json_t *a = new_state("n1", "x", "v7"), *b = new_state("n1", "x", "v7");
	json_t *daemon = json_object_get(b, "daemon");

	ck_assert(report_is_alike(a, b));
	json_object_set_new(daemon, "sessions", json_integer(9));
	json_object_set_new(daemon, "connections", json_integer(9));
	ck_assert(report_is_alike(a, b));
	json_object_set_new(b, "refusals", json_pack("[{s:s, s:i}]", "rule", "a:1", "busy", 1));
	ck_assert(!report_is_alike(a, b));
	json_object_set_new(a, "refusals", json_pack("[{s:s, s:i}]", "rule", "a:1", "busy", 2));
	ck_assert(report_is_alike(a, b));
	json_object_set_new(daemon, "policy_error", json_string("x"));
	ck_assert(!report_is_alike(a, b));
	json_object_set_new(daemon, "policy_error", json_null());
	ck_assert(report_is_alike(a, b));
	json_object_set_new(b, "in_force", json_string("v8"));
	ck_assert(!report_is_alike(a, b));
	json_decref(a);
	json_decref(b);
}
END_TEST

UNIT_MAIN("fleet_ctl", set_up_fleet, tear_down_fleet, versions_and_the_rollout, what_is_refused,
	  many_hosts, a_rollout_to_its_end, hostile_states, another_rollout_meanwhile, a_screen,
	  numbers_alone_wait, a_small_screen)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fleetctl.h"

/* What the one who rolls a version out is told, with hosts whose states the test writes. */

/* Puts a host whose agent tries again. */
static void put_trying(const char *host, const char *label, const char *in_force,
		       const char *wanted)
{
	json_t *one = new_state(host, label, in_force);

	json_object_set_new(one, "wanted", json_string(wanted));
	json_object_set_new(one, "converge",
			    json_pack("{s:s, s:s, s:I, s:i, s:I}", "state", "trying", "why",
				      "cannot lock x", "since", (json_int_t)time(NULL), "attempts",
				      3, "next", (json_int_t)time(NULL) + 9));
	put_state(host, one);
}

START_TEST(hosts_that_wait_are_named)
{
	char name[16];

	if (!begin())
		return;
	publish("v1", "allow listen user 1\n");
	for (int i = 1; i <= 5; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		put_state(name, new_state(name, "x", "v1"));
	}
	put_state("slow", new_state("slow", "x", "v0"));
	ck_assert_int_eq(ctl("use", "v1", "--wait", "1"), 5);
	assert_has(err, "after 1 s, 1 of 6 hosts does not have version v1: slow\n");
	assert_has(out, "version v1 is in force on 5 of 6 hosts\n");
	/* With what keeps it from them, and those that are away. */
	put_trying("slow", "x", "v0", "v1");
	put_key("known", "gone", "{\"labels\":[\"x\"],\"in_force\":\"v0\"}");
	for (int i = 10; i < 20; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		put_state(name, new_state(name, "x", "v0"));
	}
	ck_assert_int_eq(ctl("use", "v1", "--wait", "1"), 5);
	assert_has(err, "after 1 s, 11 of 17 hosts do not have version v1: m10, m11, m12, m13, "
			"m14, m15, m16, m17 and 3 more\n");
	assert_has(err, "slow: trying: cannot lock x (3 attempts since 2");
	assert_has(out, "version v1 is in force on 5 of 17 hosts; away: 1 (gone)\n");
	must_ctl("status");
	squeeze(out);
	assert_has(out, "\nHOST STATE VERSION AGE WHY\ngone away v0 - -\nslow trying v0 ");
	assert_has(out, "\nm10 waiting v0 ");
	must_ctl("status", "--json");
	assert_has(out, "\"waiting\": [{\"host\": \"m10\"");
}
END_TEST

/* Each host shows all its labels, and a label that no host has is said. */
START_TEST(labels)
{
	json_t *one;

	if (!begin())
		return;
	publish("v1", "allow listen user 1\n");
	one = new_state("n1", "gpu", "v1");
	json_array_append_new(json_object_get(one, "labels"), json_string("rack7"));
	put_state("n1", one);
	put_key("known", "n2", "{\"labels\":[\"storage\"],\"in_force\":\"v0\"}");
	must_ctl("use", "v1");
	ck_assert_str_eq(err, "");
	must_ctl("list");
	squeeze(out);
	assert_has(out, "HOST LABEL STATE VERSION WANTED LABELS ");
	assert_has(out, "\nn1 all ok v1 v1 gpu,rack7 ");
	assert_has(out, "\nn2 all away v0 v1 storage ");
	must_ctl("use", "v1", "--label", "gpuu");
	ck_assert_str_eq(err,
			 "rdmabrokerctl: warning: no host has label gpuu; did you mean gpu?\n");
	must_ctl("push", version("v1", "allow listen user 1\n"), "--label", "quite-different");
	ck_assert_str_eq(err, "rdmabrokerctl: warning: no host has label quite-different\n");
	must_ctl("use", "v1", "--label", "rack7");
	ck_assert_str_eq(err, "");
	must_ctl("use", "v1", "--label", "storage");
	ck_assert_str_eq(err, "");
	must_ctl("list", "--json");
	assert_has(out, "\"labels\": [\"gpu\",\"rack7\"]");
}
END_TEST

START_TEST(history)
{
	if (!begin())
		return;
	publish("v1", "allow listen user 1\n");
	publish("v2", "allow listen user 2\n");
	publish("v3", "allow listen user 3\n");
	must_ctl("history");
	ck_assert_str_eq(out, "LABEL  TIME  WHAT  VERSION  BEFORE  BY\n");
	setenv("SUDO_USER", "alice", 1);
	must_ctl("use", "v1");
	unsetenv("SUDO_USER");
	must_ctl("use", "v2");
	must_ctl("rollback");
	must_ctl("use", "v3");
	must_ctl("use", "v2", "--label", "canary");
	must_ctl("clear", "--label", "canary");
	must_ctl("history", "all");
	squeeze(out);
	assert_has(out, "LABEL TIME WHAT VERSION BEFORE BY\nall 2");
	assert_has(out, " use v1 - alice@");
	if (geteuid() == 0)
		assert_has(out, " (as root)\n");
	assert_has(out, " use v2 v1 ");
	assert_has(out, " rollback v1 v2 ");
	assert_has(out, " use v3 v1 ");
	assert_has(out, "\nrollback of label all: v1\n");
	ck_assert_ptr_null(strstr(out, "canary"));
	must_ctl("history");
	squeeze(out);
	assert_has(out, " clear - v2 ");
	ck_assert_ptr_null(strstr(out, "rollback of label canary"));
	/* It goes where it was said. */
	must_ctl("rollback");
	ck_assert_str_eq(out, "version v1 is rolled out to label all, before it was v3\n");
	/* What another program has rolled out. */
	roll_out("all", "v3");
	must_ctl("history", "all", "--json");
	assert_has(out,
		   "\"what\": \"unknown\", \"version\": \"v3\", \"before\": \"v1\", \"by\": null");
	assert_has(
		out,
		"\"rollback\": [{\"label\": \"all\", \"version\": \"v1\", \"is_in_etcd\": true}]");
	/* Garbage: rollback goes to the newest version that is known. */
	roll_out("all", "../v2");
	must_ctl("rollback");
	ck_assert_str_eq(out, "version v1 is rolled out to label all\n");
	roll_out("all", "../v2");
	must(etcd, etcd_delete(etcd, "/rdmabroker/history/all", false, NULL));
	ck_assert_int_eq(ctl("rollback"), 1);
	assert_has(err, "no version before the invalid one is known for label all");
}
END_TEST

/* What an older program has written, and what it would read. */
START_TEST(history_of_an_older_program)
{
	struct etcd_range *range;

	if (!begin())
		return;
	publish("v1", "allow listen user 1\n");
	publish("v2", "allow listen user 2\n");
	roll_out("all", "v2");
	put_text(etcd, "/rdmabroker/history/all",
		 "[{\"version\":\"v1\",\"time\":1000000000,\"by\":\"bob@n1\"},"
		 "{\"version\":\"v2\",\"time\":1000000100,\"by\":\"bob@n1\"}]");
	must_ctl("history");
	squeeze(out);
	assert_has(out, " use v1 - bob@n1\n");
	assert_has(out, "\nrollback of label all: v1\n");
	must_ctl("rollback");
	must_ctl("history");
	squeeze(out);
	assert_has(out, " use v2 - bob@n1\n");
	assert_has(out, " rollback v1 v2 ");
	must(etcd, etcd_range(etcd, "/rdmabroker/history/all", false, 1, &range));
	ck_assert_ptr_nonnull(strstr(range->entries[0].value, "bob@n1"));
	ck_assert_ptr_null(strstr(range->entries[0].value, "v2"));
	etcd_range_free(range);
}
END_TEST

/* What other programs have written is shown as it is, and can be removed. */
START_TEST(garbage)
{
	if (!begin())
		return;
	publish("v1", "allow listen user 1\n");
	put_state("n1", new_state("n1", "x", "v1"));
	must_ctl("use", "v1", "--label", "x");
	roll_out("all", "../v\033[31m2");
	roll_out("x", "v9");
	must_ctl("status");
	squeeze(out);
	assert_has(out, "\nall (invalid) 0 ");
	assert_has(
		out,
		"\nlabel all has \"../v?[31m2\", which is no name of a version, so its hosts keep "
		"what they have\n");
	assert_has(out, "\netcd has no version v9, which is rolled out to label x\n");
	must_ctl("status", "--json");
	assert_has(out, "\"label\": \"all\", \"version\": null, \"invalid\": \"../v?[31m2\"");
	assert_has(out, "\"label\": \"x\", \"version\": \"v9\", \"invalid\": null");
	/* Hosts that no agent has written. */
	put_key("hosts", "n2", "[1]");
	put_key("known", "n2", "{}");
	put_key("hosts", "n3", "{\"daemon\": 1}");
	must_ctl("forget", "n2");
	must_ctl("forget", "n3", "--json");
	ck_assert_str_eq(out, "{\"host\": \"n3\"}\n");
	ck_assert_int_eq(ctl("forget", "n3"), 1);
	assert_has(err, "no host n3 is known");
	ck_assert_int_eq(ctl("forget", "n1"), 1);
	assert_has(err, "host n1 is there");
	must_ctl("status");
	assert_has(out, "\nhosts: 1: ");
}
END_TEST

START_TEST(etcd_is_full)
{
	char command[512];

	if (!begin())
		return;
	publish("v1", "allow listen user 1\n");
	put_state("n1", new_state("n1", "x", "v1"));
	put_key("known", "n2", "{\"labels\":[\"x\"],\"in_force\":\"v1\"}");
	snprintf(command, sizeof(command),
		 "curl -sf -o /dev/null %s/v3/maintenance/alarm -d "
		 "'{\"action\":\"ACTIVATE\",\"alarm\":\"NOSPACE\"}'",
		 etcd_service.endpoint);
	ck_assert_int_eq(system(command), 0);
	must_ctl("status");
	ck_assert_uint_eq(count(out, "NOSPACE"), 1);
	assert_has(
		out,
		"etcd is full (NOSPACE), so nothing can be written: no roll-out, and no state of a "
		"host.\n  Compact and defragment etcd, or start it with");
	squeeze(out);
	assert_has(out, "\nn2 away v1 - perhaps only because etcd is full\n");
	must_ctl("status", "--json");
	assert_has(out, "NOSPACE");
	ck_assert_int_eq(ctl("use", "v1"), 1);
	assert_has(err, "database space exceeded");
	assert_has(err, "etcd is full, so nothing can be written. Compact and defragment etcd");
}
END_TEST

/* Two machines with one name. */
START_TEST(a_name_that_two_have)
{
	json_t *one = new_state("n1", "x", "v1");

	if (!begin())
		return;
	json_object_set_new(one, "machine", json_string("a"));
	json_object_set_new(one, "twin", json_string("b"));
	put_state("n1", one);
	must_ctl("status");
	squeeze(out);
	assert_has(out, "hosts: 1: 1 twice\n");
	assert_has(out, "\nn1 twice v1 ");
	assert_has(out, " a and b both have this name; set Host= on one of them\n");
}
END_TEST

/* Scripts need no texts. */
START_TEST(exit_statuses)
{
	json_t *one;

	if (!begin())
		return;
	publish("v1", "allow listen user 1\n");
	ck_assert_int_eq(ctl("use", "v2"), 1);
	put_key("known", "away", "{\"labels\":[\"x\"],\"in_force\":\"v0\"}");
	ck_assert_int_eq(ctl("use", "v1", "--wait", "1"), 6);
	put_state("n1", new_state("n1", "x", "v1"));
	must_ctl("use", "v1", "--wait", "1");
	ck_assert_int_eq(ctl("use", "v1", "--wait", "1", "--strict"), 6);
	assert_has(out, "version v1 is in force on 1 of 2 hosts; away: 1 (away)\n");
	put_state("n2", new_state("n2", "x", "v0"));
	ck_assert_int_eq(ctl("use", "v1", "--wait", "1"), 5);
	one = new_state("n3", "x", "v0");
	json_object_set_new(one, "install",
			    json_pack("{s:s, s:b, s:s}", "version", "v1", "installed", 0, "text",
				      "1.rules:2:7: no\n"));
	put_state("n3", one);
	ck_assert_int_eq(ctl("use", "v1", "--wait", "1"), 4);
	assert_has(err, "n3: refused: 1.rules:2:7: no\n");
	ck_assert_int_eq(ctl("use", "v1", "--wait", "1", "--json"), 4);
	assert_has(out,
		   "{\"version\": \"v1\", \"label\": \"all\", \"before\": \"v1\", \"hosts\": 4, "
		   "\"in_force\": 1, \"waiting\": [{\"host\": \"n2\", \"state\": \"waiting\", "
		   "\"why\": null}], \"problems\": [{\"host\": \"n3\", ");
	assert_has(out, "\"away\": [{\"host\": \"away\", \"state\": \"away\", \"why\": null}]}\n");
	/* An option without an effect is refused. */
	ck_assert_int_eq(ctl("use", "v1", "--strict"), 2);
	assert_has(err, "--strict needs --wait");
	ck_assert_int_eq(ctl("push", version("v3", ""), "--wait", "1"), 2);
	ck_assert_int_eq(ctl("status", "--label", "x"), 2);
	assert_has(err, "fleet status takes no --label");
	ck_assert_int_eq(ctl("stattus"), 2);
	assert_has(err, "unknown action \"stattus\", did you mean \"status\"?");
	kill_etcd();
	ck_assert_int_eq(ctl("use", "v1"), 1);
}
END_TEST

START_TEST(json_of_each_action)
{
	char dir[256];

	if (!begin())
		return;
	snprintf(dir, sizeof(dir), "%s", version("v1", "allow listen user 5\n"));
	must_ctl("push", dir, "--json");
	ck_assert_str_eq(out, "{\"version\": \"v1\", \"was_there\": false}\n");
	must_ctl("push", dir, "--json", "--label", "all");
	ck_assert_str_eq(
		out, "{\"version\": \"v1\", \"label\": \"all\", \"before\": null, \"hosts\": 0}\n");
	must_ctl("check", "v1", "--json");
	ck_assert_str_eq(out, "{\"what\": \"v1\", \"valid\": true}\n");
	must_ctl("push", version("v2", "allow listen user 6\n"));
	must_ctl("use", "v2", "--json");
	assert_has(out, "\"before\": \"v1\"");
	must_ctl("rollback", "--json");
	assert_has(out, "{\"version\": \"v1\", \"label\": \"all\", \"before\": \"v2\"");
	must_ctl("remove", "v2", "--json");
	ck_assert_str_eq(out, "{\"version\": \"v2\"}\n");
	must_ctl("clear", "--label", "all", "--json");
	ck_assert_str_eq(out, "{\"label\": \"all\", \"before\": \"v1\"}\n");
	put_key("known", "-x", "{}");
	must_ctl("retry", "--json");
	ck_assert_str_eq(out, "{\"host\": null, \"hosts\": 1}\n");
	/* A name that looks like an option. */
	must_ctl("retry", "--json", "--", "-x");
	ck_assert_str_eq(out, "{\"host\": \"-x\", \"hosts\": 1}\n");
	put_state("old", new_state("old", "x", "v1"));
	must_ctl("retry", "old");
	ck_assert_str_eq(out,
			 "host old is asked to try again, but its agent is too old for that\n");
	must_ctl("forget", "--", "-x");
	ck_assert_str_eq(out, "host -x is forgotten\n");
	ck_assert_int_eq(ctl("diff", "v1", "v1", "--json"), 2);
	assert_has(err, "fleet diff takes no --json");
	must_ctl("help");
	assert_has(out, "retry [HOST]");
}
END_TEST

/* This machine's users and rules are not those of the fleet. */
START_TEST(a_check_for_other_hosts)
{
	char dir[256];

	if (!begin())
		return;
	write_text(path("policy.d/60.rules"), "reject listen port 7471\n");
	version("v1", "allow listen user no-such-user-here port 7471\n");
	write_text(path("v1/1.tests"), "allow listen uid 1 gid 1 port 7471\n");
	snprintf(dir, sizeof(dir), "%s", path("v1"));
	ck_assert_int_eq(ctl("push", dir), 1);
	assert_has(err, "v1/10-site.rules:1:19: unknown user 'no-such-user-here'\n");
	must_ctl("check", dir, "--only-syntax");
	assert_has(err, "v1/10-site.rules:1:19: warning: unknown user");
	assert_has(out, "v1 is valid in its syntax\n");
	must_ctl("push", dir, "--only-syntax");
	write_text(path("v1/10-site.rules"), "allow lisen\n");
	ck_assert_int_eq(ctl("push", dir, "--only-syntax", "--name", "v9"), 1);
	assert_has(err, "v9/10-site.rules:1:7: unknown operation 'lisen'");
	/* The rules of another host, in a directory. */
	write_text(path("v1/10-site.rules"),
		   "allow listen user no-such-user-here\nallow listen user 1\n");
	ck_assert_int_eq(ctl("check", dir), 1);
	ck_assert_int_eq(mkdir(path("other"), 0755), 0);
	write_text(path("other/05.rules"), "allow listen port 7471\n");
	must_ctl("check", dir, "--policy-dir", path("other"));
	assert_has(out, "v1 is valid with these rules\n");
	write_text(path("other/05.rules"), "reject listen port 7471\n");
	ck_assert_int_eq(ctl("check", dir, "--policy-dir", path("other")), 1);
	assert_has(err, "v1/1.tests:1:1: the test fails");
	ck_assert_int_eq(ctl("check", dir, "--policy-dir", path("nothing")), 1);
	assert_has(err, "cannot read the rules in ");
	ck_assert_int_eq(ctl("check", dir, "--policy-dir", path("other"), "--only-syntax"), 2);
	/* What is said about a name, and about a version that is live. */
	ck_assert_int_eq(ctl("push", path(".hid")), 2);
	assert_has(err, "invalid name of a version \".hid\"");
	assert_has(err, "and not begin with '.' or '-'");
	version("v1", "allow listen user 7\n");
	unlink(path("v1/1.tests"));
	ck_assert_int_eq(ctl("push", dir), 1);
	assert_has(err, "a version cannot be changed, so give the new one another name");
	ck_assert_ptr_null(strstr(err, "fleet remove"));
	must(etcd, etcd_delete(etcd, "/rdmabroker/versions/v1", false, NULL));
	ck_assert_int_eq(ctl("push", dir), 1);
	assert_has(err, "of a push that did not end; \"rdmabrokerctl fleet remove v1\" removes it");
}
END_TEST

UNIT_MAIN("fleet_rollout", set_up_fleet, tear_down_fleet, hosts_that_wait_are_named, labels,
	  history, history_of_an_older_program, garbage, etcd_is_full, a_name_that_two_have,
	  exit_statuses, json_of_each_action, a_check_for_other_hosts)

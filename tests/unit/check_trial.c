/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/policy.h"
#include "policy/trial.h"
#include "tests/unit/unit.h"
#include "util/diag.h"
#include "util/util.h"

static const char rules[] = "set storage = { 10.1.0.0/16, fd00:1::/64 }\n"
			    "allow connect user 1000 peer @storage port 4420 dscp af31\n"
			    "reject connect user 1001 reason \"not you\"\n"
			    "allow any group 100 unit a.service\n"
			    "allow listen user 7 port 1-65535\n"
			    "allow listen user 8\n"
			    "allow device container * device rxe*\n"
			    "allow accept data \"hi\" ps tcp local 10.9.0.1\n"
			    "reject accept peer-group 77 port 50-54 reason \"group 77\"\n"
			    "allow accept peer-user 2000 port 50\n"
			    "allow accept peer-unit store-* port 51\n"
			    "allow accept peer-same job port 52\n"
			    "allow accept peer-same unit port 53\n"
			    "allow connect peer-same user port 54\n"
			    "allow accept port 54\n"
			    "warn join reason \"soon refused\"\n";

static struct policy *policy;
static struct diag *diag;
static size_t n_tests;

static void set_up(void)
{
	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_int_eq(policy_load_text(&policy, "p.rules", rules, strlen(rules), diag), 0);
	n_tests = 0;
}

static void tear_down(void)
{
	policy_unref(policy);
	diag_free(diag);
}

static int run(const char *tests)
{
	return trial_run_text(policy, "p.tests", tests, strlen(tests), &n_tests, diag);
}

START_TEST(tests_that_pass)
{
	int r = run("# storage\n"
		    "allow  connect uid 1000 peer 10.1.0.7 port 4420 tos 104\n"
		    "allow  connect uid 1000 gid 5,6 peer fd00:1::7 \\\n"
		    "       port 4420\n"
		    "reject connect uid 1001 peer 10.1.0.7 port 4420 reason \"not you\"\n"
		    "reject connect uid 1000 peer 10.2.0.7 port 4420 reason \"no-rule\"\n"
		    "\n"
		    "allow  session uid 5 gid 4,100 unit a.service\n"
		    "reject session uid 5 gid 4,100 unit b.service\n"
		    "allow  device uid 1 container 0a1b device rxe0\n"
		    "reject device uid 1 device rxe0\n"
		    "allow  accept uid 1 data \"hi there\" ps tcp local 10.9.0.1\n"
		    "allow  accept uid 1 data 0x6869 ps tcp local 10.9.0.1\n"
		    "reject accept uid 1 ps tcp local 10.9.0.1\n"
		    "allow  listen uid 7 port 80\n"
		    "allow  listen uid 8 port 1080\n"
		    "reject listen uid 8 port 80 reason \"a port below 1024 needs a rule that "
		    "names it\"\n"
		    "reject admin uid 0 pod x job 7 cgroup /a\n");

	ck_assert_msg(r == 0, "%s", complaints_at(&diag->errors, 0));
	ck_assert_uint_eq(n_tests, 15);
}
END_TEST

/* What a warn rule admits is allowed; a test can ask that it is no more than that. */
START_TEST(tests_of_warn_rules)
{
	int r = run("warn  join uid 1\n"
		    "warn  join uid 1 reason \"soon refused\"\n"
		    "allow join uid 1\n");

	ck_assert_msg(r == 0, "%s", complaints_at(&diag->errors, 0));
	ck_assert_uint_eq(n_tests, 3);
}
END_TEST

START_TEST(tests_that_say_who_the_peer_is)
{
	int r = run("allow  accept uid 1 port 50 peer-uid 2000\n"
		    "reject accept uid 1 port 50 peer-uid 2001\n"
		    "reject accept uid 1 port 50 peer-uid 2000 peer-gid 5,77 reason \"group 77\"\n"
		    "allow  accept uid 1 port 50 peer-gid 5,6 peer-uid 2000\n"
		    "allow  accept uid 1 port 51 peer-uid 1 peer-unit store-a.service\n"
		    "reject accept uid 1 port 51 peer-uid 1 peer-unit a-store-a.service\n"
		    "reject accept uid 1 port 51 peer-uid 1\n"
		    "allow  accept uid 1 port 52 job 7 peer-uid 1 peer-job 7\n"
		    "reject accept uid 1 port 52 job 7 peer-uid 1 peer-job 8\n"
		    "reject accept uid 1 port 52 peer-uid 1\n"
		    "allow  accept uid 1 port 53 unit a.service peer-uid 1 peer-unit a.service\n"
		    "reject accept uid 1 port 53 unit a.service peer-uid 1 peer-unit b.service\n"
		    "allow  connect uid 1 port 54 peer-uid 1\n"
		    "reject connect uid 1 port 54 peer-uid 2\n"
		    "allow  accept uid 1 port 54 peer-uid 2\n");

	ck_assert_msg(r == 0, "%s", complaints_at(&diag->errors, 0));
	ck_assert_uint_eq(n_tests, 15);
}
END_TEST

/* What is not given is not known, except what the client belongs to: that is nothing then. */
START_TEST(facts_that_are_not_given)
{
	ck_assert_int_eq(run("reject connect uid 1000 port 4420\n"
			     "reject connect uid 1000 peer 10.1.0.7\n"
			     "reject device uid 1 container x\n"
			     "reject accept uid 1 port 50 reason \"group 77\"\n"
			     "reject connect uid 1 port 54\n"),
			 0);
}
END_TEST

/* A P_Key of an own path names the partition, and so does one of a GID, unless it is the default one. */
START_TEST(partitions)
{
	static const char own[] = "reject connect pkey 9 reason \"nine\"\n"
				  "allow connect pkey 0x8005-7\n"
				  "allow connect\n"
				  "warn listen\n";
	int r;

	policy_unref(policy);
	ck_assert_int_eq(policy_load_text(&policy, "p.rules", own, strlen(own), diag), 0);
	r = run("allow connect uid 1 pkey 5\n"
		"allow connect uid 1 pkey 8\n"
		"allow connect uid 1 pkey 0xffff path-pkey 0x8006\n"
		"reject connect uid 1 pkey 0xffff path-pkey 8 reason \"no-rule\"\n"
		"reject connect uid 1 path-pkey 9 reason \"nine\"\n"
		"reject connect uid 1 peer gid:fe80::1 pkey 0x8008 reason \"no-rule\"\n"
		"allow connect uid 1 peer gid:fe80::1 pkey 5\n"
		"allow connect uid 1 peer gid:fe80::1 pkey 0x7fff\n"
		"allow connect uid 1 peer gid:fe80::1\n"
		"reject connect uid 1 reason \"nine\"\n"
		"warn listen uid 1 local gid:fe80::1 pkey 8\n");
	ck_assert_msg(r == 0, "%s", complaints_at(&diag->errors, 0));
	ck_assert_uint_eq(n_tests, 11);
}
END_TEST

static void assert_fails(const char *tests, const char *expected)
{
	size_t n = diag->errors.n;

	ck_assert_int_eq(run(tests), -EBADMSG);
	ck_assert_uint_gt(diag->errors.n, n);
	ck_assert_msg(strstr(complaints_at(&diag->errors, n), expected) != NULL, "%s",
		      complaints_at(&diag->errors, n));
}

START_TEST(tests_that_fail)
{
	assert_fails("\nreject connect uid 1000 peer 10.1.0.7 port 4420\n",
		     "p.tests:2:1: the test fails: it is allowed by p.rules:2, \"allow connect");
	assert_fails("allow connect uid 5 peer 10.1.0.7 port 4420",
		     "p.tests:1:1: the test fails: it is rejected, because no rule matches");
	assert_fails("allow connect uid 1000 peer 10.1.0.7 port 4420 tos 0",
		     "the test fails: the TOS is 104, allowed by p.rules:2");
	assert_fails("reject connect uid 1001 reason \"other\"",
		     "the test fails: the reason is \"not you\", rejected by p.rules:3");
	assert_fails("allow listen uid 8 port 80", "rejected by p.rules:6");
	assert_fails("reject join uid 1",
		     "p.tests:1:1: the test fails: it is allowed with a warning by p.rules:16");
	assert_fails("warn accept uid 1 port 54 peer-uid 2", "it is allowed by p.rules:15");
	assert_fails("warn connect uid 5", "it is rejected, because no rule matches");
	assert_fails("warn join uid 1 reason \"x\"", "the reason is \"soon refused\"");
}
END_TEST

START_TEST(lines_with_errors)
{
	static const struct {
		const char *line, *expected;
	} wrong[] = {
		{ "alow connect uid 1",
		  "p.tests:1:1: a test must begin with allow, warn or reject" },
		{ "allow", "p.tests:1:6: " },
		{ "allow any uid 1", "p.tests:1:7: unknown operation 'any'" },
		{ "allow conect uid 1", "did you mean 'connect'?" },
		{ "allow connect", "p.tests:1:1: the test has no uid" },
		{ "allow connect user root", "1:15: a test has numbers of users and groups" },
		{ "allow connect uid root", "'uid' takes a number from 0 to 4294967294" },
		{ "allow connect uid 1 uid 2", "1:21: 'uid' occurs twice in this test" },
		{ "allow connect uid 1 gid 1,x", "'gid' takes a number" },
		{ "allow connect uid 1 peer 10.0.0.0/8", "1:26: 'peer' takes an IP address" },
		{ "allow connect uid 1 peer host", "'peer' takes an IP address" },
		{ "allow connect uid 1 port 0", "'port' takes a number from 1 to 65535" },
		{ "allow connect uid 1 port 1-2", "'port' takes a number from 1 to 65535" },
		{ "allow connect uid 1 ps tpc", "did you mean 'tcp'?" },
		{ "allow connect uid 1 pkey 0x8000",
		  "1:26: 'pkey' takes a P_Key from 1 to 0x7fff, or with the bit 0x8000" },
		{ "allow connect uid 1 path-pkey 65536", "'path-pkey' takes a P_Key" },
		{ "allow connect uid 1 unit", "'unit' takes a name" },
		{ "allow accept uid 1 data x", "'data' takes a text in double quotes" },
		{ "allow connect uid 1 reason \"x\"",
		  "'reason' is for tests that expect warn or reject" },
		{ "reject connect uid 1 tos 1", "'tos' is for tests that expect allow or warn" },
		{ "reject connect uid 1 reason x", "'reason' takes a text in double quotes" },
		{ "allow connect uid 1 tos 256", "'tos' takes a number from 0 to 255" },
		{ "allow connect uid 1 prot 3", "did you mean 'port'?" },
		{ "allow accept uid 1 peer-uid 4294967295",
		  "'peer-uid' takes a number from 0 to 4294967294" },
		{ "allow accept uid 1 peer-uid 1 peer-uid 1", "'peer-uid' occurs twice" },
		{ "allow accept uid 1 peer-uid 1 peer-gid x", "'peer-gid' takes a number" },
		{ "allow accept uid 1 peer-uid 1 peer-unit", "'peer-unit' takes a name" },
		{ "allow accept uid 1 peer-uid 1 peer-jib 7", "did you mean 'peer-job'?" },
		{ "allow accept uid 1 peer-gid 7",
		  "the test says who the peer is, but has no peer-uid" },
		{ "allow accept uid 1 peer-job 7",
		  "the test says who the peer is, but has no peer-uid" },
		{ "allow connect uid 1 \"x", "p.tests:1:" },
	};

	for (size_t i = 0; i < ELEMENTS_OF(wrong); i++) {
		diag_free(diag);
		ck_assert_int_eq(diag_new(&diag), 0);
		assert_fails(wrong[i].line, wrong[i].expected);
	}
}
END_TEST

/* One run shows all that is wrong. */
START_TEST(all_lines_are_run)
{
	ck_assert_int_eq(run("allow connect uid 5\nallow nothing\nallow session uid 5\n"),
			 -EBADMSG);
	ck_assert_uint_eq(diag->errors.n, 3);
	ck_assert_uint_eq(n_tests, 3);
}
END_TEST

START_TEST(files)
{
	char path[] = "/tmp/rdmabroker-trial-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "reject connect uid 9\n", 21), 21);
	close(fd);
	ck_assert_int_eq(trial_run(policy, path, &n_tests, diag), 0);
	ck_assert_uint_eq(n_tests, 1);
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(trial_run(policy, path, &n_tests, diag), -EPERM);
	unlink(path);
	ck_assert_int_eq(trial_run(policy, path, &n_tests, diag), -ENOENT);
}
END_TEST

UNIT_MAIN("trial", set_up, tear_down, tests_that_pass, tests_of_warn_rules,
	  tests_that_say_who_the_peer_is, facts_that_are_not_given, partitions, tests_that_fail,
	  lines_with_errors, all_lines_are_run, files)

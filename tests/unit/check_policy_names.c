/* SPDX-License-Identifier: BSD-2-Clause */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/rules.h"
#include "tests/unit/check_policy.h"

/* Names of users and groups that cannot be looked up when the daemon starts. */

static char dir[64], path[80];
static unsigned known; /* users and groups aN exist for N below this; their ids are 1000 + N */
static int trouble; /* the errno of all look-ups; 0: none */

static int find(const char *name, uint32_t *ret)
{
	unsigned n;

	if (trouble)
		return trouble;
	if (sscanf(name, "a%u", &n) != 1 || n >= known)
		return -1;
	*ret = 1000 + n;
	return 0;
}

/* These functions replace libc's. */
int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size,
	       struct passwd **ret)
{
	uint32_t id;
	int r = find(name, &id);

	*ret = NULL;
	if (r == 0) {
		entry->pw_uid = id;
		*ret = entry;
	}
	return r > 0 ? r : 0;
}

int getgrnam_r(const char *name, struct group *entry, char *buffer, size_t size, struct group **ret)
{
	uint32_t id;
	int r = find(name, &id);

	*ret = NULL;
	if (r == 0) {
		entry->gr_gid = id;
		*ret = entry;
	}
	return r > 0 ? r : 0;
}

static void set_up(void)
{
	policy_set_up();
	known = 2;
	trouble = 0;
	strcpy(dir, "/tmp/check_policy.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/t.rules", dir);
}

static void tear_down(void)
{
	policy_tear_down();
	unlink(path);
	rmdir(dir);
}

static int load_at(enum policy_names names, const char *text)
{
	FILE *f = fopen(path, "w");

	forget();
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(path, 0644), 0);
	return policy_load_dir(&policy, dir, names, diag);
}

static void load_at_start(const char *text)
{
	int r = load_at(POLICY_NAMES_MAY_BE_MISSING, text);

	ck_assert_msg(r == 0, "%d: %s", r, complaints_at(&diag->errors, 0));
}

static struct policy_verdict decide(enum policy_operation operation, uid_t uid, bool early)
{
	gid_t gid = uid;
	struct policy_question question = {
		.operation = operation,
		.early = early,
		.uid = uid,
		.gids = &gid,
		.n_gids = 1,
		.port = -1,
		.workload[WORKLOAD_UNIT] = "",
	};
	struct policy_verdict verdict;

	policy_decide(policy, &question, &verdict);
	return verdict;
}

static bool allows(uid_t uid)
{
	return decide(POLICY_SESSION, uid, /* early= */ false).answer == POLICY_ALLOW;
}

START_TEST(a_missing_name_is_an_error_otherwise)
{
	const char *first;

	ck_assert_int_eq(load_at(POLICY_NAMES_MUST_EXIST, "allow session user ghost\n"), -EBADMSG);
	ck_assert_ptr_null(policy);
	load_at_start("allow session user ghost\n");
	ck_assert_uint_eq(policy_n_missing_names(policy, &first), 1);
	ck_assert_str_eq(first, complaints_at(&diag->warnings, 0));
	ck_assert_uint_eq(diag->errors.n, 0);
	ck_assert_ptr_nonnull(strstr(first, "/t.rules:1:20: unknown user 'ghost'"));
	/* Other errors remain errors, and are the only ones. */
	ck_assert_int_eq(load_at(POLICY_NAMES_MAY_BE_MISSING,
				 "allow session user ghost\nallow sesion user a0\n"),
			 -EBADMSG);
	ck_assert_uint_eq(diag->errors.n, 1);
	ck_assert_ptr_nonnull(
		strstr(complaints_at(&diag->errors, 0), "/t.rules:2:7: unknown operation"));
	ck_assert_int_eq(load_at(POLICY_NAMES_MAY_BE_MISSING, "allow session user ghost port 1\n"),
			 -EBADMSG);
	ck_assert_int_eq(load_at(POLICY_NAMES_MAY_BE_MISSING, "allow session user 4294967295\n"),
			 -EBADMSG);
}
END_TEST

START_TEST(an_allow_rule_matches_nobody)
{
	load_at_start("allow session user ghost\nallow session user a0\n");
	ck_assert(allows(1000));
	ck_assert(!allows(1001));
	ck_assert(!allows(-1));
	load_at_start("allow session group ghost\n");
	ck_assert(!allows(1000));
	/* The rule does not match the known users in its list either. */
	load_at_start("allow session user a0,ghost,7\n");
	ck_assert(!allows(1000));
	ck_assert(!allows(7));
	/* An early decision is deferred, so it is repeated later. */
	ck_assert_int_eq(decide(POLICY_SESSION, 7, /* early= */ true).answer, POLICY_DEFER);
}
END_TEST

START_TEST(a_reject_rule_matches_everybody)
{
	load_at_start("reject session user ghost reason \"no ghosts\"\nallow session\n");
	ck_assert(!allows(1000));
	ck_assert_str_eq(decide(POLICY_SESSION, 0, false).reason, "no ghosts");
	/* Because ghost is unknown, the rule matches all users in its group a1. */
	load_at_start("reject session user ghost group a1\nallow session\n");
	ck_assert(allows(1000));
	ck_assert(!allows(1001));
	load_at_start("reject device user ghost\nallow session\n");
	ck_assert(allows(1000));
}
END_TEST

START_TEST(missing_names_among_many_rules)
{
	char text[8192] = "", *at = text;

	for (unsigned i = 0; i < 40; i++)
		at += sprintf(at, "allow session user %u\nallow session group g%u\n", 500 + i, i);
	strcpy(at, "reject session group ghost\nallow session\n");
	load_at_start(text);
	ck_assert(allows(500));
	ck_assert(allows(539));
	ck_assert(!allows(540));
	ck_assert_uint_eq(decide(POLICY_SESSION, 540, false).rule->line, 81);
}
END_TEST

START_TEST(a_look_up_that_fails)
{
	const char *first;

	trouble = EIO;
	load_at_start("allow session user a0\nallow session group 7\n");
	ck_assert_uint_eq(policy_n_missing_names(policy, &first), 1);
	ck_assert_ptr_nonnull(strstr(first, "cannot look up user 'a0': Input/output error"));
	ck_assert(!allows(1000));
	ck_assert(allows(7));
	trouble = ENOMEM;
	forget();
	ck_assert_int_eq(policy_load_dir(&policy, dir, POLICY_NAMES_MAY_BE_MISSING, diag), -ENOMEM);
}
END_TEST

static unsigned load_again(void)
{
	struct policy *old = policy;
	const char *first;

	ck_assert_int_eq(policy_load_again(&policy, old, diag), 0);
	policy_unref(old);
	return policy_n_missing_names(policy, &first);
}

START_TEST(names_are_looked_up_again)
{
	load_at_start("allow session user a2\nreject session group a3\nallow session user a0\n");
	ck_assert(!allows(1000));
	ck_assert_uint_eq(load_again(), 2);
	/* The files are not read again until a reload, so removing this file has no effect. */
	ck_assert_int_eq(unlink(path), 0);
	known = 3;
	ck_assert_uint_eq(load_again(), 1);
	ck_assert(allows(1002));
	ck_assert(!allows(1000));
	known = 4;
	ck_assert_uint_eq(load_again(), 0);
	ck_assert(allows(1000));
	ck_assert(!allows(1003));
	ck_assert_str_eq(policy_rule_at(policy, 0)->file, path);
	ck_assert_uint_eq(policy_rule_at(policy, 2)->line, 3);
}
END_TEST

START_TEST(the_fallback)
{
	const char *first;

	ck_assert_int_eq(policy_new_fallback(&policy), 0);
	ck_assert(policy_is_fallback(policy));
	ck_assert_uint_eq(policy_n_missing_names(policy, &first), 0);
	ck_assert_ptr_null(first);
	for (int i = 0; i < _POLICY_OPERATION_MAX; i++)
		ck_assert_int_eq(decide((enum policy_operation)i, 0, false).answer, POLICY_REJECT);
	ck_assert_ptr_nonnull(strstr(decide(POLICY_SESSION, 1000, false).reason,
				     "could not be loaded: see rdmabrokerctl status"));
	load("allow session");
	ck_assert(!policy_is_fallback(policy));
}
END_TEST

UNIT_MAIN("policy_names", set_up, tear_down, a_missing_name_is_an_error_otherwise,
	  an_allow_rule_matches_nobody, a_reject_rule_matches_everybody,
	  missing_names_among_many_rules, a_look_up_that_fails, names_are_looked_up_again,
	  the_fallback)

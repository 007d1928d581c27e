/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "util/account.h"
#include "util/diag.h"
#include "util/owner.h"

#define PASSWD                                     \
	"root:x:0:0::/root:/bin/sh\n"              \
	"dockremap:x:996:996::/:/bin/false\n"      \
	"nobody:x:65534:65534::/:/bin/false\n"     \
	"alice:x:1000:1000::/home/alice:/bin/sh\n" \
	"bob:x:1001:1001::/home/bob:/bin/sh\n"

static char dir[] = "/tmp/check_owner.XXXXXX", subuid[64], passwd[64], nsswitch[64];
static struct diag *diag;
static struct account account;

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

static void set_up(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(subuid, sizeof(subuid), "%s/subuid", dir);
	snprintf(passwd, sizeof(passwd), "%s/passwd", dir);
	snprintf(nsswitch, sizeof(nsswitch), "%s/nsswitch.conf", dir);
	write_file(passwd, PASSWD);
	ck_assert_int_eq(diag_new(&diag), 0);
	account_init(&account);
}

static void tear_down(void)
{
	account_done(&account);
	owners_use(NULL);
	diag_free(diag);
	unlink(subuid);
	unlink(passwd);
	unlink(nsswitch);
	rmdir(dir);
}

/* Returns the number of ranges whose owner is not known. */
static size_t use(const char *text)
{
	struct owners *owners;
	size_t n;

	write_file(subuid, text);
	ck_assert_int_eq(owners_read(&owners, subuid, passwd, diag), 0);
	n = owners_count_missing(owners);
	owners_use(owners);
	return n;
}

static void assert_owner(struct owner owner, uid_t uid, uid_t range)
{
	ck_assert_uint_eq(owner.uid, uid);
	ck_assert_uint_eq(owner.range, range);
}

static void assert_range(uid_t uid, uid_t first)
{
	assert_owner(owner_of(uid), uid, first);
}

static void assert_alone(uid_t uid)
{
	assert_owner(owner_of(uid), uid, OWNER_ALONE);
}

static void assert_of(uid_t uid, uid_t user)
{
	assert_owner(owner_of(uid), user, OWNER_ALONE);
}

START_TEST(a_range_is_of_its_user)
{
	assert_alone(100000);
	ck_assert_uint_eq(use("alice:100000:65536\n1001:165536:65536\n\n# comment\n"), 0);
	ck_assert_uint_eq(diag->warnings.n, 0);
	assert_of(100000, 1000);
	assert_of(165535, 1000);
	assert_of(165536, 1001);
	assert_of(231071, 1001);
	assert_alone(99999);
	assert_alone(231072);
	assert_alone(1000);
	assert_alone(0);
	owners_use(NULL);
	assert_alone(100000);
}
END_TEST

/* LXC's containers are root's, Docker's are dockremap's. */
START_TEST(ranges_with_many_tenants)
{
	use("root:100000:65536\ndockremap:200000:65536\nalice:300000:1\n");
	assert_range(100000, 100000);
	assert_range(165535, 100000);
	assert_range(200001, 200000);
	assert_of(300000, 1000);
	assert_alone(300001);
}
END_TEST

START_TEST(system_users_are_nobodys)
{
	use("alice:0:65536\n");
	assert_alone(0);
	assert_alone(999);
	assert_of(1001, 1000);
}
END_TEST

START_TEST(users_who_are_not_found)
{
	ck_assert_uint_eq(use("carol-of-the-directory:100000:65536\nalice:200000:10\n"), 1);
	assert_range(100000, 100000);
	assert_of(200000, 1000);
}
END_TEST

START_TEST(the_name_service_is_asked_for_the_rest)
{
	struct owners *owners;

	write_file(passwd, "");
	write_file(subuid, "daemon:100000:10\nnobody-has-this-name:200000:10\n");
	ck_assert_int_eq(owners_read(&owners, subuid, passwd, diag), 0);
	ck_assert_uint_eq(owners_count_missing(owners), 2);
	owners_look_up(owners);
	ck_assert_uint_eq(owners_count_missing(owners), 1);
	owners_free(owners);
}
END_TEST

START_TEST(ranges_that_overlap)
{
	use("alice:100000:100\nalice:100050:100\nbob:200000:100\nalice:200050:100\nbob:200150:10\n");
	assert_of(100149, 1000);
	assert_range(200000, 200000);
	assert_range(200149, 200000);
	assert_of(200150, 1001);
}
END_TEST

START_TEST(lines_that_are_wrong)
{
	static const char *const lines[] = { "alice",
					     "alice:",
					     "alice:1",
					     ":100000:10",
					     "alice:x:10",
					     "alice:100000:y",
					     "alice:100000:10:",
					     "alice:-1:10",
					     "alice:4294967290:10",
					     "alice:4294967296:1",
					     "alice:100000:4294967295" };
	char text[512] = "";

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		strcat(text, lines[i]);
		strcat(text, "\n");
	}
	strcat(text, "alice:100000:0\nbob:300000:10");
	use(text);
	ck_assert_uint_eq(diag->warnings.n, sizeof(lines) / sizeof(lines[0]));
	ck_assert_ptr_nonnull(
		strstr(complaints_at(&diag->warnings, 2), "/subuid:3:1: this is not"));
	assert_alone(100000);
	assert_of(300009, 1001);
}
END_TEST

/* A line of a uid_map is an owner, as far as it is in a range of many tenants, or in none. */
START_TEST(owners_in_containers)
{
	use("alice:100000:65536\nroot:200000:131072\n");
	assert_owner(owner_of_stranger(265536 + 7, 265536), 265536, 200000);
	assert_owner(owner_of_stranger(200001, 200001), 200001, 200000);
	assert_owner(owner_of_stranger(524288 + 7, 524288), 524288, OWNER_STRANGERS);
	assert_owner(owner_of_stranger(524289, 524289), 524289, OWNER_STRANGERS);
	/* Root can map what he likes: nobody counts as a user with a low uid, or as another user, because of that. */
	assert_owner(owner_of_stranger(524289, 1000), 524289, OWNER_STRANGERS);
	assert_owner(owner_of_stranger(100007, 100000), 1000, OWNER_ALONE);
	assert_owner(owner_of_stranger(1001, 1000), 1001, OWNER_ALONE);
	assert_owner(owner_of_stranger(0, 0), 0, OWNER_ALONE);
	ck_assert(owner_depends_on_namespace(200001) && owner_depends_on_namespace(524288));
	ck_assert(!owner_depends_on_namespace(100007) && !owner_depends_on_namespace(1001));
	ck_assert_uint_eq(owner_group(owner_of(200001)), owner_group(owner_of(331071)));
	ck_assert_uint_ne(owner_group(owner_of(200001)), owner_group(owner_of(200000 - 1)));
	ck_assert_uint_ne(owner_group(owner_of(200001)), owner_group(owner_of(1000)));
}
END_TEST

START_TEST(files_that_are_not_there)
{
	struct owners *owners;

	ck_assert_int_eq(owners_read(&owners, subuid, passwd, diag), 0);
	owners_use(owners);
	assert_alone(100000);
	ck_assert_int_eq(owners_read(&owners, dir, passwd, diag), -EISDIR);
}
END_TEST

START_TEST(other_sources)
{
	ck_assert(!owners_have_other_source(nsswitch));
	write_file(nsswitch, "passwd: files sss\nsubid: files\n");
	ck_assert(!owners_have_other_source(nsswitch));
	write_file(nsswitch, "passwd: files\nsubid:\tsss\n");
	ck_assert(owners_have_other_source(nsswitch));
}
END_TEST

/* All uids of a person have one quota. */
START_TEST(one_quota_for_all_uids)
{
	struct charge charges[4] = { 0 }, refused;

	use("alice:100000:65536\n");
	account.limit_per_user[ACCOUNT_IDS] = 3;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(account_charge(&account, &charges[i], ACCOUNT_IDS, 1,
						owner_of(100000 + i)),
				 0);
	ck_assert_int_eq(account_charge(&account, &refused, ACCOUNT_IDS, 1, owner_of(1000)),
			 -EDQUOT);
	ck_assert_int_eq(account_charge(&account, &refused, ACCOUNT_IDS, 1, owner_of(165535)),
			 -EDQUOT);
	ck_assert_uint_eq(account_get_used(&account, ACCOUNT_IDS, owner_of(1000)), 3);
	ck_assert_int_eq(account_charge(&account, &charges[3], ACCOUNT_IDS, 1, owner_of(1001)), 0);
	/* What was charged is given back to the same owner, also if the ranges are others by now. */
	owners_use(NULL);
	for (unsigned i = 0; i < 4; i++)
		charge_done(&charges[i]);
}
END_TEST

/* Tenants have quotas of their own, but not more than half of all together. */
START_TEST(half_for_all_tenants_of_a_range)
{
	struct charge charges[8] = { 0 }, refused;

	use("root:100000:65536\n");
	account.limit[ACCOUNT_SESSIONS] = 8;
	account.limit_per_user[ACCOUNT_SESSIONS] = 2;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(account_charge(&account, &charges[i], ACCOUNT_SESSIONS, 1,
						owner_of(100000 + i / 2)),
				 0);
	ck_assert_int_eq(account_charge(&account, &refused, ACCOUNT_SESSIONS, 1, owner_of(100000)),
			 -EDQUOT);
	ck_assert_int_eq(account_charge(&account, &refused, ACCOUNT_SESSIONS, 1, owner_of(100002)),
			 -EDQUOT);
	for (unsigned i = 4; i < 8; i++)
		ck_assert_int_eq(account_charge(&account, &charges[i], ACCOUNT_SESSIONS, 1,
						owner_of(1000 + i / 2)),
				 0);
	ck_assert_int_eq(account_charge(&account, &refused, ACCOUNT_SESSIONS, 1, owner_of(1004)),
			 -EUSERS);
	charge_done(&charges[0]);
	ck_assert_int_eq(
		account_charge(&account, &charges[0], ACCOUNT_SESSIONS, 1, owner_of(100002)), 0);
	for (unsigned i = 0; i < 8; i++)
		charge_done(&charges[i]);
}
END_TEST

/* Whoever makes user namespaces gets no more by them, also if no file names his uids. */
START_TEST(half_for_all_strangers)
{
	struct charge charges[8] = { 0 }, refused;

	account.limit[ACCOUNT_SESSIONS] = 8;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(account_charge(&account, &charges[i], ACCOUNT_SESSIONS, 1,
						owner_of_stranger(524288 + i, 524288 + i)),
				 0);
	ck_assert_int_eq(account_charge(&account, &refused, ACCOUNT_SESSIONS, 1,
					owner_of_stranger(600000, 589824)),
			 -EDQUOT);
	/* A uid that is not in a user namespace is no stranger. */
	ck_assert_int_eq(account_charge(&account, &charges[4], ACCOUNT_SESSIONS, 4,
					owner_of(524288)),
			 -EDQUOT);
	ck_assert_int_eq(
		account_charge(&account, &charges[4], ACCOUNT_SESSIONS, 3, owner_of(524288)), 0);
	ck_assert_uint_eq(account_get_used(&account, ACCOUNT_SESSIONS, owner_of(524288)), 4);
	for (unsigned i = 0; i < 8; i++)
		charge_done(&charges[i]);
}
END_TEST

UNIT_MAIN("owner", set_up, tear_down, a_range_is_of_its_user, ranges_with_many_tenants,
	  system_users_are_nobodys, users_who_are_not_found, the_name_service_is_asked_for_the_rest,
	  ranges_that_overlap, lines_that_are_wrong, owners_in_containers, files_that_are_not_there,
	  other_sources, one_quota_for_all_uids, half_for_all_tenants_of_a_range,
	  half_for_all_strangers)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "core/facts/admission.h"
#include "tests/unit/unit.h"
#include "util/diag.h"

/* The limits of rules, tested without a core. The test passes times as numbers instead of reading a clock. */

#define MS 1000000ULL
#define START (1000 * 1000 * MS)

static struct policy *policy;
static struct admissions *admissions;
static struct overflow overflow;

static struct policy *load(const char *text)
{
	struct policy *p = NULL;
	struct diag *diag = NULL;

	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_msg(policy_load_text(&p, "t", text, strlen(text), diag) == 0, "%s",
		      complaints_at(&diag->errors, 0));
	diag_free(diag);
	return p;
}

static void use(const char *text)
{
	struct policy *next = load(text);
	struct admissions *made;

	ck_assert_int_eq(admissions_new(&made, next, admissions), 0);
	admissions_free(admissions);
	policy_unref(policy);
	admissions = made;
	policy = next;
}

static void tear_down(void)
{
	admissions = admissions_free(admissions);
	policy = policy_unref(policy);
}

static void set_up(void)
{
}

static const struct sockaddr *peer(unsigned n)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)(1000 + n)),
		.sin_addr.s_addr = htonl(0x0a000000 + n),
	};
	return (struct sockaddr *)&in;
}

/* Requests admission by rule 0. */
static int admit_at(uint64_t now, uid_t uid, unsigned from, bool pending, struct admitted *ret)
{
	const struct policy_rule *rule = policy_rule_at(policy, 0);

	return tally_admit(admissions_find(admissions, rule), &rule->settings, now, uid, peer(from),
			   pending, ret, &overflow);
}

static struct tally *tally(size_t i)
{
	return admissions_find(admissions, policy_rule_at(policy, i));
}

START_TEST(rate_and_burst)
{
	struct admitted a;
	unsigned n = 0;

	use("allow connect rate 100/s burst 5");
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(admit_at(START, 1, 1, false, &a), 0);
		admitted_done(&a);
	}
	ck_assert_int_eq(admit_at(START, 1, 1, false, &a), -EBUSY);
	ck_assert_str_eq(overflow.limit, "rate 100/s");
	ck_assert_uint_eq(overflow.retry_after_ms, 10);
	/* Each further request that is refused gets a longer delay, up to a maximum. */
	ck_assert_int_eq(admit_at(START, 1, 1, false, &a), -EBUSY);
	ck_assert_uint_eq(overflow.retry_after_ms, 20);
	ck_assert_int_eq(admit_at(START + 10 * MS - 1, 1, 1, false, &a), -EBUSY);
	ck_assert_int_eq(admit_at(START + 10 * MS, 1, 1, false, &a), 0);
	admitted_done(&a);
	ck_assert_uint_eq(tally(0)->n_busy, 3);

	/*
	 * For ten seconds, requests come at ten times the rate. As many are admitted as the rate allows, and at most
	 * one burst more.
	 */
	for (uint64_t t = 0; t < 10000; t++)
		if (admit_at(START + 1000 * MS + t * MS, 1, 1, false, &a) == 0) {
			admitted_done(&a);
			n++;
		}
	ck_assert_uint_ge(n, 1000);
	ck_assert_uint_le(n, 1005);
}
END_TEST

START_TEST(the_retry_time_is_limited)
{
	struct admitted a;

	use("allow connect rate 1/s");
	ck_assert_int_eq(admit_at(START, 1, 1, false, &a), 0);
	admitted_done(&a);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(admit_at(START, 1, 1, false, &a), -EBUSY);
	ck_assert_uint_eq(overflow.retry_after_ms, 2000);
}
END_TEST

START_TEST(users_and_peers_are_counted_separately)
{
	struct admitted a;

	use("allow accept rate-per-user 10/s burst 1 rate-per-peer 1000/s burst 1");
	ck_assert_int_eq(admit_at(START, 1, 1, false, &a), 0);
	admitted_done(&a);
	ck_assert_int_eq(admit_at(START, 1, 2, false, &a), -EBUSY);
	ck_assert_str_eq(overflow.limit, "rate-per-user 10/s");
	ck_assert_int_eq(admit_at(START, 2, 1, false, &a), -EBUSY);
	ck_assert_str_eq(overflow.limit, "rate-per-peer 1000/s");
	/* A request that one limit refuses is not charged to the other limit. */
	ck_assert_int_eq(admit_at(START, 2, 2, false, &a), 0);
	admitted_done(&a);
	/* Entries of users and peers that no longer limit anything are removed. */
	for (unsigned i = 0; i < 10000; i++) {
		ck_assert_int_eq(admit_at(START + (i + 1) * 1000 * MS, i, i, false, &a), 0);
		admitted_done(&a);
	}
	ck_assert_uint_le(tally_count_keys(tally(0)), 8);
}
END_TEST

/*
 * The peers come all at once, so no entry can be removed while the table fills. A second later, entries can be
 * removed.
 */
START_TEST(a_full_table_of_peers_empties)
{
	struct admitted a;

	use("allow accept rate-per-peer 1/s");
	for (unsigned round = 0; round < 2; round++) {
		uint64_t now = START + round * 1000 * MS;

		for (unsigned i = 0; i < TALLY_KEYS_MAX; i++) {
			ck_assert_int_eq(admit_at(now, 1, round << 20 | i, false, &a), 0);
			admitted_done(&a);
		}
		ck_assert_int_eq(admit_at(now, 1, 1 << 22, false, &a), -EBUSY);
		ck_assert_str_eq(overflow.limit, "limit of 65536 users or peers");
		ck_assert_uint_eq(tally_count_keys(tally(0)), TALLY_KEYS_MAX);
	}
}
END_TEST

/* All entries but one are in use. The unused entry is found, and the search for it is spread over many requests. */
START_TEST(the_only_unused_entry_is_found)
{
	static struct admitted held[TALLY_KEYS_MAX];
	struct admitted a;
	unsigned n_busy = 0;

	use("allow listen max-per-user 2");
	for (unsigned i = 0; i < TALLY_KEYS_MAX; i++)
		ck_assert_int_eq(admit_at(START, i, 1, false, &held[i]), 0);
	ck_assert_int_eq(admit_at(START, TALLY_KEYS_MAX, 1, false, &a), -EBUSY);
	ck_assert_str_eq(overflow.limit, "limit of 65536 users or peers");
	/* A user who has an entry is admitted even if the table is full. */
	ck_assert_int_eq(admit_at(START, 7, 1, false, &a), 0);
	admitted_done(&a);
	admitted_done(&held[40000]);
	while (admit_at(START, TALLY_KEYS_MAX, 1, false, &a) == -EBUSY)
		ck_assert_uint_lt(++n_busy, TALLY_KEYS_MAX / 256 + 1);
	admitted_done(&a);
	for (unsigned i = 0; i < TALLY_KEYS_MAX; i++)
		admitted_done(&held[i]);
	/* Now all entries are unused. They are removed while requests are admitted, and no request is refused. */
	for (unsigned i = 0; i < TALLY_KEYS_MAX; i++) {
		ck_assert_int_eq(admit_at(START, 1, 1, false, &a), 0);
		admitted_done(&a);
	}
	ck_assert_uint_le(tally_count_keys(tally(0)), 8);
}
END_TEST

START_TEST(concurrent_objects_are_limited)
{
	struct admitted a, b, c, d;

	use("allow listen max 3 max-per-user 2");
	ck_assert_int_eq(admit_at(START, 1, 1, false, &a), 0);
	ck_assert_int_eq(admit_at(START, 1, 1, false, &b), 0);
	ck_assert_int_eq(admit_at(START, 1, 1, false, &c), -EBUSY);
	ck_assert_str_eq(overflow.limit, "max-per-user 2");
	ck_assert_int_eq(admit_at(START, 2, 1, false, &c), 0);
	ck_assert_int_eq(admit_at(START, 2, 1, false, &d), -EBUSY);
	ck_assert_str_eq(overflow.limit, "max 3");
	admitted_done(&a);
	/* D takes over the admission of B, for user 2 instead of user 1. */
	admitted_move(&b, &d, 2);
	ck_assert_ptr_null(b.tally);
	ck_assert_int_eq(admit_at(START, 2, 1, false, &a), -EBUSY);
	ck_assert_int_eq(admit_at(START, 1, 1, false, &a), 0);
	admitted_done(&a);
	admitted_done(&c);
	admitted_done(&d);
	admitted_done(&d);
	ck_assert_uint_eq(tally(0)->n_now, 0);
}
END_TEST

START_TEST(pending_requests_are_limited)
{
	struct admitted a, b;

	use("allow accept pending 1");
	ck_assert_int_eq(admit_at(START, 1, 1, true, &a), 0);
	ck_assert_int_eq(admit_at(START, 1, 1, true, &b), -EBUSY);
	ck_assert_str_eq(overflow.limit, "pending 1");
	admitted_answered(&a);
	ck_assert_int_eq(admit_at(START, 1, 1, true, &b), 0);
	ck_assert_uint_eq(tally(0)->n_now, 2);
	ck_assert_uint_eq(tally(0)->n_pending, 1);
	admitted_done(&a);
	admitted_done(&b);
	ck_assert_uint_eq(tally(0)->n_pending, 0);
}
END_TEST

/* A rule that is also in the new policy keeps its counts, even at another position. */
START_TEST(counts_survive_reloads)
{
	struct admitted a, b, c;

	use("allow connect user 1 max 1\nallow connect max 2\n");
	ck_assert_int_eq(admit_at(START, 1, 1, false, &a), 0);
	use("reject listen\nallow connect max 2\nallow   connect user 1   max 1 # the same\n");
	ck_assert_ptr_eq(tally(2), a.tally);
	ck_assert_uint_eq(tally(2)->n_now, 1);
	ck_assert_uint_eq(tally(1)->n_now, 0);
	/* Objects of a removed rule are not counted any more, but can still be released. */
	use("allow connect max 1\n");
	ck_assert_uint_eq(tally(0)->n_now, 0);
	ck_assert_int_eq(admit_at(START, 1, 1, false, &b), 0);
	ck_assert_int_eq(admit_at(START, 1, 1, false, &c), -EBUSY);
	admitted_done(&a);
	for (int i = 0; i < 1000; i++)
		use(i % 2 ? "allow connect max 1\n" : "allow connect max 1\nreject any\n");
	ck_assert_int_eq(admit_at(START, 1, 1, false, &c), -EBUSY);
	admitted_done(&b);
	ck_assert_uint_eq(tally(0)->n_now, 0);
}
END_TEST

UNIT_MAIN("admission", set_up, tear_down, rate_and_burst, the_retry_time_is_limited,
	  users_and_peers_are_counted_separately, a_full_table_of_peers_empties,
	  the_only_unused_entry_is_found, concurrent_objects_are_limited,
	  pending_requests_are_limited, counts_survive_reloads)

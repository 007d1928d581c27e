/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/admit/learned.h"
#include "core/admit/refused.h"
#include "core/object/core.h"
#include "tests/unit/check_policy.h"

/* The table of what was refused, on disk: who writes it, and what a damaged file costs. */

static struct core core;
static struct learned *learned;
static char dir[64], path[96];

static void begin(const char *rules)
{
	load(rules);
	core = (struct core){ .policy = policy };
	ck_assert_int_ge(sd_event_new(&core.loop), 0);
	ck_assert_int_eq(refused_new(&core.refused), 0);
	ck_assert_int_eq(learned_new(&learned, &core, dir), 0);
}

static void finish(void)
{
	learned = learned_free(learned, /* writes= */ true);
	core.refused = refused_free(core.refused);
	core.loop = sd_event_unref(core.loop);
}

static void set_up(void)
{
	policy_set_up();
	strcpy(dir, "/tmp/learned-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/" LEARNED_FILE, dir);
}

static void tear_down(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
	policy_tear_down();
}

/* Notes N rows. */
static void note(unsigned n)
{
	struct ledger_learned about = *core_get_learned(&core);

	for (unsigned i = 1; i <= n; i++) {
		struct ledger_refused row = {
			.uid = i,
			.n = 1,
			.first_ms = 1,
			.last_ms = i,
			.outcome = REFUSED_WARNED,
			.unit = "nvmf.service",
			.rule = "90-live.rules:1",
		};

		core_add_refused(&core, &row, 1, &about);
	}
}

static const char warns[] = "warn any\n", strict[] = "allow any\n";

START_TEST(a_reboot_forgets_nothing)
{
	struct ledger_learned about;
	struct stat st;

	begin(warns);
	note(500);
	about = *core_get_learned(&core);
	finish();
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	printf("500 rows: %lld bytes\n", (long long)st.st_size);
	begin(warns);
	ck_assert_uint_eq(core_count_refused(&core), 500);
	ck_assert_uint_eq(core_get_learned(&core)->since_ms, about.since_ms);
	ck_assert_str_eq(core_refused_from(&core, 0)->unit, "nvmf.service");
	finish();

	/* The rules only refuse now: what is on disk goes on, until it is cleared. */
	begin(strict);
	ck_assert_uint_eq(core_count_refused(&core), 500);
	note(501);
	finish();
	begin(strict);
	ck_assert_uint_eq(core_count_refused(&core), 501);
	core_clear_refused(&core);
	finish();
	ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

START_TEST(without_warn_rules_there_is_no_file)
{
	begin(strict);
	note(3);
	finish();
	ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

static void change_byte(off_t at)
{
	int fd = open(path, O_RDWR);
	char byte;

	ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
	byte ^= 0x40;
	ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void expect_rows(unsigned n)
{
	begin(warns);
	ck_assert_uint_eq(core_count_refused(&core), n);
	/* Nothing is written, because nothing has changed. */
	finish();
}

START_TEST(a_damaged_file_costs_the_table)
{
	struct stat st;

	begin(warns);
	note(4);
	finish();
	ck_assert_int_eq(stat(path, &st), 0);
	for (off_t at = 0; at < st.st_size; at++) {
		change_byte(at);
		expect_rows(0);
		change_byte(at);
		at += at > 200 ? 97 : 0;
	}
	expect_rows(4);
	for (off_t size = st.st_size - 1; size >= 0; size -= size > 100 ? 99 : 1) {
		ck_assert_int_eq(truncate(path, size), 0);
		expect_rows(0);
	}
	/* The next table takes its place. */
	begin(warns);
	note(2);
	finish();
	expect_rows(2);
}
END_TEST

/* What cannot be written is told, and no more. */
START_TEST(a_directory_that_is_gone)
{
	ck_assert_int_eq(rmdir(dir), 0);
	begin(warns);
	note(2);
	finish();
	ck_assert_int_eq(mkdir(dir, 0700), 0);
}
END_TEST

UNIT_MAIN("learned", set_up, tear_down, a_reboot_forgets_nothing,
	  without_warn_rules_there_is_no_file, a_damaged_file_costs_the_table,
	  a_directory_that_is_gone)

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A test program of one suite: UNIT_MAIN("name", set_up, tear_down, test, test, ...). */

#include <check.h>
#include <poll.h>
#include <stdlib.h>

#include "tests/patience.h"

#define UNIT_TIMEOUT PATIENCE_TEST_S /* for each test */

/* Waits until CONDITION is true, which no event announces. WHAT is a literal format, with its arguments. */
#define AWAIT(condition, what, ...)                          \
	do {                                                 \
		int64_t end_ = patience_end();               \
		while (!(condition))                         \
			if (!patience_pause(end_))           \
				WAITED(what, ##__VA_ARGS__); \
	} while (0)

/* Waits until the descriptor FD can be read, or has ended. */
#define AWAIT_INPUT(fd, what, ...)                      \
	do {                                            \
		struct pollfd p_ = { (fd), POLLIN, 0 }; \
		if (poll(&p_, 1, PATIENCE_MS) != 1)     \
			WAITED(what, ##__VA_ARGS__);    \
	} while (0)

#define WAITED(what, ...) ck_abort_msg("waited %d s for " what, PATIENCE_S, ##__VA_ARGS__)

static inline int unit_run(const char *name, SFun before, SFun after, const TTest *const *tests,
			   size_t n_tests)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, UNIT_TIMEOUT);
	if (before)
		tcase_add_checked_fixture(tcase, before, after);
	for (size_t i = 0; i < n_tests; i++)
		tcase_add_test(tcase, tests[i]);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define UNIT_MAIN(name, set_up, tear_down, ...)                                                    \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *const tests[] = { __VA_ARGS__ };                                      \
		return unit_run(name, set_up, tear_down, tests, sizeof(tests) / sizeof(tests[0])); \
	}

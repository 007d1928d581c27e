/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A test program of one suite: UNIT_MAIN("name", set_up, tear_down, test, test, ...). */

#include <check.h>
#include <stdlib.h>

#define UNIT_TIMEOUT 60 /* s, for each test */

static inline int unit_run(const char *name, SFun set_up, SFun tear_down, const TTest *const *tests,
			   size_t n_tests)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);
	SRunner *runner;
	int failed;

	/* Check's default of 4 s is too short to start a dozen programs on a busy machine. */
	tcase_set_timeout(tcase, UNIT_TIMEOUT);
	if (set_up)
		tcase_add_checked_fixture(tcase, set_up, tear_down);
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

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Tests of a policy: what its author expects it to decide. One test a line, with comments and continued lines as in
 * rules:
 *
 *   allow|reject OPERATION uid N [FACT ...] [RESULT ...]
 *
 *   FACT     gid N[,...]  unit NAME  container ID  pod UID  job N  cgroup PATH
 *            local ADDR  peer ADDR  port N  device NAME  ps PS  data "TEXT"|0xHEX  pkey N  path-pkey N
 *   RESULT   tos N, on allow; reason "TEXT", on reject
 *
 * Users and groups are numbers, so that a test gives the same result on every host. What a client belongs to (unit and
 * so on) is nothing if it is not given; all other facts are unknown then.
 */

#include <stddef.h>

struct diag;
struct policy;

/*
 * Makes the tests in FILE, and adds a complaint to DIAG for each line that has an error, and each test that fails. Adds
 * the number of tests to *N_TESTS. For the owner and mode of FILE see source.h. Returns 0; -EBADMSG: a line has an
 * error, or a test fails; or another negative errno.
 */
int trial_run(const struct policy *policy, const char *file, size_t *n_tests, struct diag *diag);
/* As trial_run(), from memory, with NAME as the file's name. */
int trial_run_text(const struct policy *policy, const char *name, const char *text, size_t len,
		   size_t *n_tests, struct diag *diag);

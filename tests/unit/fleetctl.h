/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Shared by the tests of `rdmabrokerctl fleet`: it is run, and hosts are states that the test writes as agents do. */

#include "tests/unit/fleetagent.h"

extern char out[1 << 20], err[65536]; /* of the last run */
extern const char *fleetctl; /* NULL: the one of this build */

pid_t start_ctl(const char *const *arguments, int out_fd, int err_fd);
int end_of(pid_t pid); /* the exit status */
int run_ctl(const char *const *arguments); /* returns the exit status */
#define ctl(...) run_ctl((const char *const[]){ __VA_ARGS__, NULL })
#define must_ctl(...) ck_assert_msg(ctl(__VA_ARGS__) == 0, "line %d: %s%s", __LINE__, out, err)

/* Runs `rdmabrokerctl site` on the test's host. Returns the exit status. */
int run_site(const char *arguments);
#define must_site(arguments) \
	ck_assert_msg(run_site(arguments) == 0, "line %d: %s%s", __LINE__, out, err)

const char *version(const char *name, const char *rules); /* makes its directory, and returns it */
json_t *new_state(const char *host, const char *label, const char *in_force);
void put_key(const char *folder, const char *host, const char *text);
void put_state(const char *host, json_t *value); /* takes the reference to VALUE */
void squeeze(char *text); /* makes one blank of several, because ages change how wide a column is */

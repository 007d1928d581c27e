/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Stores the last failure of each thread, for rdmabroker_last_failure(). */

/*
 * A copy of the thread's last failure. A call that returns no error saves it at its begin and restores it at its end,
 * because functions inside the call may fail.
 */
struct failure_copy {
	int error;
	unsigned retry_after_ms;
	char text[512];
	char rule[256];
};
void fail_save(struct failure_copy *ret);
void fail_restore(const struct failure_copy *copy);

/* Store a failure of the library; returns -ERROR. */
int fail(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Store a failure that the broker reported; returns -ERROR, or -EIO if ERROR is not positive. RULE may be empty;
 * RETRY_AFTER_MS is as in struct rdmabroker_failure.
 */
int fail_remote(int error, const char *text, const char *rule, unsigned retry_after_ms);

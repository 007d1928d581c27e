/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The last failure of each thread, for rdmabroker_last_failure(). */

/* What a thread's failure is, to be restored after a call that returns no error and may fail inside. */
struct failure_copy {
	int error;
	unsigned retry_after_ms;
	char text[512];
	char rule[256];
};
void fail_save(struct failure_copy *ret);
void fail_restore(const struct failure_copy *copy);

/* All return -ERROR. */
int fail(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A failure that the broker reported. RULE may be empty; RETRY_AFTER_MS as in struct rdmabroker_failure. */
int fail_remote(int error, const char *text, const char *rule, unsigned retry_after_ms);

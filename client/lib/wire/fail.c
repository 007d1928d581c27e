/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/wire/fail.h"
#include "client/rdmabroker.h"
#include "proto/text.h"

static _Thread_local struct failure_copy last;
static _Thread_local struct rdmabroker_failure last_public;

int fail(int error, const char *fmt, ...)
{
	va_list ap;

	last.error = -error;
	last.rule[0] = 0;
	last.retry_after_ms = 0;
	va_start(ap, fmt);
	vsnprintf(last.text, sizeof(last.text), fmt, ap);
	va_end(ap);
	return -error;
}

int fail_remote(int error, const char *text, const char *rule, unsigned retry_after_ms)
{
	if (error <= 0)
		error = EIO;
	last.error = -error;
	text_copy(last.text, sizeof(last.text), *text ? text : strerror(error));
	text_copy(last.rule, sizeof(last.rule), rule);
	last.retry_after_ms = retry_after_ms;
	return -error;
}

/* Not the whole of both texts: most are empty. */
static void copy(struct failure_copy *to, const struct failure_copy *from)
{
	to->error = from->error;
	to->retry_after_ms = from->retry_after_ms;
	text_copy(to->text, sizeof(to->text), from->text);
	text_copy(to->rule, sizeof(to->rule), from->rule);
}

void fail_save(struct failure_copy *ret)
{
	copy(ret, &last);
}

void fail_restore(const struct failure_copy *saved)
{
	copy(&last, saved);
}

const struct rdmabroker_failure *rdmabroker_last_failure(void)
{
	last_public = (struct rdmabroker_failure){
		.size = sizeof(last_public),
		.error = last.error,
		.retry_after_ms = last.retry_after_ms,
		.text = last.error ? last.text : "no call of this thread has failed",
		.rule = last.rule[0] ? last.rule : NULL,
	};
	return &last_public;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/lib/wire/fail.h"
#include "client/rdmabroker.h"

static _Thread_local struct {
	struct rdmabroker_failure public;
	char text[512];
	char rule[256];
} last;

int fail(int error, const char *fmt, ...)
{
	va_list ap;

	last.public = (struct rdmabroker_failure){
		.size = sizeof(last.public),
		.error = -error,
		.text = last.text,
	};
	va_start(ap, fmt);
	vsnprintf(last.text, sizeof(last.text), fmt, ap);
	va_end(ap);
	return -error;
}

int fail_remote(int error, const char *text, const char *rule, unsigned retry_after_ms)
{
	if (error <= 0)
		error = EIO;
	fail(error, "%s", text);
	snprintf(last.rule, sizeof(last.rule), "%s", rule);
	last.public.rule = last.rule[0] ? last.rule : NULL;
	last.public.retry_after_ms = retry_after_ms;
	return -error;
}

const struct rdmabroker_failure *rdmabroker_last_failure(void)
{
	if (!last.public.size)
		fail(0, "no call of this thread has failed");
	return &last.public;
}

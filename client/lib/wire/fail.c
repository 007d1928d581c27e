/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/lib/wire/fail.h"
#include "client/rdmabroker.h"

static _Thread_local struct {
	int error;
	char text[256];
	char rule[256];
	unsigned retry_after_ms;
} last;

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
	fail(error, "%s", text);
	snprintf(last.rule, sizeof(last.rule), "%s", rule);
	last.retry_after_ms = retry_after_ms;
	return -error;
}

void rdmabroker_get_failure(struct rdmabroker *session, struct rdmabroker_failure *ret)
{
	(void)session;
	ret->error = last.error;
	ret->text = last.text;
	ret->rule = last.rule[0] ? last.rule : NULL;
	ret->retry_after_ms = last.retry_after_ms;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"

void log_line(int priority, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (getenv("JOURNAL_STREAM"))
		fprintf(stderr, "<%d>%s\n", priority, text);
	else
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "proto/text.h"

void log_line(int priority, const char *fmt, ...)
{
	char text[1024], shown[TEXT_ESCAPED(sizeof(text))];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_escape(shown, sizeof(shown), text);
	if (getenv("JOURNAL_STREAM"))
		fprintf(stderr, "<%d>%s\n", priority, shown);
	else
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, shown);
}

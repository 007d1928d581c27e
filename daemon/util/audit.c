/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>

#include "proto/text.h"
#include "util/audit.h"

bool audit_begin(struct audit *audit, struct ratelimit *limit)
{
	audit->n_fields = audit->used = 0;
	return ratelimit_pass(limit, &audit->n_suppressed);
}

/* Clients and peers have chosen some of the values. */
void audit_add(struct audit *audit, const char *name, const char *fmt, ...)
{
	size_t left = sizeof(audit->space) - audit->used;
	char *field = audit->space + audit->used;
	char value[1024], shown[TEXT_ESCAPED(sizeof(value))];
	va_list ap;
	int n;

	if (audit->n_fields == AUDIT_FIELDS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	text_escape(shown, sizeof(shown), value);
	n = snprintf(field, left, "%s=%s", name, shown);
	if (n < 0 || (size_t)n >= left)
		return;
	audit->fields[audit->n_fields++] =
		(struct iovec){ .iov_base = field, .iov_len = (size_t)n };
	audit->used += (size_t)n + 1;
}

void audit_send(struct audit *audit, int level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (audit->n_suppressed > 0)
		log_msg(level, "(%u entries like the next one were left out)", audit->n_suppressed);
	log_fields(level, text, audit->fields, audit->n_fields);
}

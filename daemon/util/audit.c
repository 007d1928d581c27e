/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>

#include "util/audit.h"

bool audit_begin(struct audit *audit, struct ratelimit *limit)
{
	audit->n_fields = audit->used = 0;
	return ratelimit_pass(limit, &audit->n_suppressed);
}

/* A value can contain newlines, because sd_journal_sendv() passes each field with its length. */
void audit_add(struct audit *audit, const char *name, const char *fmt, ...)
{
	size_t left = sizeof(audit->space) - audit->used;
	char *field = audit->space + audit->used;
	int n, m = 0;
	va_list ap;

	if (audit->n_fields == AUDIT_FIELDS_MAX)
		return;
	n = snprintf(field, left, "%s=", name);
	if ((size_t)n < left) {
		va_start(ap, fmt);
		m = vsnprintf(field + n, left - (size_t)n, fmt, ap);
		va_end(ap);
	}
	if (m < 0 || (size_t)(n + m) >= left)
		return;
	audit->fields[audit->n_fields++] =
		(struct iovec){ .iov_base = field, .iov_len = (size_t)(n + m) };
	audit->used += (size_t)(n + m) + 1;
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

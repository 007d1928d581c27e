/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/admission.h"
#include "core/failure.h"
#include "policy/policy.h"

static void set_text(struct failure *failure, const char *fmt, va_list ap)
{
	failure->rule[0] = 0;
	failure->retry_after_ms = 0;
	vsnprintf(failure->text, sizeof(failure->text), fmt, ap);
}

int failure_set(struct failure *failure, enum status status, const char *fmt, ...)
{
	va_list ap;

	failure->status = status;
	failure->error = status_to_errno(status);
	va_start(ap, fmt);
	set_text(failure, fmt, ap);
	va_end(ap);
	return (int)status;
}

int failure_set_fabric(struct failure *failure, int r, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	failure->status = STATUS_FABRIC;
	failure->error = -r;
	va_start(ap, fmt);
	set_text(failure, fmt, ap);
	va_end(ap);
	n = strlen(failure->text);
	snprintf(failure->text + n, sizeof(failure->text) - n, ": %s", strerror(-r));
	return STATUS_FABRIC;
}

static void set_rule(struct failure *failure, const struct policy_rule *rule)
{
	snprintf(failure->rule, sizeof(failure->rule), "%s:%u", rule->file, rule->line);
}

int failure_set_busy(struct failure *failure, const struct policy_rule *rule,
		     const struct overflow *overflow, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	failure->status = STATUS_BUSY;
	failure->error = status_to_errno(STATUS_BUSY);
	va_start(ap, fmt);
	set_text(failure, fmt, ap);
	va_end(ap);
	n = strlen(failure->text);
	snprintf(failure->text + n, sizeof(failure->text) - n, ": %s is reached", overflow->limit);
	set_rule(failure, rule);
	failure->retry_after_ms = overflow->retry_after_ms;
	return STATUS_BUSY;
}

int failure_set_denied(struct failure *failure, const struct policy_verdict *verdict,
		       const char *fmt, ...)
{
	va_list ap;
	size_t n;

	failure->status = STATUS_DENIED;
	failure->error = status_to_errno(STATUS_DENIED);
	va_start(ap, fmt);
	set_text(failure, fmt, ap);
	va_end(ap);
	n = strlen(failure->text);
	if (verdict->answer == POLICY_REJECT)
		snprintf(failure->text + n, sizeof(failure->text) - n, ": %s", verdict->reason);
	if (verdict->rule)
		set_rule(failure, verdict->rule);
	return STATUS_DENIED;
}

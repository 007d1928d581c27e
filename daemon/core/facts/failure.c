/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/facts/admission.h"
#include "core/facts/failure.h"
#include "policy/policy.h"
#include "proto/addr.h"

static void set(struct failure *failure, enum status status, int error, const char *fmt, va_list ap)
{
	failure->status = status;
	failure->error = error;
	failure->rule[0] = 0;
	failure->retry_after_ms = 0;
	vsnprintf(failure->text, sizeof(failure->text), fmt, ap);
}

int failure_set(struct failure *failure, enum status status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set(failure, status, status_to_errno(status), fmt, ap);
	va_end(ap);
	return (int)status;
}

int failure_set_error(struct failure *failure, enum status status, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set(failure, status, error, fmt, ap);
	va_end(ap);
	return (int)status;
}

int failure_set_fabric(struct failure *failure, int r, const char *fmt, ...)
{
	char what[sizeof(failure->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return failure_set_error(failure, STATUS_FABRIC, -r, "cannot %s: %s", what, strerror(-r));
}

const char failure_loopback[] =
	"no RDMA device has the loopback address; give another address of this host";

static int set_loopback(struct failure *failure, const char *verb, const char *addr)
{
	return failure_set_error(failure, STATUS_FABRIC, ENODEV, "cannot %s %s: %s", verb, addr,
				 failure_loopback);
}

static const char *why_not_available(const struct sockaddr *addr)
{
	if (!addr)
		return "the port is in use";
	if (addr_is_wildcard(addr))
		return addr_port(addr) > 0 ? "the port is in use" : "no port is free";
	return addr_port(addr) > 0 ?
		       "this host does not have the address, or the port is in use on a wildcard "
		       "address" :
		       "this host does not have the address, or no port is free";
}

int failure_set_bind(struct failure *failure, int r, const char *verb, const struct sockaddr *addr)
{
	char text[ADDR_STRLEN];

	addr_to_string(addr, text);
	if (r == -ENODEV && addr && addr_is_loopback(addr))
		return set_loopback(failure, verb, text);
	if (r != -EADDRNOTAVAIL)
		return failure_set_fabric(failure, r, "%s%s%s", verb, addr ? " " : "",
					  addr ? text : "");
	return failure_set_error(failure, STATUS_FABRIC, EADDRNOTAVAIL, "cannot %s%s%s: %s", verb,
				 addr ? " " : "", addr ? text : "", why_not_available(addr));
}

int failure_set_resolve(struct failure *failure, int r, const struct sockaddr *src,
			const struct sockaddr *dst)
{
	char text[ADDR_STRLEN];

	addr_to_string(dst, text);
	if (r == -ENODEV && (addr_is_loopback(dst) || (src && addr_is_loopback(src))))
		return set_loopback(failure, "resolve", text);
	return failure_set_fabric(failure, r, "resolve %s", text);
}

/* Adds WHY to the text, and the rule that decided; NULL: none. */
static void add_reason(struct failure *failure, const char *why, const struct policy_rule *rule)
{
	size_t n = strlen(failure->text);

	snprintf(failure->text + n, sizeof(failure->text) - n, "%s%s", *why ? ": " : "", why);
	if (rule)
		snprintf(failure->rule, sizeof(failure->rule), "%s:%u", rule->file, rule->line);
}

int failure_set_busy(struct failure *failure, const struct policy_rule *rule,
		     const struct overflow *overflow, const char *fmt, ...)
{
	char why[sizeof(overflow->limit) + 16];
	va_list ap;

	va_start(ap, fmt);
	set(failure, STATUS_BUSY, status_to_errno(STATUS_BUSY), fmt, ap);
	va_end(ap);
	snprintf(why, sizeof(why), "%s is reached", overflow->limit);
	add_reason(failure, why, rule);
	failure->retry_after_ms = overflow->retry_after_ms;
	return STATUS_BUSY;
}

int failure_set_denied(struct failure *failure, const struct policy_verdict *verdict,
		       const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set(failure, STATUS_DENIED, status_to_errno(STATUS_DENIED), fmt, ap);
	va_end(ap);
	add_reason(failure, verdict->answer == POLICY_REJECT ? verdict->reason : "", verdict->rule);
	return STATUS_DENIED;
}

int failure_set_not_kept(struct failure *failure, const char *what)
{
	return failure_set(failure, STATUS_QUOTA,
			   "the broker has no room for further %s that outlive its restart", what);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"
#include "rdmacm.h"

/*
 * What the drop-in says on stderr: with RDMABROKER_DEBUG=1 each step, without it only what a user must know, once.
 */

#define PREFIX "librdmabroker-rdmacm: "

__attribute__((format(printf, 1, 0))) static void say(const char *fmt, va_list ap)
{
	/* Not on the stack, which can be small. fprintf() would take another 8 KiB of it. */
	struct {
		char text[1200], line[sizeof(PREFIX) + TEXT_ESCAPED(1200)];
	} *out = malloc(sizeof(*out));

	if (!out)
		return;
	vsnprintf(out->text, sizeof(out->text), fmt, ap);
	strcpy(out->line, PREFIX);
	text_escape(out->line + strlen(PREFIX), TEXT_ESCAPED(1200), out->text);
	strcat(out->line, "\n");
	/*
	 * One call writes the line, so that other threads cannot write into it. BROKER() disables cancellation,
	 * because the caller can hold locks.
	 */
	BROKER(fputs(out->line, stderr));
	free(out);
}

void report_debug(const char *fmt, ...)
{
	va_list ap;

	if (!secure_getenv("RDMABROKER_DEBUG"))
		return;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void report_once(const char *fmt, ...)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	va_list ap;

	if (secure_getenv("RDMABROKER_QUIET") || atomic_flag_test_and_set(&said))
		return;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

const char *report_failure(void)
{
	static _Thread_local char text[1024];
	const struct rdmabroker_failure *failure = rdmabroker_last_failure();

	snprintf(text, sizeof(text), "%s%s%s%s", failure->text, failure->rule ? " (rule " : "",
		 failure->rule ?: "", failure->rule ? ")" : "");
	return text;
}

/* Programs print "Permission denied", or an event's status as a number. */
static bool is_refusal(int r)
{
	return r == -EACCES || r == -EPERM;
}

int report_result(const char *what, int r)
{
	bool has_text = r < 0 && rdmabroker_last_failure()->error == r;

	if (r >= 0)
		return 0;
	if (secure_getenv("RDMABROKER_DEBUG"))
		report_debug("%s: %s", what, has_text ? report_failure() : strerror(-r));
	else if (is_refusal(r) && has_text)
		report_once("%s: %s", what, report_failure());
	/* -E2BIG means too much private data, for which the kernel returns EINVAL. */
	return fail(r == -E2BIG ? EINVAL : -r);
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	switch ((int)event) {
	case EVENT_ADDRINFO_RESOLVED:
		return "RDMA_CM_EVENT_ADDRINFO_RESOLVED";
	case EVENT_ADDRINFO_ERROR:
		return "RDMA_CM_EVENT_ADDRINFO_ERROR";
#define CASE(name)                 \
	case RDMA_CM_EVENT_##name: \
		return "RDMA_CM_EVENT_" #name
		CASE(ADDR_RESOLVED);
		CASE(ADDR_ERROR);
		CASE(ROUTE_RESOLVED);
		CASE(ROUTE_ERROR);
		CASE(CONNECT_REQUEST);
		CASE(CONNECT_RESPONSE);
		CASE(CONNECT_ERROR);
		CASE(UNREACHABLE);
		CASE(REJECTED);
		CASE(ESTABLISHED);
		CASE(DISCONNECTED);
		CASE(DEVICE_REMOVAL);
		CASE(MULTICAST_JOIN);
		CASE(MULTICAST_ERROR);
		CASE(ADDR_CHANGE);
		CASE(TIMEWAIT_EXIT);
#undef CASE
	}
	return "UNKNOWN EVENT";
}

void report_event(const struct rdmabroker_event *event)
{
	/* The other positive statuses are reasons of the transport, which have a text. */
	const char *text = event->text ?: event->status < 0 ? strerror(-event->status) : NULL;
	bool by_policy = event->rejected_by == RDMABROKER_REJECTED_BY_POLICY;

	const char *what = event->call ?: rdma_event_str((enum rdma_cm_event_type)event->type);

	if (!event->status || !text)
		return;
	if (secure_getenv("RDMABROKER_DEBUG"))
		report_debug("%s: %s%s", what,
			     by_policy ? "rejected by policy of the peer's broker: " : "", text);
	else if (is_refusal(event->status) && event->text)
		report_once("%s: %s", what, text);
}

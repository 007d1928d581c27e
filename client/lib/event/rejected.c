/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>

#include "client/lib/event/rejected.h"
#include "client/lib/id/idstate.h"
#include "proto/status.h"

/* Reject reasons of the transport: the kernel's enum ib_cm_rej_reason. */
enum {
	REJ_TIMEOUT = 4,
	REJ_NO_LISTENER = 8,
	REJ_STALE = 10,
	REJ_CONSUMER = 28,
	REJ_VENDOR_OPTION = 35,
};

/* Status of the answer to a look-up: the kernel's enum ib_cm_sidr_status. */
enum {
	SIDR_UNSUPPORTED = 1,
	SIDR_REJECT = 2,
};

static const char no_listener[] = "the peer has no listener at this port";

/* If the private data is a struct refusal, the peer's broker has rejected, else the peer's program. */
static void explain_listener(struct eventbuf *event)
{
	struct rdmabroker_event *e = &event->public;
	struct refusal refusal;

	if (!refusal_unpack(&refusal, e->conn->private_data, e->conn->private_data_len)) {
		e->rejected_by = RDMABROKER_REJECTED_BY_PEER;
		eventbuf_set_text(event, "the peer's program rejected the connection");
		return;
	}
	e->rejected_by = RDMABROKER_REJECTED_BY_POLICY;
	e->reject_code = (enum rdmabroker_reject_code)refusal.code;
	e->retry_after_ms = refusal.retry_after_ms;
	eventbuf_set_text(event,
			  refusal.text[0] ? refusal.text : "the peer's broker gave no reason");
}

void rejected_explain_lookup(struct eventbuf *event)
{
	struct rdmabroker_event *e = &event->public;

	if (e->status == SIDR_REJECT) {
		explain_listener(event);
	} else if (e->status == SIDR_UNSUPPORTED) {
		e->rejected_by = RDMABROKER_REJECTED_NO_LISTENER;
		eventbuf_set_text(event, no_listener);
	}
}

/*
 * iWARP has no reasons. Its status is -ECONNREFUSED or -ECONNRESET, which of them depends on the driver, and for a missing
 * listener as well as for a program's reject. Only private data tell that it was a reject.
 */
void rejected_explain(struct eventbuf *event)
{
	static const char iwarp[] = "the peer rejected the connection, or has no listener at this "
				    "port (iWARP does not tell which)";
	static const struct {
		int status;
		enum rdmabroker_rejecter by;
		const char *text;
	} reasons[] = {
		{ -ECONNREFUSED, RDMABROKER_REJECTED_BY_TRANSPORT, iwarp },
		{ -ECONNRESET, RDMABROKER_REJECTED_BY_TRANSPORT, iwarp },
		{ REJ_TIMEOUT, RDMABROKER_REJECTED_TIMEOUT,
		  "the peer's connection manager timed out" },
		{ REJ_NO_LISTENER, RDMABROKER_REJECTED_NO_LISTENER, no_listener },
		{ REJ_STALE, RDMABROKER_REJECTED_STALE,
		  "the peer still has an earlier connection of this QP number; try again" },
		{ REJ_VENDOR_OPTION, RDMABROKER_REJECTED_ECE,
		  "the peer's program rejected the ECE options" },
	};
	struct rdmabroker_event *e = &event->public;
	bool is_iwarp = e->status == -ECONNREFUSED || e->status == -ECONNRESET;

	if (e->status == REJ_CONSUMER || (is_iwarp && e->conn->private_data_len > 0)) {
		explain_listener(event);
		return;
	}
	e->rejected_by = RDMABROKER_REJECTED_BY_TRANSPORT;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == e->status) {
			e->rejected_by = reasons[i].by;
			eventbuf_set_text(event, reasons[i].text);
			return;
		}
	snprintf(event->text, sizeof(event->text), "connection manager reason %d", e->status);
	e->text = event->text;
}

bool rejected_is_busy(const struct rdmabroker_event *event)
{
	return event->rejected_by == RDMABROKER_REJECTED_BY_POLICY &&
	       event->reject_code == RDMABROKER_REJECT_BUSY;
}

bool rejected_is_retried(const struct rdmabroker_id *id, const struct rdmabroker_event *event)
{
	return (id->retries & RETRY_STALE && event->rejected_by == RDMABROKER_REJECTED_STALE) ||
	       (id->retries & RETRY_BUSY && rejected_is_busy(event));
}

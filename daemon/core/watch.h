/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Sessions of admins that want to be told of all that happens, as far as it passes their filter: what is
 * decided, the events that clients are told, sessions that come and go. Where nobody watches that costs
 * a look at a list that is empty. A session's watch ends with the session.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/decide.h"
#include "core/session.h"
#include "util/list.h"

enum notice_kind {
	NOTICE_DECISION, /* of policy, or of a rule's limits */
	NOTICE_CM, /* an event that a client is told */
	NOTICE_SESSION, /* one that has come or gone */
	_NOTICE_KIND_MAX,
};

enum notice_outcome {
	NOTICE_ALLOWED,
	NOTICE_REJECTED,
	NOTICE_BUSY, /* allowed, and then refused for a limit of the rule */
	_NOTICE_OUTCOME_MAX,
};

/* Valid during the call that tells it. */
struct notice {
	enum notice_kind kind;
	uint64_t time_ns; /* CLOCK_REALTIME */
	const struct session *session; /* whose it is */
	const struct id *id; /* NULL: not about one */
	const struct id *request; /* that a CONNECT_REQUEST brings, else NULL */
	const struct sockaddr *local, *peer; /* NULL: not known */
	const char *device; /* likewise */
	int port_space; /* 0: not known */
	const struct policy_rule *rule; /* NULL: none matched, or has decided yet */
	const char *reason; /* NULL: none */

	/* DECISION */
	enum policy_operation operation;
	enum notice_outcome outcome;
	uint32_t retry_after_ms; /* BUSY, else 0 */

	/* CM: see id_event_to_word(); SESSION: "opened", "closed" */
	const char *event;
	int status; /* CM: a negative errno, or the transport's reason */
};

/* All of it has to be so. */
struct watch_filter {
	int kind; /* enum notice_kind; -1: any */
	int operation; /* enum policy_operation, which only decisions have; -1: any */
	int outcome; /* enum notice_outcome, likewise */
	bool by_uid;
	uid_t uid;
	uint64_t session; /* 0: any */
	struct sockaddr_storage peer; /* its port does not count; AF_UNSPEC: any */
	uint16_t port; /* local or the peer's; 0: any */
};

struct watch {
	struct list link; /* core.watches */
	struct session *session;
	struct watch_filter filter;
};

static inline bool core_is_watched(const struct core *core)
{
	return !list_is_empty(&core->watches);
}

/* From now on; one that SESSION has already gets the new FILTER. 0 or -ENOMEM: then nothing has changed. */
int session_watch(struct session *session, const struct watch_filter *filter);
struct watch *watch_free(struct watch *watch);

/* These are to be asked for only where core_is_watched(). OVERFLOW may be NULL. */
void watch_decision(const struct session *session, const struct wish *wish,
		    const struct policy_verdict *verdict, const struct overflow *overflow);
void watch_cm(const struct session_event *event);
void watch_session(const struct session *session, const char *event, const char *reason);

uint64_t watch_time_ns(void); /* a notice's, now */
const char *notice_kind_to_string(enum notice_kind kind);
const char *notice_outcome_to_string(enum notice_outcome outcome);

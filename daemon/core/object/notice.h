/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the broker tells sessions that watch (watch.h), and the helper (inquiry.h). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "policy/policy.h"

#define NOTICE_PACKET_MAX 16384 /* as PACKET_MAX */

struct id;
struct peerid;
struct session;

/* In the order of notice_kind_names. */
enum notice_kind {
	NOTICE_DECISION, /* policy, or a rule's limit, has decided */
	NOTICE_CM, /* an event of an id, even if it is not sent to the client */
	NOTICE_SESSION, /* a session has begun or ended */
	NOTICE_LOST, /* notices were dropped: made by rpc/ */
	NOTICE_QUESTION, /* an inquiry: only the helper gets it, see inquiry.h */
	_NOTICE_KIND_MAX,
};
#define NOTICE_KIND_WATCHED_MAX NOTICE_LOST /* sessions can watch the kinds below it */

/* In the order of outcome_names. */
enum notice_outcome {
	NOTICE_ALLOWED,
	NOTICE_REJECTED,
	NOTICE_BUSY, /* allowed, but then refused by a limit of the rule */
	NOTICE_WARNED, /* allowed by a warn rule */
	_NOTICE_OUTCOME_MAX,
};

/* A notice as it is sent: made by rpc/ for the first session that gets it, and sent to all. */
struct notice_packet {
	size_t len; /* 0: not made yet */
	uint8_t data[NOTICE_PACKET_MAX];
};

/* Valid only during the call of session_ops.notice. */
struct notice {
	struct notice_packet *packet; /* NULL: only one session gets the notice */
	enum notice_kind kind;
	uint64_t time_ns; /* CLOCK_REALTIME */
	const struct session *session;
	const struct id *id; /* NULL: none */
	const struct id *request; /* the new id of a CONNECT_REQUEST, else NULL */
	const struct sockaddr *local, *peer; /* NULL: not known */
	const char *device; /* NULL: not known */
	int port_space; /* 0: not known */
	const struct policy_rule *rule; /* NULL: no rule matched, or none has decided yet */
	const char *reason; /* for users; NULL: none */

	/* For NOTICE_DECISION: */
	enum policy_operation operation;
	enum notice_outcome outcome;
	uint32_t retry_after_ms; /* for NOTICE_BUSY, else 0 */
	bool asked; /* it was asked who the peer is */
	const struct peerid *peerid; /* if ASKED; NULL: out of memory */

	/* For NOTICE_QUESTION, besides OPERATION: */
	uint64_t question; /* number of the inquiry */
	uint32_t peer_qpn; /* 0: not known */

	/* NOTICE_CM: of event_names, or NULL; NOTICE_SESSION: "opened" or "closed" */
	const char *event;
	int status; /* NOTICE_CM: a negative errno, or the transport's reason */
};

static inline uint64_t notice_time_ns(void) /* CLOCK_REALTIME */
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

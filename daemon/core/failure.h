/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A failure describes why a request was refused, why a later step failed, or why the broker has ended an id.
 * The code that refuses the request fills it in, and rpc/request.c puts it into the reply. In the other cases it is
 * put into an event.
 */

#include "proto/status.h"
#include "util/origin.h"

struct overflow;
struct policy_rule;
struct policy_verdict;
struct sockaddr;

struct failure {
	enum status status;
	int error; /* positive errno */
	char text[256];
	char rule[256]; /* "file:line" of the rule that decided, or empty */
	uint32_t retry_after_ms; /* STATUS_BUSY only, else 0 */
	struct origin origin; /* the line of code that first returned the verb's negative errno */
};

/* If R is a negative errno, records this line of code in FAILURE, for the journal. Returns R. */
#define failure_errno(failure, r) origin_note(&(failure)->origin, (r))

/* These functions return the status that they set, so that a verb can end with `return failure_set(...)`. */
int failure_set(struct failure *failure, enum status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* STATUS_FABRIC: the connection manager has refused a call with the negative errno R. FMT describes the call. */
int failure_set_fabric(struct failure *failure, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * As failure_set_fabric(), for a call that takes a port of ADDR. The text also explains EADDRNOTAVAIL, which the
 * kernel returns for several causes: for example, the port is in use and one of the two conflicting addresses is a
 * wildcard. VERB is for the text ("bind"). ADDR is NULL if the id is bound already.
 */
int failure_set_bind(struct failure *failure, int r, const char *verb, const struct sockaddr *addr);
/* STATUS_BUSY: the limit in OVERFLOW, of RULE, is reached. */
int failure_set_busy(struct failure *failure, const struct policy_rule *rule,
		     const struct overflow *overflow, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/*
 * STATUS_DENIED by VERDICT. Records the verdict's rule, if any. If VERDICT rejects, appends its reason to the text.
 */
int failure_set_denied(struct failure *failure, const struct policy_verdict *verdict,
		       const char *fmt, ...) __attribute__((format(printf, 3, 4)));

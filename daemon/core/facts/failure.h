/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Why a request was refused, why a later step failed, or why the broker has ended an id. The client gets the failure
 * in the reply or in an event.
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

/* These functions return the status that they set. */
int failure_set(struct failure *failure, enum status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* With ERROR, a positive errno, which is not the one of STATUS. */
int failure_set_error(struct failure *failure, enum status status, int error, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* STATUS_FABRIC: a call of fabric/ has failed with the negative errno R. FMT describes the call. */
int failure_set_fabric(struct failure *failure, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * As failure_set_fabric(), for a call that takes a port of ADDR; NULL: the id is bound already. For EADDRNOTAVAIL,
 * the text names the possible causes. VERB is for the text ("bind").
 */
int failure_set_bind(struct failure *failure, int r, const char *verb, const struct sockaddr *addr);
/*
 * As failure_set_fabric(), for resolving DST from SRC, which may be NULL. An address of the loopback gets the text of
 * failure_loopback.
 */
int failure_set_resolve(struct failure *failure, int r, const struct sockaddr *src,
			const struct sockaddr *dst);
/* The reason for ENODEV with a loopback address, for which the kernel only says "No such device". */
extern const char failure_loopback[];
/* STATUS_BUSY: RULE's limit in OVERFLOW is reached. */
int failure_set_busy(struct failure *failure, const struct policy_rule *rule,
		     const struct overflow *overflow, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* STATUS_DENIED by VERDICT. If VERDICT rejects, its reason is appended to the text. */
int failure_set_denied(struct failure *failure, const struct policy_verdict *verdict,
		       const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* There is no room to keep WHAT ("ids"), which would be gone after a restart. Returns STATUS_QUOTA. */
int failure_set_not_kept(struct failure *failure, const char *what);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Why a request was refused, as the client will read it. Set where the refusal is decided; turned into a
 * reply in one place, rpc/request.c.
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
	char rule[256]; /* "file:line", or empty */
	uint32_t retry_after_ms; /* STATUS_BUSY only, else 0 */
	struct origin origin; /* of a negative errno that was returned instead of a status */
};

/* Notes this line in FAILURE if R is a negative errno, for the journal. Returns R. */
#define failure_errno(failure, r) origin_note(&(failure)->origin, (r))

/* All return STATUS, so that a verb can end with `return failure_set(...)`. */
int failure_set(struct failure *failure, enum status status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The connection manager's refusal: R is a negative errno, FMT describes the call. */
int failure_set_fabric(struct failure *failure, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Likewise for a call that takes a port. If the port is in use and one of the two conflicting addresses is a wildcard,
 * the kernel returns EADDRNOTAVAIL. VERB is for example "bind". ADDR is NULL if the id is bound already.
 */
int failure_set_bind(struct failure *failure, int r, const char *verb, const struct sockaddr *addr);
/* A limit of RULE is reached. */
int failure_set_busy(struct failure *failure, const struct policy_rule *rule,
		     const struct overflow *overflow, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Denied by VERDICT. Its rule is recorded; its reason is appended if it rejects. */
int failure_set_denied(struct failure *failure, const struct policy_verdict *verdict,
		       const char *fmt, ...) __attribute__((format(printf, 3, 4)));

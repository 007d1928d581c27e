/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A journal entry with fields of its own. rdmabrokerd(8) lists the fields, and systemd/rdmabroker.catalog
 * explains the message ids. Without a journal the entry is a line on stderr.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "util/log.h"

#define AUDIT_REJECTED_ID "6a1f0f3f5c0b4f0e9d6d0c8a4c5e7b21"
#define AUDIT_BUSY_ID "b3d2c4e19a7e4d52a0c6f18e2b9d7f43"
#define AUDIT_WARNED_ID "0b5f3e4d27c94c0a9a4e6b8f1d2c7a35"
#define AUDIT_ALLOWED_ID "e27c95d0418f4b3c8d1a6f7e0b5c2a94"

#define AUDIT_FIELDS_MAX 24

struct audit {
	unsigned n_suppressed; /* entries that the rate limit left out before this one */
	struct iovec fields[AUDIT_FIELDS_MAX];
	size_t n_fields;
	char space[4096]; /* holds the text that FIELDS point to */
	size_t used;
};

/* False: the rate limit is reached. Then audit_add() and audit_send() must not be called. */
bool audit_begin(struct audit *audit, struct ratelimit *limit);
/* A field that does not fit is left out. */
void audit_add(struct audit *audit, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void audit_send(struct audit *audit, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

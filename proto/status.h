/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The reasons for which a request is refused. A function returns 0, a positive status (an error of the request,
 * reported only to its client), or a negative errno (a failure of the daemon). The numbers are part of the protocol
 * and are never reused.
 */

enum status {
	STATUS_OK = 0,
	STATUS_INTERNAL = 1, /* a failure of the daemon, not an error of the request */
	STATUS_BAD_REQUEST = 2, /* a field is missing, over-long or out of range */
	STATUS_BAD_STATE = 3, /* Hello is missing, or the id's state does not allow the request */
	STATUS_NO_SUCH_ID = 4,
	STATUS_DENIED = 5, /* rejected by policy */
	STATUS_NOT_PERMITTED = 6, /* this session may not use this operation */
	STATUS_NOT_OWNER = 7, /* the QP is not the client's */
	STATUS_QUOTA = 8,
	STATUS_FABRIC = 9, /* the connection manager failed; see the errno */
	STATUS_NO_DEVICE = 10,
	STATUS_VERSION = 11, /* no common protocol version */
	STATUS_UNKNOWN_OPERATION = 12,
	STATUS_BUSY = 13, /* policy allows the request, but a limit of the rule is reached */
	STATUS_DRAINING = 14, /* an admin has started draining */
	_STATUS_MAX,
};

/* The errno for STATUS, if no more exact errno is known. */
int status_to_errno(enum status status);

/* A broker's refusal, in the private data of a reject: a header (see status.c), then text without NUL. */
#define REFUSAL_MAGIC "RDBK"
#define REFUSAL_VERSION 1
#define REFUSAL_HEADER_LEN 12
#define REFUSAL_MAX PRIVATE_DATA_REJECT
#define REFUSAL_MAX_LOOKUP PRIVATE_DATA_LOOKUP_ANSWER
#define REFUSAL_TEXT_MAX (REFUSAL_MAX - REFUSAL_HEADER_LEN)

enum refusal_code {
	REFUSAL_DENIED = 1,
	REFUSAL_BUSY = 2,
	REFUSAL_NO_RULE = 3,
	REFUSAL_DRAINING = 4,
};

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/private_data.h"

struct refusal {
	enum refusal_code code;
	uint32_t retry_after_ms;
	char text[REFUSAL_TEXT_MAX + 1];
};

/*
 * Writes a refusal of at most MAX bytes to BUF. If TEXT does not fit, it is cut between two UTF-8 characters. Returns
 * the refusal's length.
 */
size_t refusal_pack(uint8_t buf[REFUSAL_MAX], size_t max, enum refusal_code code,
		    uint32_t retry_after_ms, const char *text);
/*
 * Reads a refusal from DATA, which can be padded. Bytes of its text that are not printable UTF-8 become '?'. False:
 * DATA is no refusal by a broker.
 */
bool refusal_unpack(struct refusal *ret, const void *data, size_t len);

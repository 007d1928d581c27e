/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Requests as bytes, encoded by hand, because the generated code cannot write invalid messages. */

#include <stddef.h>
#include <stdint.h>

#include "proto/packet.h"

#define REQUEST_FIRST 16
#define REQUEST_LAST 62
const char *request_name(int op);

/*
 * Encodes a valid request, for the id ID if it has one. EXTRA: encoded fields to append, valid or not. Returns the
 * packet's length.
 */
size_t request_make(uint32_t serial, int op, uint32_t id, const uint8_t *extra, size_t extra_len,
		    uint8_t buf[PACKET_MAX]);

/* For the two functions below, which call TRY with many requests. Requests about an id use id 1. */
struct request_trial {
	uint32_t *serial; /* the last serial that was used */
	void (*try)(void *userdata, const uint8_t *buf, size_t len, const char *what);
	void *userdata;
};

/* Tries every request, cut at every length below its own. */
void request_each_cut(const struct request_trial *trial);
/* Tries each field with values at and past the usual limits, and with each wire type. */
void request_each_field(const struct request_trial *trial);

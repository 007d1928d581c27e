/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A decoded packet of the broker. Usually one block of memory holds all of it: an event has a dozen nested messages,
 * and an allocation for each of them would take longer.
 */

#include <stddef.h>
#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"

/* NULL: not a valid packet, or out of memory. */
Rdmabroker__Frame *frame_unpack(const uint8_t *data, size_t len);
/* The memory that FRAME takes, in bytes. */
size_t frame_get_size(const Rdmabroker__Frame *frame);
/* NULL is allowed. */
void frame_free(Rdmabroker__Frame *frame);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A decoded packet of the broker. All of it lies in one piece of memory, as a rule: an event has a dozen
 * messages within messages.
 */

#include <stddef.h>
#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"

/* NULL: it is none, or there is no memory. */
Rdmabroker__Frame *frame_unpack(const uint8_t *data, size_t len);
/* Of the memory that it takes, in bytes. */
size_t frame_get_size(const Rdmabroker__Frame *frame);
/* NULL is nothing to be freed. */
void frame_free(Rdmabroker__Frame *frame);

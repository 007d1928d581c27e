/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Memory for one decoded packet: a fixed space on the stack. A packet that needs more cannot be decoded. So a
 * client cannot make the daemon allocate memory, and a request costs no malloc().
 */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_SIZE 65536

struct arena {
	ProtobufCAllocator allocator;
	size_t used;
	_Alignas(max_align_t) uint8_t space[ARENA_SIZE];
};

void arena_init(struct arena *arena);

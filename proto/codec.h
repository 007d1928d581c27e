/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Packs and unpacks frames. What a connection needs in its life goes through straight-line code that is made from
 * rdmabroker.proto when the project is built (codecgen.c), and that takes a fifth of the instructions of protobuf-c.
 * Everything else goes through protobuf-c. Both write the same bytes, and what the former reads, the latter reads in the
 * same way: the straight-line code leaves a packet to protobuf-c at the first byte that it would not have written
 * itself.
 */

#include <stddef.h>
#include <stdint.h>

#include "proto/arena.h"
#include "proto/rdmabroker.pb-c.h"

/* Packs FRAME into BUF. Returns the packet's length; 0: it is longer than SIZE. */
size_t codec_pack(const Rdmabroker__Frame *frame, uint8_t *buf, size_t size);
/*
 * Unpacks a packet, with memory of ARENA, from which nothing was taken yet: the frame is at its beginning. NULL: it is no
 * frame, or there is too little memory.
 */
Rdmabroker__Frame *codec_unpack(struct arena *arena, const uint8_t *data, size_t len);

/* The straight-line code alone, for tests. 0 and NULL: it leaves this to protobuf-c, and nothing was taken from ARENA. */
size_t codec_try_pack(const Rdmabroker__Frame *frame, uint8_t *buf, size_t size);
Rdmabroker__Frame *codec_try_unpack(struct arena *arena, const uint8_t *data, size_t len);

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <string.h>

#include "proto/codec.h"

/* Packing goes from the end of the space to its beginning. P: the first byte that is written; each returns the next P. */

#define ROOM 20 /* for a tag and a number, or a length, of any size */

static inline bool has_room(const uint8_t *p, const uint8_t *begin)
{
	return p - begin >= ROOM;
}

static inline uint8_t *put_u64(uint8_t *p, uint64_t value)
{
	unsigned n = (unsigned)(63 - __builtin_clzll(value | 1)) / 7;

	p -= n + 1;
	for (unsigned i = 0; i < n; i++, value >>= 7)
		p[i] = (uint8_t)(value | 0x80);
	p[n] = (uint8_t)value;
	return p;
}

static inline uint8_t *put_u32(uint8_t *p, uint32_t value)
{
	if (value >= 0x80)
		return put_u64(p, value);
	*--p = (uint8_t)value;
	return p;
}

/* A negative number has 64 bits. */
static inline uint8_t *put_i32(uint8_t *p, int32_t value)
{
	return put_u64(p, (uint64_t)(int64_t)value);
}

static inline uint8_t *put_bool(uint8_t *p, protobuf_c_boolean value)
{
	*--p = value != 0;
	return p;
}

/* NULL: there is no room. */
static inline uint8_t *put_bytes(uint8_t *p, const uint8_t *begin, const uint8_t *data, size_t len)
{
	if ((size_t)(p - begin) < ROOM || len > (size_t)(p - begin) - ROOM)
		return NULL;
	p -= len;
	memcpy(p, data, len);
	return put_u32(p, (uint32_t)len);
}

/* Unpacking: each returns the first byte that was not read; NULL: the packet is left to protobuf-c. */

static inline const uint8_t *get_u64(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; p < end && shift < 63; shift += 7) {
		value |= (uint64_t)(*p & 0x7f) << shift;
		if (*p++ < 0x80) {
			*ret = value;
			return p;
		}
	}
	/* The tenth byte has only the highest bit. */
	if (p == end || *p > 1)
		return NULL;
	*ret = value | (uint64_t)*p << 63;
	return p + 1;
}

static inline const uint8_t *get_u32(const uint8_t *p, const uint8_t *end, uint32_t *ret)
{
	uint64_t value;

	if (p < end && *p < 0x80) {
		*ret = *p;
		return p + 1;
	}
	p = get_u64(p, end, &value);
	if (!p || value > UINT32_MAX)
		return NULL;
	*ret = (uint32_t)value;
	return p;
}

static inline const uint8_t *get_i32(const uint8_t *p, const uint8_t *end, int32_t *ret)
{
	uint64_t value;

	p = get_u64(p, end, &value);
	if (!p || (int64_t)value != (int32_t)value)
		return NULL;
	*ret = (int32_t)value;
	return p;
}

static inline const uint8_t *get_bool(const uint8_t *p, const uint8_t *end, protobuf_c_boolean *ret)
{
	if (p == end || *p > 1)
		return NULL;
	*ret = *p;
	return p + 1;
}

/* protobuf-c refuses a tag or a length of more than five bytes, even if it is a small number. */
static inline const uint8_t *get_short(const uint8_t *p, const uint8_t *end, uint32_t *ret)
{
	if (p < end && *p < 0x80) {
		*ret = *p;
		return p + 1;
	}
	return get_u32(p, end - p > 5 ? p + 5 : end, ret);
}

static inline const uint8_t *get_len(const uint8_t *p, const uint8_t *end, uint32_t *ret)
{
	p = get_short(p, end, ret);
	return p && *ret <= (size_t)(end - p) ? p : NULL;
}

static const uint8_t *get_bytes(struct arena *arena, const uint8_t *p, const uint8_t *end,
				ProtobufCBinaryData *ret)
{
	uint32_t len;

	p = get_len(p, end, &len);
	if (!p)
		return NULL;
	ret->len = len;
	if (len == 0)
		return p;
	ret->data = arena_take(arena, len);
	if (!ret->data)
		return NULL;
	memcpy(ret->data, p, len);
	return p + len;
}

static const uint8_t *get_text(struct arena *arena, const uint8_t *p, const uint8_t *end,
			       char **ret)
{
	uint32_t len;

	p = get_len(p, end, &len);
	if (!p)
		return NULL;
	*ret = arena_take(arena, (size_t)len + 1);
	if (!*ret)
		return NULL;
	memcpy(*ret, p, len);
	(*ret)[len] = 0;
	return p + len;
}

/* Which member of a oneof is chosen: a member of MESSAGE at OFFSET. */
static inline int *chosen(const void *message, size_t offset)
{
	return (int *)((uintptr_t)message + offset);
}

#include "proto/coders.h"

size_t codec_try_pack(const Rdmabroker__Frame *frame, uint8_t *buf, size_t size)
{
	uint8_t *p = put_frame(buf + size, buf, frame);
	size_t len = p ? (size_t)(buf + size - p) : 0;

	if (len > 0)
		memmove(buf, p, len);
	return len;
}

Rdmabroker__Frame *codec_try_unpack(struct arena *arena, const uint8_t *data, size_t len)
{
	Rdmabroker__Frame *frame = arena_take(arena, sizeof(*frame));

	if (frame && get_frame(arena, data, data + len, frame))
		return frame;
	arena_give_back(arena);
	return NULL;
}

size_t codec_pack(const Rdmabroker__Frame *frame, uint8_t *buf, size_t size)
{
	size_t len = codec_try_pack(frame, buf, size);

	if (len > 0)
		return len;
	return rdmabroker__frame__get_packed_size(frame) <= size ?
		       rdmabroker__frame__pack(frame, buf) :
		       0;
}

Rdmabroker__Frame *codec_unpack(struct arena *arena, const uint8_t *data, size_t len)
{
	return codec_try_unpack(arena, data, len) ?:
		       rdmabroker__frame__unpack(&arena->allocator, len, data);
}

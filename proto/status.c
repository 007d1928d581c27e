/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "proto/status.h"
#include "proto/text.h"

int status_to_errno(enum status status)
{
	static const int errors[_STATUS_MAX] = {
		[STATUS_OK] = 0,
		[STATUS_INTERNAL] = EIO,
		[STATUS_BAD_REQUEST] = EINVAL,
		[STATUS_BAD_STATE] = EINVAL,
		[STATUS_NO_SUCH_ID] = EBADF,
		[STATUS_DENIED] = EACCES,
		[STATUS_NOT_PERMITTED] = EACCES,
		[STATUS_NOT_OWNER] = EPERM,
		[STATUS_QUOTA] = EDQUOT,
		[STATUS_FABRIC] = EIO,
		[STATUS_NO_DEVICE] = ENODEV,
		[STATUS_VERSION] = EPROTO,
		[STATUS_UNKNOWN_OPERATION] = EOPNOTSUPP,
		[STATUS_BUSY] = EBUSY,
		[STATUS_DRAINING] = ESHUTDOWN,
	};

	return status < _STATUS_MAX ? errors[status] : EIO;
}

/*
 * A refusal in the private data of a reject:
 *
 *   0  magic "RDBK"
 *   4  version   u8
 *   5  code      u8
 *   6  text_len  u8
 *   7  0         u8
 *   8  retry_after_ms  u32, network order
 *   12  text
 *
 * The header has the length of the text, because the transport pads private data with zeroes.
 */
size_t refusal_pack(uint8_t buf[REFUSAL_MAX], size_t max, enum refusal_code code,
		    uint32_t retry_after_ms, const char *text)
{
	size_t len = strlen(text);

	if (len > max - REFUSAL_HEADER_LEN) {
		len = max - REFUSAL_HEADER_LEN;
		while (len > 0 && ((uint8_t)text[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(buf, REFUSAL_MAGIC, 4);
	buf[4] = REFUSAL_VERSION;
	buf[5] = (uint8_t)code;
	buf[6] = (uint8_t)len;
	buf[7] = 0;
	for (int i = 0; i < 4; i++)
		buf[8 + i] = (uint8_t)(retry_after_ms >> (24 - 8 * i));
	memcpy(buf + REFUSAL_HEADER_LEN, text, len);
	return REFUSAL_HEADER_LEN + len;
}

bool refusal_unpack(struct refusal *ret, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t text_len;

	if (len < REFUSAL_HEADER_LEN || memcmp(p, REFUSAL_MAGIC, 4) != 0 || p[4] != REFUSAL_VERSION)
		return false;
	text_len = p[6];
	if (text_len > REFUSAL_TEXT_MAX || REFUSAL_HEADER_LEN + text_len > len)
		return false;

	ret->code = p[5];
	ret->retry_after_ms = (uint32_t)p[8] << 24 | (uint32_t)p[9] << 16 | (uint32_t)p[10] << 8 |
			      p[11];
	memcpy(ret->text, p + REFUSAL_HEADER_LEN, text_len);
	ret->text[text_len] = 0;
	/* The text comes from another host, so it is not trusted. */
	text_make_printable(ret->text, text_len);
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Base64 (RFC 4648, with padding), by libcrypto. In it etcd's gateway has keys and values. */

#include <stddef.h>

/* Returns LEN bytes of DATA as malloc()ed text; NULL: out of memory. */
char *base64_encode(const void *data, size_t len);
/*
 * Decodes TEXT. *RET is malloc()ed, and has a NUL byte after *RET_LEN bytes. -EPROTO: TEXT is not base64, not padded, or
 * has bits that no encoder sets; -ENOMEM.
 */
int base64_decode(const char *text, size_t text_len, char **ret, size_t *ret_len);

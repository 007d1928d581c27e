/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* SHA-256 (FIPS 180-4), by libcrypto, as hexadecimal digits. */

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>

#define SHA256_TEXT 65 /* with the NUL */

/* False: out of memory. */
static inline bool sha256_text(const void *data, size_t len, char ret[SHA256_TEXT])
{
	unsigned char sum[32];

	if (EVP_Digest(data, len, sum, NULL, EVP_sha256(), NULL) != 1)
		return false;
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(ret + 2 * i, 3, "%02x", sum[i]);
	return true;
}

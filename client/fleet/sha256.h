/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* SHA-256 (FIPS 180-4), by libcrypto. */

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>

#define SHA256_SIZE 32

/* False: out of memory. */
static inline bool sha256(const void *data, size_t len, uint8_t ret[SHA256_SIZE])
{
	return EVP_Digest(data, len, ret, NULL, EVP_sha256(), NULL) == 1;
}

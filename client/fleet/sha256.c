/* SPDX-License-Identifier: BSD-2-Clause */
#include <openssl/evp.h>

#include "sha256.h"

bool sha256(const void *data, size_t len, uint8_t ret[SHA256_SIZE])
{
	return EVP_Digest(data, len, ret, NULL, EVP_sha256(), NULL) == 1;
}

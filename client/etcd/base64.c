/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"

char *base64_encode(const void *data, size_t len)
{
	char *text = len < INT_MAX / 2 ? malloc((len + 2) / 3 * 4 + 1) : NULL;

	if (text)
		EVP_EncodeBlock((unsigned char *)text, data, (int)len);
	return text;
}

/* libcrypto accepts blanks around the text, '=' everywhere and any bits after the last byte: each value has one form only. */
static int check_form(const char *text, size_t text_len, const char *data, size_t len)
{
	char *again = base64_encode(data, len);
	int r;

	if (!again)
		return -ENOMEM;
	r = strlen(again) == text_len && memcmp(again, text, text_len) == 0 ? 0 : -EPROTO;
	free(again);
	return r;
}

int base64_decode(const char *text, size_t text_len, char **ret, size_t *ret_len)
{
	size_t len = text_len / 4 * 3;
	char *data;
	int r;

	if (text_len % 4 != 0 || text_len > INT_MAX / 2)
		return -EPROTO;
	data = malloc(len + 1);
	if (!data)
		return -ENOMEM;
	r = EVP_DecodeBlock((unsigned char *)data, (const unsigned char *)text, (int)text_len);
	/* The padding was decoded, too. */
	if (text_len > 0)
		len -= (size_t)(text[text_len - 1] == '=') + (text[text_len - 2] == '=');
	r = r < 0 || (size_t)r < len ? -EPROTO : check_form(text, text_len, data, len);
	if (r < 0) {
		free(data);
		return r;
	}
	data[len] = 0;
	*ret = data;
	*ret_len = len;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "client/lib/wire/fail.h"
#include "client/lib/wire/sized.h"

/* No version of a struct will be larger: a larger size means that the program has not set it. */
#define SIZE_MAX_SANE 4096

int sized_check(const void *ret, size_t first, const char *call, const char *type)
{
	size_t size;

	if (!ret)
		return fail(EINVAL, "%s: the pointer to struct %s is NULL", call, type);
	size = *(const size_t *)ret;
	if (size >= first && size <= SIZE_MAX_SANE)
		return 0;
	return fail(EINVAL,
		    "%s: the size of struct %s is %zu: initialize the struct with its _INIT macro",
		    call, type, size);
}

int sized_take(void *ret, const void *src, size_t size, size_t first, size_t last, const char *call,
	       const char *type)
{
	const uint8_t *bytes = src;
	size_t given;
	int r = sized_check(src, first, call, type);

	if (r < 0)
		return r;
	given = *(const size_t *)src;
	for (size_t i = last; i < given; i++)
		if (bytes[i])
			return fail(EOPNOTSUPP,
				    "%s: struct %s has a member at byte %zu that this library "
				    "does not support: the library is older than the program",
				    call, type, i);
	memcpy(ret, src, given < last ? given : last);
	*(size_t *)ret = size;
	return 0;
}

void sized_give(void *ret, const void *src)
{
	size_t size = *(const size_t *)ret, known = *(const size_t *)src;

	if (size > known)
		size = known;
	memcpy(ret, src, size);
	*(size_t *)ret = size;
}

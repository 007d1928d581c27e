/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/wire/fail.h"
#include "client/lib/wire/sized.h"

/* Larger than a struct of any later version can be: the program has not set the size. */
#define SIZE_MAX_SANE 4096

static int check_size(size_t size, size_t first, const char *call, const char *type)
{
	if (size >= first && size <= SIZE_MAX_SANE)
		return 0;
	return fail(EINVAL,
		    "%s: the size of struct %s is %zu: initialize the struct with its macro, which "
		    "ends in _INIT",
		    call, type, size);
}

int sized_take(void *ret, const void *src, size_t known, size_t first, const char *call,
	       const char *type)
{
	size_t size = *(const size_t *)src;
	const uint8_t *bytes = src;
	int r = check_size(size, first, call, type);

	if (r < 0)
		return r;
	for (size_t i = known; i < size; i++)
		if (bytes[i])
			return fail(EINVAL,
				    "%s: struct %s has a member at byte %zu that this library, "
				    "which is older than the program, does not know",
				    call, type, i);
	memcpy(ret, src, size < known ? size : known);
	*(size_t *)ret = known;
	return 0;
}

int sized_give(void *ret, const void *src, size_t known, size_t first, const char *call,
	       const char *type)
{
	size_t size = *(const size_t *)ret;
	int r = check_size(size, first, call, type);

	if (r < 0)
		return r;
	if (size > known)
		size = known;
	memcpy(ret, src, size);
	*(size_t *)ret = size;
	return 0;
}

void *sized_new_array(size_t n, size_t size)
{
	size_t table = n * sizeof(void *);
	uint8_t **ret, *structs;

	table = (table + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	/* One byte more than needed, because calloc() of 0 may return NULL. */
	ret = calloc(1, table + n * size + 1);
	if (!ret)
		return NULL;
	structs = (uint8_t *)ret + table;
	for (size_t i = 0; i < n; i++) {
		ret[i] = structs + i * size;
		*(size_t *)(void *)ret[i] = size;
	}
	return ret;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Copies public structs. They begin with a size_t size, so that later versions can append members: the program and
 * the library can have been built with different versions of a struct. A new member is appended after the end
 * (sizeof) of the previous version. In a struct that programs pass, 0 in a new member has to mean the behaviour of
 * the previous version; otherwise older libraries would refuse the struct as the new initializer sets it. Public
 * structs have no padding at their end, because initializers do not set padding; where it would be, they have a
 * member "unused".
 */

#include <stddef.h>

/*
 * Copies SRC, a struct TYPE that the program passed to CALL, to *RET. Members of *RET that the program's version of
 * the struct does not have keep their values. FIRST is the last member of the struct's first version, LAST the last
 * member of this library's version. -EINVAL: the size is not set, or SRC is NULL; -EOPNOTSUPP: the program sets a
 * member that this library does not know.
 */
#define SIZED_TAKE(ret, src, call, type, first, last)                   \
	sized_take(ret, src, sizeof(struct type),                       \
		   offsetof(struct type, first) + sizeof((ret)->first), \
		   offsetof(struct type, last) + sizeof((ret)->last), call, #type)
int sized_take(void *ret, const void *src, size_t size, size_t first, size_t last, const char *call,
	       const char *type);

/*
 * Checks that *RET, a struct TYPE that CALL has to fill, has at least the members up to FIRST. -EINVAL: it has not.
 */
#define SIZED_CHECK(ret, call, type, first) \
	sized_check(ret, offsetof(struct type, first) + sizeof((ret)->first), call, #type)
int sized_check(const void *ret, size_t first, const char *call, const char *type);
/*
 * Copies SRC, a struct of this library, to the program's *RET, at most as many bytes as the size of *RET, and sets
 * that size to the number of bytes copied.
 */
void sized_give(void *ret, const void *src);

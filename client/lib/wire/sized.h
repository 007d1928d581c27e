/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The public structs, which begin with a size_t size, so that later versions can append members: the program and the
 * library may have been built with different versions of a struct. A new member is appended after sizeof of the
 * version before. For a struct that programs pass, its value 0 means the behaviour of before, or the initializer of
 * the new version would make every older library refuse the struct. Public structs have no padding at their end,
 * because initializers do not set it; where needed they have a member "unused".
 */

#include <stddef.h>

/*
 * SRC, a struct TYPE that the program passed to CALL, becomes *RET, where members that the program does not know keep
 * their values. LAST is the last member that this library knows, FIRST the last one of the first version.
 * -EINVAL: the size is not set, or SRC is NULL; -EOPNOTSUPP: the program sets a member that this library does not know.
 */
#define SIZED_TAKE(ret, src, call, type, first, last)                   \
	sized_take(ret, src, sizeof(struct type),                       \
		   offsetof(struct type, first) + sizeof((ret)->first), \
		   offsetof(struct type, last) + sizeof((ret)->last), call, #type)
int sized_take(void *ret, const void *src, size_t size, size_t first, size_t last, const char *call,
	       const char *type);

/* *RET, a struct TYPE that CALL is to fill, has at least the members up to FIRST; otherwise -EINVAL. */
#define SIZED_CHECK(ret, call, type, first) \
	sized_check(ret, offsetof(struct type, first) + sizeof((ret)->first), call, #type)
int sized_check(const void *ret, size_t first, const char *call, const char *type);
/* Copies SRC, a struct of this library, to *RET as far as its size reaches, and sets its size to what was copied. */
void sized_give(void *ret, const void *src);

/*
 * N pointers to N structs of SIZE bytes each in one block of memory, which free() frees. The structs have their size,
 * and are 0 otherwise. NULL: out of memory. In an array of structs no struct could grow.
 */
void *sized_new_array(size_t n, size_t size);

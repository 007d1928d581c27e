/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The public structs, which begin with a size_t size, so that later versions can append members: the program and the
 * library may have been built with different versions of a struct. A new member is appended after sizeof of the
 * version before, never put into its padding: old programs do not initialize that.
 */

#include <stddef.h>

/*
 * SRC, a struct TYPE that the program passed to CALL, becomes *RET, where members that the program does not know keep
 * their values. LAST is the last member of the first version of the struct. Fails if size is too small, or if the
 * program sets a member that this library does not know.
 */
#define SIZED_TAKE(ret, src, call, type, last)    \
	sized_take(ret, src, sizeof(struct type), \
		   offsetof(struct type, last) + sizeof((ret)->last), call, #type)
int sized_take(void *ret, const void *src, size_t known, size_t first, const char *call,
	       const char *type);

/*
 * Copies SRC, of which this library knows KNOWN bytes, to the program's *RET, as far as its size reaches, and sets
 * its size to what was copied. Fails as above.
 */
#define SIZED_GIVE(ret, src, call, type, last)    \
	sized_give(ret, src, sizeof(struct type), \
		   offsetof(struct type, last) + sizeof((ret)->last), call, #type)
int sized_give(void *ret, const void *src, size_t known, size_t first, const char *call,
	       const char *type);

/*
 * N pointers to N structs of SIZE bytes each in one block of memory, which free() frees. The structs have their size,
 * and are 0 otherwise. NULL: out of memory. In an array of structs no struct could grow.
 */
void *sized_new_array(size_t n, size_t size);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What nearly every file uses: ownership of pointers and descriptors within a function, arrays, sorted ones.
 */

#include <stdlib.h>
#include <unistd.h>

#define TAKE_PTR(p)                     \
	({                              \
		typeof(p) _taken = (p); \
		(p) = NULL;             \
		_taken;                 \
	})

#define TAKE_FD(fd)             \
	({                      \
		int _fd = (fd); \
		(fd) = -1;      \
		_fd;            \
	})

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

/* Defines FUNCp() for _cleanup_(), which calls FUNC unless the variable is NULL. */
#define DEFINE_CLEANUP(type, func)          \
	static inline void func##p(type *p) \
	{                                   \
		if (*p)                     \
			func(*p);           \
	}

/* The first I from 0 up to N for which IS_BEFORE, an expression with I, is false. It is true for all before. */
#define LOWER_BOUND(i, n, is_before)                          \
	({                                                    \
		size_t low_ = 0, high_ = (n);                 \
		while (low_ < high_) {                        \
			size_t i = low_ + (high_ - low_) / 2; \
			if (is_before)                        \
				low_ = i + 1;                 \
			else                                  \
				high_ = i;                    \
		}                                             \
		low_;                                         \
	})

#define ELEMENTS_OF(a) (sizeof(a) / sizeof((a)[0]))

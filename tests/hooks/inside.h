/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include "tests/hooks/hooks.h"

/* Counts the call. Returns true and sets errno if the call has to fail. */
bool hook_fails(enum hook_side side, enum hook_kind kind);
/* A call of the daemon has returned: hooks_kill_at() can end the daemon here. */
void hook_may_kill(void);
/* Records a block that SIDE has allocated. Returns the block. */
void *hook_took(enum hook_side side, void *pointer, size_t size, void *caller);
void hook_gave(void *pointer);
/* Counts a packet that the library sent or received. */
void hook_sent(void);
void hook_received(void);
void hook_looked(void);
void hook_set_loop(sd_event *loop);
int hook_connect(int fd, const struct sockaddr *addr, socklen_t len);
int hook_poll(struct pollfd *fds, nfds_t n, int timeout);
int hook_clock_gettime(clockid_t clock, struct timespec *ret);

/* Defines a side's allocation functions: prefix_malloc() and so on. */
#define HOOK_ALLOCATION(prefix, SIDE)                                                             \
	void *prefix##_malloc(size_t size);                                                       \
	void *prefix##_calloc(size_t n, size_t size);                                             \
	void *prefix##_realloc(void *old, size_t size);                                           \
	void *prefix##_reallocarray(void *old, size_t n, size_t size);                            \
	char *prefix##_strdup(const char *text);                                                  \
	void prefix##_free(void *pointer);                                                        \
                                                                                                  \
	void *prefix##_malloc(size_t size)                                                        \
	{                                                                                         \
		return hook_fails(SIDE, HOOK_MEMORY) ?                                            \
			       NULL :                                                             \
			       hook_took(SIDE, malloc(size), size, __builtin_return_address(0));  \
	}                                                                                         \
                                                                                                  \
	void *prefix##_calloc(size_t n, size_t size)                                              \
	{                                                                                         \
		return hook_fails(SIDE, HOOK_MEMORY) ? NULL :                                     \
						       hook_took(SIDE, calloc(n, size), n * size, \
								 __builtin_return_address(0));    \
	}                                                                                         \
                                                                                                  \
	void *prefix##_realloc(void *old, size_t size)                                            \
	{                                                                                         \
		if (hook_fails(SIDE, HOOK_MEMORY))                                                \
			return NULL;                                                              \
		hook_gave(old);                                                                   \
		return hook_took(SIDE, realloc(old, size), size, __builtin_return_address(0));    \
	}                                                                                         \
                                                                                                  \
	void *prefix##_reallocarray(void *old, size_t n, size_t size)                             \
	{                                                                                         \
		if (hook_fails(SIDE, HOOK_MEMORY))                                                \
			return NULL;                                                              \
		hook_gave(old);                                                                   \
		return hook_took(SIDE, reallocarray(old, n, size), n * size,                      \
				 __builtin_return_address(0));                                    \
	}                                                                                         \
                                                                                                  \
	char *prefix##_strdup(const char *text)                                                   \
	{                                                                                         \
		return hook_fails(SIDE, HOOK_MEMORY) ?                                            \
			       NULL :                                                             \
			       hook_took(SIDE, strdup(text), strlen(text) + 1,                    \
					 __builtin_return_address(0));                            \
	}                                                                                         \
                                                                                                  \
	void prefix##_free(void *pointer)                                                         \
	{                                                                                         \
		int error = errno;                                                                \
                                                                                                  \
		hook_gave(pointer);                                                               \
		free(pointer);                                                                    \
		errno = error;                                                                    \
	}

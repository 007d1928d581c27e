/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* librdmacm itself, for RDMABROKER_FALLBACK=direct, and for rsockets. */

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>

struct real {
#define CALL(name) __typeof__(name) *name;
#include "real-calls.inc"
#undef CALL
};

/* Loads librdmacm if necessary. NULL with errno ENOSYS: it cannot be loaded. */
const struct real *real_get(void);

/*
 * Not NULL: librdmacm handles all calls of this process. Set at most once, before the program has an id or a channel.
 */
extern const struct real *_Atomic real_has_all;

/* In a call of librdmacm's API: if librdmacm handles all calls, call its function, and return the result. */
#define FORWARD(call, ...)                                                         \
	do {                                                                       \
		const struct real *real_ =                                         \
			atomic_load_explicit(&real_has_all, memory_order_acquire); \
		if (__builtin_expect(real_ != NULL, 0))                            \
			return real_->call(__VA_ARGS__);                           \
	} while (0)

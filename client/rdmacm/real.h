/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* librdmacm itself, for RDMABROKER_FALLBACK=direct, and for rsockets. */

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>

#include "newer.h"

struct real {
#define CALL(name) __typeof__(name) *name;
#define NEWER(name) __typeof__(name) *name; /* NULL: this librdmacm does not have it */
#include "real-calls.inc"
#undef CALL
#undef NEWER
};

/*
 * Loads librdmacm if necessary, so that it uses its own functions only. If it is loaded already, it stays as it is: what
 * it then calls in the drop-in is forwarded to it. NULL with errno ENOSYS: it cannot be loaded.
 */
const struct real *real_get(void);
/*
 * Loads librdmacm if necessary, so that its rsockets use the drop-in's ids and connections. NULL: it cannot be loaded, or
 * not so.
 */
const struct real *real_get_calling_dropin(void);

/*
 * Not NULL: librdmacm handles all calls of this process. Set at most once, before the program has an id or a channel.
 */
extern const struct real *_Atomic real_has_all;

static inline const struct real *real_handling_all(void)
{
	return atomic_load_explicit(&real_has_all, memory_order_acquire);
}

/* In a call of librdmacm's API: if librdmacm handles all calls, call its function, and return the result. */
#define FORWARD(call, ...)                                      \
	do {                                                    \
		const struct real *real_ = real_handling_all(); \
		if (__builtin_expect(real_ != NULL, 0))         \
			return real_->call(__VA_ARGS__);        \
	} while (0)

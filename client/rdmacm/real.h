/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* librdmacm itself, for hosts whose nodes are open and that have no broker (RDMABROKER_FALLBACK), and for rsockets. */

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <sys/epoll.h>

/*
 * What librdmacm has in its newest versions. The header and the library of this host can be older, but a program that was
 * linked with a newer librdmacm does not start without all of its functions.
 */

/* Of enum rdma_cm_event_type, since RDMACM_1.4. */
enum {
	EVENT_ADDRINFO_RESOLVED = 16,
	EVENT_ADDRINFO_ERROR = 17,
	EVENT_USER = 18,
	EVENT_INTERNAL = 19,
};

#ifndef RAI_SA
#define RAI_SA 0x00000010
#define RAI_DNS 0x00000020
#endif

/* RDMACM_1.4 */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* RDMACM_1.5 */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

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

void real_begin_in_child(void);
void real_end(void); /* gives librdmacm back, if it was loaded */

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

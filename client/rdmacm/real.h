/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* librdmacm itself, where it is wanted in our place, or has what we have not. */

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>

#define REAL_CALLS(CALL)                                                                                             \
	CALL(rdma_accept)                                                                                            \
	CALL(rdma_ack_cm_event)                                                                                      \
	CALL(rdma_bind_addr)                                                                                         \
	CALL(rdma_connect)                                                                                           \
	CALL(rdma_create_ep)                                                                                         \
	CALL(rdma_create_event_channel) CALL(rdma_create_id) CALL(rdma_create_qp) CALL(rdma_create_qp_ex) CALL(      \
		rdma_create_srq) CALL(rdma_create_srq_ex) CALL(rdma_destroy_ep) CALL(rdma_destroy_event_channel)     \
		CALL(rdma_destroy_id) CALL(rdma_destroy_qp) CALL(rdma_destroy_srq) CALL(rdma_disconnect) CALL(       \
			rdma_establish) CALL(rdma_free_devices) CALL(rdma_freeaddrinfo) CALL(rdma_get_cm_event)      \
			CALL(rdma_get_devices) CALL(rdma_get_src_port) CALL(rdma_get_dst_port) CALL(                 \
				rdma_get_remote_ece) CALL(rdma_get_request) CALL(rdma_getaddrinfo)                   \
				CALL(rdma_init_qp_attr) CALL(rdma_join_multicast) CALL(rdma_join_multicast_ex) CALL( \
					rdma_leave_multicast) CALL(rdma_listen) CALL(rdma_migrate_id)                \
					CALL(rdma_notify) CALL(rdma_reject) CALL(rdma_reject_ece) CALL(              \
						rdma_resolve_addr) CALL(rdma_resolve_route) CALL(rdma_set_local_ece) \
						CALL(rdma_set_option) CALL(raccept) CALL(rbind) CALL(                \
							rclose) CALL(rconnect) CALL(rfcntl) CALL(rgetpeername)       \
							CALL(rgetsockname) CALL(rgetsockopt) CALL(riomap) CALL(      \
								riounmap) CALL(riowrite) CALL(rlisten)               \
								CALL(rpoll) CALL(rread) CALL(rreadv) CALL(           \
									rrecv) CALL(rrecvfrom) CALL(rrecvmsg)        \
									CALL(rselect) CALL(rsend) CALL(              \
										rsendmsg) CALL(rsendto)              \
										CALL(rsetsockopt) CALL(              \
											rshutdown)                   \
											CALL(rsocket) CALL(          \
												rwrite)              \
												CALL(rwritev)

struct real {
#define MEMBER(name) __typeof__(name) *name;
	REAL_CALLS(MEMBER)
#undef MEMBER
};

/* Loads it if need be. NULL: there is none, and errno is ENOSYS. */
const struct real *real_get(void);

/* Not NULL: it has all calls of this process. Set once, before anything was given to the program. */
extern const struct real *_Atomic real_has_all;

/* First in each call. */
#define FORWARD(call, ...)                                                         \
	do {                                                                       \
		const struct real *real_ =                                         \
			atomic_load_explicit(&real_has_all, memory_order_acquire); \
		if (__builtin_expect(real_ != NULL, 0))                            \
			return real_->call(__VA_ARGS__);                           \
	} while (0)

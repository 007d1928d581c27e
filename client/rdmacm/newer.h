/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What librdmacm has in its newest versions. The header and the library of this host can be older, but a program that was
 * linked with a newer librdmacm does not start without all of its functions.
 */

#include <rdma/rdma_cma.h>
#include <sys/epoll.h>

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

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "rdmacm.h"

/*
 * The calls that librdmacm has since RDMACM_1.4: events that a program writes itself, and look-ups of addresses whose end
 * is an event.
 */

/* Like FORWARD_ID(). librdmacm itself can be one without the call. */
#define FORWARD_NEWER(call, public, ...)                         \
	do {                                                     \
		const struct real *newer_ = real_handling_all(); \
		if (newer_ && !newer_->call)                     \
			return fail(ENOSYS);                     \
		FORWARD_ID(call, public, ##__VA_ARGS__);         \
	} while (0)

int rdma_write_cm_event(struct rdma_cm_id *public, enum rdma_cm_event_type event, int status,
			uint64_t arg)
{
	FORWARD_NEWER(rdma_write_cm_event, public, event, status, arg);
	if ((int)event != EVENT_USER)
		return fail(EINVAL);
	return report_result("rdma_write_cm_event",
			     BROKER(rdmabroker_write_event(to_id(public)->handle,
							   RDMABROKER_EVENT_USER, status, arg)));
}

/* As librdmacm: the look-up itself waits, and only its end is an event. */
static int look_up(struct id *id, const char *node, const char *service,
		   const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *found;
	int r;

	r = rdma_getaddrinfo(node, service, hints, &found);
	/* Otherwise it is an error of getaddrinfo(), which has no errno. */
	if (r != 0)
		return r == -1 ? r : fail(ENOENT);
	pthread_mutex_lock(&id->lock);
	id->found = found;
	pthread_mutex_unlock(&id->lock);
	r = BROKER(rdmabroker_write_event(id->handle, RDMABROKER_EVENT_INTERNAL, 0, 0));
	if (r < 0) {
		pthread_mutex_lock(&id->lock);
		id->found = NULL;
		pthread_mutex_unlock(&id->lock);
		rdma_freeaddrinfo(found);
		return report_result("rdma_resolve_addrinfo", r);
	}
	return event_await_outcome(id);
}

int rdma_resolve_addrinfo(struct rdma_cm_id *public, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	struct id *id;
	bool busy;
	int r;

	if (!public)
		return fail(EINVAL);
	FORWARD_NEWER(rdma_resolve_addrinfo, public, node, service, hints);
	id = to_id(public);
	pthread_mutex_lock(&id->lock);
	busy = id->looks_up;
	id->looks_up = true;
	pthread_mutex_unlock(&id->lock);
	if (busy)
		return fail(EBUSY);
	r = look_up(id, node, service, hints);
	if (r < 0) {
		pthread_mutex_lock(&id->lock);
		id->looks_up = false;
		pthread_mutex_unlock(&id->lock);
	}
	return r;
}

int rdma_query_addrinfo(struct rdma_cm_id *public, struct rdma_addrinfo **info)
{
	struct id *id;

	if (!public || !info)
		return fail(EINVAL);
	FORWARD_NEWER(rdma_query_addrinfo, public, info);
	id = to_id(public);
	pthread_mutex_lock(&id->lock);
	*info = id->found;
	if (id->found) {
		id->found = NULL;
		id->looks_up = false;
	}
	pthread_mutex_unlock(&id->lock);
	return *info ? 0 : fail(ENOENT);
}

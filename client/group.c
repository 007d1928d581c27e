/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"
#include "proto/addr.h"
#include "proto/address.h"

/* Multicast: the broker joins the group; the library attaches the QP to it. */

static struct join *find_join(struct rdmabroker_id *id, const struct sockaddr_storage *addr)
{
	struct join *join;

	LIST_FOREACH(join, &id->joins, link)
		if (addr_is_same_host((struct sockaddr *)&join->addr, (struct sockaddr *)addr))
			return join;
	return NULL;
}

static void join_detach(struct rdmabroker_id *id, struct join *join)
{
	if (join->attached && id->qp && wire_check_process(&id->session->wire) == 0)
		ibv_detach_mcast(id->qp, &join->mgid, join->mlid);
	join->attached = false;
}

static void join_free(struct rdmabroker_id *id, struct join *join)
{
	join_detach(id, join);
	LIST_REMOVE(join, link);
	free(join);
}

void joins_detach(struct rdmabroker_id *id)
{
	struct join *join;

	LIST_FOREACH(join, &id->joins, link)
		join_detach(id, join);
}

void joins_free(struct rdmabroker_id *id)
{
	struct join *join;

	while ((join = LIST_FIRST(&id->joins)))
		join_free(id, join);
}

static int join_new(struct rdmabroker_id *id, const Rdmabroker__Address *address, unsigned flags,
		    void *context, struct join **ret)
{
	struct sockaddr_storage addr;
	struct join *join;

	address_unpack(&addr, address);
	/* A join that failed may have left its struct: only the broker knows whether the group is joined. */
	join = find_join(id, &addr);
	if (join && join->attached)
		return fail(EEXIST, "join_multicast: the group is joined already");
	if (!join) {
		join = calloc(1, sizeof(*join));
		if (!join)
			return fail(ENOMEM, "join_multicast: out of memory");
		LIST_INSERT_HEAD(&id->joins, join, link);
	}
	join->addr = addr;
	join->context = context;
	join->send_only = !(flags & 1);
	*ret = join;
	return 0;
}

static int join(struct rdmabroker_id *id, const struct sockaddr *addr, unsigned flags,
		void *context, bool wait, int timeout_ms)
{
	Rdmabroker__JoinMulticast m = RDMABROKER__JOIN_MULTICAST__INIT;
	REQUEST(request, JOIN_MULTICAST, join_multicast, &m);
	Rdmabroker__Address address;
	struct join *join = NULL;
	int r = out_address(&address, addr);

	if (r == 0)
		r = join_new(id, &address, flags, context, &join);
	if (r < 0)
		return r;
	m.id = id->handle;
	m.addr = &address;
	m.join_flags = flags;
	r = wait ? idcall_wait(id, "join_multicast", &request, timeout_ms, NULL) :
		   idcall_do(id, "join_multicast", &request, true, NULL);
	if (r < 0 && r != -EEXIST)
		join_free(id, join);
	return r;
}

int rdmabroker_join_multicast(struct rdmabroker_id *id, const struct sockaddr *addr,
			      unsigned join_flags, void *context)
{
	return join(id, addr, join_flags, context, /* wait= */ false, 0);
}

int rdmabroker_join_multicast_wait(struct rdmabroker_id *id, const struct sockaddr *addr,
				   unsigned join_flags, struct rdmabroker_ud_param *ret,
				   int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	struct event *event;
	int r = join(id, addr, join_flags, NULL, /* wait= */ true, timeout_ms);

	if (r < 0)
		return r;
	r = session_take(id->session, id,
			 BIT(MULTICAST_JOIN) | BIT(MULTICAST_ERROR) | BIT(DEVICE_REMOVAL), deadline,
			 NULL, &event);
	if (r == -EAGAIN)
		return fail(ETIMEDOUT, "join_multicast: no outcome in time");
	if (r < 0)
		return r;
	if (event->public.type == RDMABROKER_EVENT_MULTICAST_JOIN)
		*ret = event->public.ud;
	else
		r = fail(event->public.status < 0 ? -event->public.status : ENODEV,
			 "join_multicast: %s", event->public.text ?: "it failed");
	rdmabroker_free_event(&event->public);
	return r;
}

void join_on_event(struct rdmabroker_id *id, const Rdmabroker__Event *in, struct event *event)
{
	struct rdmabroker_event *e = &event->public;
	struct sockaddr_storage addr;
	struct join *join;
	int r;

	address_unpack(&addr, in->group);
	join = find_join(id, &addr);
	if (!join)
		return;
	e->join_context = join->context;
	if (e->type != RDMABROKER_EVENT_MULTICAST_JOIN || !id->qp || join->send_only ||
	    join->attached)
		return;
	join->mgid = e->ud.ah_attr.grh.dgid;
	join->mlid = e->ud.ah_attr.dlid;
	r = ibv_attach_mcast(id->qp, &join->mgid, join->mlid);
	if (r == 0) {
		join->attached = true;
		return;
	}
	e->type = RDMABROKER_EVENT_MULTICAST_ERROR;
	e->status = -r;
	event_set_text(event, "the QP could not be attached to the group");
}

int rdmabroker_leave_multicast(struct rdmabroker_id *id, const struct sockaddr *addr)
{
	Rdmabroker__LeaveMulticast m = RDMABROKER__LEAVE_MULTICAST__INIT;
	REQUEST(request, LEAVE_MULTICAST, leave_multicast, &m);
	struct sockaddr_storage copy;
	Rdmabroker__Address address;
	struct join *join;
	int r = out_address(&address, addr);

	if (r < 0)
		return r;
	address_unpack(&copy, &address);
	join = find_join(id, &copy);
	if (join)
		join_free(id, join);
	m.id = id->handle;
	m.addr = &address;
	return idcall_do(id, "leave_multicast", &request, false, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/id/idcall.h"
#include "client/lib/id/idstate.h"
#include "client/lib/id/multicast.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"
#include "proto/addr.h"
#include "proto/address.h"

/* A multicast group that an id has joined, or is joining. */
struct join {
	LIST_ENTRY(join) link; /* rdmabroker_id.joins */
	struct sockaddr_storage addr;
	void *context;
	bool send_only;
	bool attached; /* the id's QP is attached to MGID and MLID */
	union ibv_gid mgid;
	uint16_t mlid;
};

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

void multicast_detach_all(struct rdmabroker_id *id)
{
	struct join *join;

	LIST_FOREACH(join, &id->joins, link)
		join_detach(id, join);
}

void multicast_free_all(struct rdmabroker_id *id)
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
	/*
	 * Use the struct of an earlier join of this group again. Only the broker knows whether that join succeeded.
	 */
	join = find_join(id, &addr);
	if (join && join->attached)
		return fail(EEXIST, "join_multicast: the id has already joined the group");
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

int multicast_join(struct rdmabroker_id *id, const struct sockaddr *addr, unsigned flags,
		   void *context, bool wait, int timeout_ms)
{
	ID_REQUEST(request, m, JoinMulticast, JOIN_MULTICAST, join_multicast, id);
	Rdmabroker__Address address;
	struct join *join = NULL;
	int r = message_put_address(&address, addr);

	if (r == 0)
		r = join_new(id, &address, flags, context, &join);
	if (r < 0)
		return r;
	m.addr = &address;
	m.join_flags = flags;
	r = wait ? idcall_wait(id, "join_multicast", &request, timeout_ms, NULL) :
		   idcall_do(id, "join_multicast", &request, ANSWER_FAILURE_AS_EVENT, NULL);
	if (r < 0 && r != -EEXIST)
		join_free(id, join);
	return r;
}

int rdmabroker_join_multicast(struct rdmabroker_id *id, const struct sockaddr *addr,
			      unsigned join_flags, void *context)
{
	return multicast_join(id, addr, join_flags, context, /* wait= */ false, 0);
}

int multicast_on_event(struct rdmabroker_id *id, const Rdmabroker__Event *in,
		       struct rdmabroker_event *event)
{
	struct sockaddr_storage addr;
	struct join *join;
	int r;

	address_unpack(&addr, in->group);
	join = find_join(id, &addr);
	if (!join)
		return 0;
	event->join_context = join->context;
	if (event->type != RDMABROKER_EVENT_MULTICAST_JOIN || !id->qp || join->send_only ||
	    join->attached)
		return 0;
	join->mgid = event->ud->ah_attr.grh.dgid;
	join->mlid = event->ud->ah_attr.dlid;
	r = ibv_attach_mcast(id->qp, &join->mgid, join->mlid);
	join->attached = r == 0;
	return r;
}

void multicast_forget(struct rdmabroker_id *id, const struct sockaddr_storage *addr)
{
	struct join *join = find_join(id, addr);

	if (join)
		join_free(id, join);
}

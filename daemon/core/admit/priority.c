/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "core/admit/priority.h"
#include "core/object/id.h"
#include "core/object/wait.h"
#include "proto/addr.h"
#include "util/clock.h"
#include "util/util.h"

#define KEEP_MS 10000
#define TIMEOUT_MS 2000 /* the kernel has to ask nobody for a route to its own address */

/* The local address of ID without its port. */
static void get_local(const struct id *id, struct sockaddr_storage *ret)
{
	struct fabric_id_info info;

	fabric_id_get_info(id->fabric, &info);
	*ret = info.local;
	/* IPv6 has its port at the same place. */
	((struct sockaddr_in *)ret)->sin_port = 0;
}

static const struct known_priority *find(const struct priorities *priorities,
					 const struct sockaddr_storage *local, int tos)
{
	uint64_t now = clock_ms();

	for (unsigned i = 0; i < PRIORITIES_MAX; i++) {
		const struct known_priority *known = &priorities->known[i];

		if (known->tos == tos && known->until_ms > now &&
		    memcmp(&known->local, local, addr_len((const struct sockaddr *)local)) == 0)
			return known;
	}
	return NULL;
}

static void keep(const struct id *id, uint8_t sl)
{
	struct priorities *priorities = &id->session->core->priorities;
	struct known_priority *known = &priorities->known[priorities->next++ % PRIORITIES_MAX];

	known->tos = id->handshake.priority.tos;
	known->sl = sl;
	known->until_ms = clock_ms() + KEEP_MS;
	get_local(id, &known->local);
}

static void end(struct id *id, int error)
{
	struct priority *priority = &id->handshake.priority;

	priority->asks = fabric_id_free(priority->asks);
	priority->error = error;
	id->session->ops->resume(id->session->userdata, /* handle= */ 0);
}

static void on_event(void *userdata, struct fabric_event *event)
{
	struct id *id = userdata;
	struct fabric_id *asks = id->handshake.priority.asks;
	struct ibv_sa_path_rec paths[PATHS_MAX];
	int r = -EIO;

	if (event->type == RDMA_CM_EVENT_ADDR_RESOLVED) {
		r = fabric_id_resolve_route(asks, TIMEOUT_MS);
		if (r == 0)
			return;
	} else if (event->type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
		if (fabric_id_get_paths(asks, paths) > 0) {
			keep(id, paths[0].sl);
			r = 0;
		}
	} else if (event->status < 0) {
		r = event->status;
	}
	end(id, r);
}

static int ask(struct id *id, struct sockaddr_storage *local, int tos)
{
	struct session *session = id->session;
	struct priority *priority = &id->handshake.priority;
	int r;

	r = fabric_id_new(&priority->asks, session->core->fabric, session->identity.owner,
			  RDMA_PS_TCP, on_event, id);
	if (r < 0)
		return r;
	r = fabric_id_set_option(priority->asks, RDMA_OPTION_ID_TOS, tos);
	if (r == 0)
		r = fabric_id_resolve_addr(priority->asks, (struct sockaddr *)local,
					   (struct sockaddr *)local, TIMEOUT_MS);
	if (r < 0)
		priority->asks = fabric_id_free(priority->asks);
	return r;
}

/* Whether ID has a peer that has chosen its SL, and not the subnet manager. */
static bool is_chosen_by_peer(const struct id *id)
{
	struct fabric_id_info info;

	fabric_id_get_info(id->fabric, &info);
	return id->handshake.passive && !id_is_datagram(id) && !fabric_id_is_iwarp(id->fabric) &&
	       !fabric_info_has_paths(&info);
}

int priority_get(struct id *id, uint8_t *ret, struct failure *failure)
{
	struct priority *priority = &id->handshake.priority;
	int tos = id->options.now[OPTION_TOS], r;
	const struct known_priority *known;
	struct sockaddr_storage local;

	if (!is_chosen_by_peer(id))
		return 0;
	get_local(id, &local);
	known = find(&id->session->core->priorities, &local, tos);
	if (known) {
		*ret = known->sl;
		return 0;
	}
	if (priority->asks && priority->tos == tos)
		return -EINPROGRESS;
	priority_done(id);
	r = priority->tos == tos ? priority->error : 0;
	priority->tos = tos;
	priority->error = 0;
	if (r == 0)
		r = ask(id, &local, tos);
	/* Devices are being opened. */
	if (r == -EINPROGRESS)
		return wait_for_fabric(id->session, 0) ?: -EBUSY;
	return r == 0 ? -EINPROGRESS :
			failure_set_fabric(failure, r, "find the priority of TOS %d", tos);
}

void priority_done(struct id *id)
{
	id->handshake.priority.asks = fabric_id_free(id->handshake.priority.asks);
}

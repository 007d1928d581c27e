/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/sa.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/*
 * The GIDs and the paths of id->route. The broker reports the paths with ROUTE_RESOLVED and CONNECT_REQUEST, and the GIDs
 * with the addresses, unless they follow from these: on Ethernet from the IP addresses, and with AF_IB they are these.
 *
 * If the broker reports no paths, as after a restart that a request has waited for, the one on Ethernet is derived from the
 * GIDs and the port.
 */

#define ETHERNET_PACKET_LIFETIME 18 /* 4.096 us * 2^18, about 1 s */
#define EXACTLY 2

static bool get_port(const struct id *id, struct port *ret)
{
	return id->device && id->public.port_num &&
	       device_get_port(id->device, id->public.port_num, ret) == 0 && ret->is_ethernet;
}

void route_learn_gids(struct id *id)
{
	struct rdma_addr *addr = &id->public.route.addr;
	struct port port;

	if (rdmabroker_get_gids(id->handle, &addr->addr.ibaddr.sgid, &addr->addr.ibaddr.dgid) ==
		    0 ||
	    !get_port(id, &port))
		return;
	/* In RoCE each IP address is a GID; an IPv4 address is written as an IPv4-mapped IPv6 address. */
	addr_host(&addr->src_addr, addr->addr.ibaddr.sgid.raw);
	addr_host(&addr->dst_addr, addr->addr.ibaddr.dgid.raw);
}

/* The paths that the broker tells. False: it tells none. */
static bool take_paths(struct id *id, const struct rdmabroker_event *event)
{
	struct rdma_route *route = &id->public.route;
	struct ibv_sa_path_rec *paths;

	if (event->n_paths == 0)
		return false;
	paths = calloc(event->n_paths, sizeof(*paths));
	if (!paths)
		return true; /* no path record */
	memcpy(paths, event->paths, event->n_paths * sizeof(*paths));
	route->addr.addr.ibaddr.sgid = paths[0].sgid;
	route->addr.addr.ibaddr.dgid = paths[0].dgid;
	free(route->path_rec);
	route->path_rec = paths;
	route->num_paths = (int)event->n_paths;
	return true;
}

/* The path on Ethernet, if the broker does not tell it. iWARP has no paths. */
static void make_path(struct id *id)
{
	struct rdma_route *route = &id->public.route;
	struct ibv_sa_path_rec *path;
	struct port port;

	if (!get_port(id, &port) ||
	    id->device->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return;
	path = calloc(1, sizeof(*path));
	if (!path)
		return; /* no path record */
	path->dgid = route->addr.addr.ibaddr.dgid;
	path->sgid = route->addr.addr.ibaddr.sgid;
	path->hop_limit = 64;
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = htons(0xffff); /* the default P_Key */
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = EXACTLY;
	path->mtu = port.active_mtu;
	path->rate = IBV_RATE_MAX; /* no limit below the port's rate */
	path->packet_life_time = ETHERNET_PACKET_LIFETIME;
	free(route->path_rec);
	route->path_rec = path;
	route->num_paths = 1;
}

void route_learn_paths(struct id *id, const struct rdmabroker_event *event)
{
	bool is_lookup = id_is_datagram(id) && event->type == RDMABROKER_EVENT_CONNECT_REQUEST;

	/* Like librdmacm, a look-up has no path at its listener. */
	if (!take_paths(id, event) && !is_lookup)
		make_path(id);
}

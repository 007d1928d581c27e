/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/sa.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/*
 * The GIDs and the path record of id->route. On Ethernet the GIDs follow from the IP addresses, and the path record
 * from the GIDs and the port. On InfiniBand they cannot be derived from the addresses, and stay empty.
 */

#define ETHERNET_PACKET_LIFETIME 18 /* 4.096 us * 2^18, about 1 s */
#define EXACTLY 2

/* In RoCE each IP address is a GID; an IPv4 address is written as an IPv4-mapped IPv6 address. */
static void to_gid(union ibv_gid *ret, const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

	memset(ret, 0, sizeof(*ret));
	switch (addr->sa_family) {
	case AF_INET:
		ret->raw[10] = ret->raw[11] = 0xff;
		memcpy(&ret->raw[12], &in->sin_addr, 4);
		break;
	case AF_INET6:
		memcpy(ret->raw, &in6->sin6_addr, sizeof(ret->raw));
		break;
	default:
		break;
	}
}

static bool get_port(const struct id *id, struct port *ret)
{
	return id->device && id->public.port_num &&
	       device_get_port(id->device, id->public.port_num, ret) == 0 && ret->is_ethernet;
}

void route_learn_gids(struct id *id)
{
	struct rdma_addr *addr = &id->public.route.addr;
	struct port port;

	if (!get_port(id, &port))
		return;
	to_gid(&addr->addr.ibaddr.sgid, &addr->src_addr);
	to_gid(&addr->addr.ibaddr.dgid, &addr->dst_addr);
}

void route_learn_path(struct id *id)
{
	struct rdma_route *route = &id->public.route;
	struct ibv_sa_path_rec *path;
	struct port port;

	if (!get_port(id, &port))
		return;
	path = calloc(1, sizeof(*path));
	if (!path)
		return; /* no path record, as on InfiniBand */
	path->dgid = route->addr.addr.ibaddr.dgid;
	path->sgid = route->addr.addr.ibaddr.sgid;
	path->hop_limit = 64;
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = route->addr.addr.ibaddr.pkey;
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = EXACTLY;
	path->mtu = port.active_mtu;
	path->rate = IBV_RATE_MAX; /* no limit below the port's rate */
	path->packet_life_time = ETHERNET_PACKET_LIFETIME;
	free(route->path_rec);
	route->path_rec = path;
	route->num_paths = 1;
}

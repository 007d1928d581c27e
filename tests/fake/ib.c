/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "proto/addr.h"
#include "tests/fake/internal.h"

/*
 * What is special about a fabric of InfiniBand: a host has a GID beside its IP addresses, which are IPoIB's; programs can
 * use GIDs as addresses (AF_IB); and the routes come from a subnet manager.
 */

static bool is_infiniband;

void fake_be_infiniband(bool yes)
{
	is_infiniband = yes;
}

bool fake_is_infiniband(void)
{
	return is_infiniband;
}

uint16_t fake_get_pkey(unsigned index)
{
	static const uint16_t table[] = { 0xffff, 0x8001 };

	return index < sizeof(table) / sizeof(table[0]) ? table[index] : 0;
}

void fake_gid_of(union ibv_gid *ret, const struct sockaddr *addr)
{
	static const uint8_t prefix[12] = { 0xfe, 0x80, [9] = 0x02, [10] = 0xc9, [11] = 0x03 };
	uint8_t host[ADDR_HOST_LEN];

	addr_host(addr, host);
	memcpy(ret->raw, host, sizeof(host));
	if (addr->sa_family == AF_IB)
		return;
	memcpy(ret->raw, prefix, sizeof(prefix));
	memcpy(ret->raw + sizeof(prefix), host + sizeof(prefix), 4);
}

void fake_local_ib(struct sockaddr_ib *ret)
{
	const struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(FAKE_IP) };
	union ibv_gid gid;

	fake_gid_of(&gid, (const struct sockaddr *)&own);
	memset(ret, 0, sizeof(*ret));
	ret->sib_family = AF_IB;
	ret->sib_pkey = htons(0xffff);
	memcpy(&ret->sib_addr, &gid, sizeof(gid));
}

static bool is_in_partition(const struct sockaddr_ib *addr)
{
	for (unsigned i = 0; fake_get_pkey(i); i++)
		if (fake_get_pkey(i) == ntohs(addr->sib_pkey))
			return true;
	return false;
}

int fake_check_ib(const struct sockaddr *addr, bool local)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;
	struct sockaddr_ib own;

	if (addr->sa_family != AF_IB || addr_is_wildcard(addr))
		return 0;
	fake_local_ib(&own);
	if (!is_infiniband || !is_in_partition(ib))
		return -ENODEV;
	return local && memcmp(&ib->sib_addr, &own.sib_addr, sizeof(own.sib_addr)) ? -ENODEV : 0;
}

uint16_t fake_pkey_index(const struct fabric_id *id)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)&id->info.local;
	uint16_t i = 0;

	while (ib->sib_family == AF_IB && fake_get_pkey(i) &&
	       fake_get_pkey(i) != ntohs(ib->sib_pkey))
		i++;
	return i;
}

void fake_learn_gids(struct fabric_id *id)
{
	const struct sockaddr *local = (struct sockaddr *)&id->info.local;
	const struct sockaddr *peer = (struct sockaddr *)&id->info.peer;

	if (!is_infiniband || !id->info.device || local->sa_family == AF_IB)
		return;
	fake_gid_of(&id->info.gids[0], local);
	if (peer->sa_family != AF_UNSPEC)
		fake_gid_of(&id->info.gids[1], peer);
}

static uint16_t netdev_pkey = PKEY_DEFAULT;

void fake_set_pkey(uint16_t pkey)
{
	netdev_pkey = pkey_partition(pkey);
}

void fake_learn_pkey(struct fabric_id *id)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)&id->info.local;

	if (!id->info.device)
		return;
	id->info.pkey = !is_infiniband          ? PKEY_DEFAULT :
			ib->sib_family == AF_IB ? pkey_partition(ntohs(ib->sib_pkey)) :
						  netdev_pkey;
}

static unsigned lmc;

void fake_set_lmc(unsigned n)
{
	lmc = n;
}

unsigned fabric_id_get_lmc(const struct fabric_id *id)
{
	return is_infiniband ? lmc : 0;
}

void fake_set_path_gids(const struct fabric_id *id, struct ibv_sa_path_rec *path)
{
	fake_gid_of(&path->sgid, (struct sockaddr *)&id->info.local);
	fake_gid_of(&path->dgid, (struct sockaddr *)&id->info.peer);
}

void fake_lose_subnet_manager(struct fabric *fabric, unsigned n)
{
	fabric->n_route_errors = n;
}

int fabric_id_set_path(struct fabric_id *id, const struct ibv_path_record *path)
{
	struct paths paths;
	int r = fake_outcome(id->fabric, FAKE_SET_PATH);

	if (r < 0)
		return r;
	/* As in the kernel, a route is set or resolved once. */
	if (id->is_routed)
		return -EINVAL;
	paths_unpack(&paths, (const uint8_t *)path, sizeof(*path));
	id->path = paths.paths[0];
	id->has_path = true;
	id->is_routed = true;
	fake_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, NULL);
	return 0;
}

int fabric_id_set_qp_type(struct fabric_id *id, enum ibv_qp_type type)
{
	bool in_ib = type == IBV_QPT_UC || type == IBV_QPT_UD;

	if (in_ib ? id->ps != RDMA_PS_IB :
		    type != IBV_QPT_RC && type != IBV_QPT_XRC_SEND && type != IBV_QPT_XRC_RECV)
		return -EINVAL;
	if (id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB)
		return -EINVAL;
	id->qp_type = type;
	id->is_datagram = type == IBV_QPT_UD;
	return 0;
}

int fake_get_qp_type(struct fabric *fabric, uint16_t port, bool request)
{
	struct list *l;

	list_for_each(l, &fabric->ids) {
		struct fabric_id *id = container_of(l, struct fabric_id, link);

		if (fake_port(&id->info.local) == htons(port) && id->is_request == request)
			return (int)id->qp_type;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#include "proto/address.h"

/* Of struct sockaddr_ib, all that is behind the family. */
#define IB_LEN (sizeof(struct sockaddr_ib) - offsetof(struct sockaddr_ib, sib_pkey))

Rdmabroker__Address *address_pack(Rdmabroker__Address *ret, const struct sockaddr *addr)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;

	rdmabroker__address__init(ret);
	switch (addr ? addr->sa_family : AF_UNSPEC) {
	case AF_INET:
		ret->addr.len = 4;
		ret->addr.data = (uint8_t *)&in->sin_addr;
		ret->port = ntohs(in->sin_port);
		return ret;
	case AF_INET6:
		ret->addr.len = 16;
		ret->addr.data = (uint8_t *)&in6->sin6_addr;
		ret->port = ntohs(in6->sin6_port);
		ret->scope_id = in6->sin6_scope_id;
		ret->flowinfo = in6->sin6_flowinfo;
		return ret;
	case AF_IB:
		ret->ib.len = IB_LEN;
		ret->ib.data = (uint8_t *)&ib->sib_pkey;
		return ret;
	default:
		return NULL;
	}
}

const char *address_unpack(struct sockaddr_storage *ret, const Rdmabroker__Address *address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_ib *ib = (struct sockaddr_ib *)ret;

	memset(ret, 0, sizeof(*ret));
	if (!address)
		return "the address is missing";
	if (address->port > 65535)
		return "the port is not in the range 0 to 65535";
	if (address->ib.len > 0) {
		if (address->ib.len != IB_LEN || address->addr.len > 0)
			return "the address of InfiniBand does not have 46 bytes, or is not the only one";
		ib->sib_family = AF_IB;
		memcpy(&ib->sib_pkey, address->ib.data, IB_LEN);
		return NULL;
	}
	switch (address->addr.len) {
	case 4:
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)address->port);
		memcpy(&in->sin_addr, address->addr.data, 4);
		return NULL;
	case 16:
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)address->port);
		in6->sin6_scope_id = address->scope_id;
		in6->sin6_flowinfo = address->flowinfo;
		memcpy(&in6->sin6_addr, address->addr.data, 16);
		return NULL;
	default:
		return "the address is neither IPv4 (4 bytes) nor IPv6 (16 bytes) nor InfiniBand's";
	}
}

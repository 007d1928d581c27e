/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "proto/addr.h"

#define GID_WORD "gid:"
#define DEFAULT_PKEY 0xffff

static const void *gid_of(const struct sockaddr *addr)
{
	return &((const struct sockaddr_ib *)addr)->sib_addr;
}

const char *addr_host_to_string(const struct sockaddr *addr, char buf[ADDR_HOST_STRLEN])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	*buf = 0;
	if (addr->sa_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, buf, ADDR_HOST_STRLEN);
	else if (addr->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &in6->sin6_addr, buf, ADDR_HOST_STRLEN);
	else if (addr->sa_family == AF_IB)
		inet_ntop(AF_INET6, gid_of(addr), stpcpy(buf, GID_WORD),
			  ADDR_HOST_STRLEN - strlen(GID_WORD));
	return buf;
}

const char *addr_to_string(const struct sockaddr *addr, char buf[ADDR_STRLEN])
{
	uint32_t scope = 0;
	char text[ADDR_HOST_STRLEN];

	if (addr && addr->sa_family == AF_INET6)
		scope = ((const struct sockaddr_in6 *)addr)->sin6_scope_id;
	if (!addr || !*addr_host_to_string(addr, text))
		snprintf(buf, ADDR_STRLEN, "-");
	else if (scope)
		snprintf(buf, ADDR_STRLEN, "[%s%%%u]:%u", text, scope, addr_port(addr));
	else
		snprintf(buf, ADDR_STRLEN, addr->sa_family == AF_INET ? "%s:%u" : "[%s]:%u", text,
			 addr_port(addr));
	return buf;
}

bool addr_parse(struct sockaddr_storage *ret, const char *host, uint16_t port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_ib *ib = (struct sockaddr_ib *)ret;

	*ret = (struct sockaddr_storage){ 0 };
	if (strncmp(host, GID_WORD, strlen(GID_WORD)) == 0) {
		if (inet_pton(AF_INET6, host + strlen(GID_WORD), &ib->sib_addr) != 1)
			return false;
		ib->sib_family = AF_IB;
		ib->sib_pkey = htons(DEFAULT_PKEY);
		ib->sib_sid = htobe64(port);
		ib->sib_sid_mask = htobe64(port ? UINT16_MAX : 0);
		return true;
	}
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
	}
	return ret->ss_family != AF_UNSPEC;
}

socklen_t addr_len(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

bool addr_is_ip(const struct sockaddr *addr)
{
	return addr && (addr->sa_family == AF_INET || addr->sa_family == AF_INET6);
}

/* What ADDR says about the service, in host order. */
static uint64_t sid_of(const struct sockaddr *addr)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;

	return be64toh(ib->sib_sid & ib->sib_sid_mask);
}

uint16_t addr_port(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ntohs(((const struct sockaddr_in *)addr)->sin_port);
	case AF_INET6:
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	case AF_IB:
		return (uint16_t)sid_of(addr);
	default:
		return 0;
	}
}

bool addr_is_wildcard(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)addr)->sin_addr.s_addr == INADDR_ANY;
	case AF_INET6:
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)addr)->sin6_addr);
	case AF_IB:
		return ib_addr_any(gid_of(addr));
	default:
		return true;
	}
}

bool addr_is_loopback(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 ==
		       IN_LOOPBACKNET;
	case AF_INET6:
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
	case AF_IB:
		return ib_addr_loopback(gid_of(addr));
	default:
		return false;
	}
}

bool addr_host(const struct sockaddr *addr, uint8_t ret[ADDR_HOST_LEN])
{
	memset(ret, 0, ADDR_HOST_LEN);
	switch (addr->sa_family) {
	case AF_INET:
		ret[10] = ret[11] = 0xff;
		memcpy(ret + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
		return true;
	case AF_INET6:
		memcpy(ret, &((const struct sockaddr_in6 *)addr)->sin6_addr, ADDR_HOST_LEN);
		return true;
	case AF_IB:
		memcpy(ret, gid_of(addr), ADDR_HOST_LEN);
		return true;
	default:
		return false;
	}
}

void addr_set_host(struct sockaddr_storage *ret, uint8_t kind, const uint8_t *host)
{
	*ret = (struct sockaddr_storage){ 0 };
	switch (kind) {
	case 4:
		ret->ss_family = AF_INET;
		memcpy(&((struct sockaddr_in *)ret)->sin_addr, host, 4);
		break;
	case 6:
		ret->ss_family = AF_INET6;
		memcpy(&((struct sockaddr_in6 *)ret)->sin6_addr, host, ADDR_HOST_LEN);
		break;
	case ADDR_KIND_GID:
		ret->ss_family = AF_IB;
		memcpy(&((struct sockaddr_ib *)ret)->sib_addr, host, ADDR_HOST_LEN);
		break;
	}
}

unsigned addr_bits(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET ? 32 : addr_len(addr) > 0 ? 128 : 0;
}

bool addr_is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	uint8_t host[ADDR_HOST_LEN], other[ADDR_HOST_LEN];

	return a->sa_family == b->sa_family && addr_host(a, host) && addr_host(b, other) &&
	       memcmp(host, other, sizeof(host)) == 0;
}

bool addr_is_of_port_space(const struct sockaddr *addr, int ps)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;
	const uint64_t services = UINT64_MAX << 16;
	uint64_t mask, sid;

	if (addr->sa_family != AF_IB)
		return true;
	/* The kernel connects to the whole service id, whatever the mask is. */
	mask = be64toh(ib->sib_sid_mask);
	sid = be64toh(ib->sib_sid);
	if (sid & ~mask || (mask & UINT16_MAX && ~mask & UINT16_MAX))
		return false;
	/* Without these bits of the mask, the kernel listens in the id's own port space. */
	return (mask & services) == 0 ||
	       ((mask & services) == services && sid >> 16 == (uint64_t)ps);
}

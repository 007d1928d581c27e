/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "proto/addr.h"

#define GID_WORD "gid:"
#define DEFAULT_PKEY 0xffff

/* HOST: where the bytes of the host are. */
static const struct family {
	sa_family_t family;
	uint8_t kind;
	socklen_t len;
	size_t host, host_len;
} families[] = {
	{ AF_INET, 4, sizeof(struct sockaddr_in), offsetof(struct sockaddr_in, sin_addr), 4 },
	{ AF_INET6, 6, sizeof(struct sockaddr_in6), offsetof(struct sockaddr_in6, sin6_addr),
	  ADDR_HOST_LEN },
	{ AF_IB, ADDR_KIND_GID, sizeof(struct sockaddr_ib), offsetof(struct sockaddr_ib, sib_addr),
	  ADDR_HOST_LEN },
};
#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

static const struct family *family_of(const struct sockaddr *addr)
{
	for (size_t i = 0; i < N_FAMILIES; i++)
		if (families[i].family == addr->sa_family)
			return &families[i];
	return NULL;
}

static const uint8_t *host_of(const struct sockaddr *addr, const struct family *family)
{
	return (const uint8_t *)addr + family->host;
}

const char *addr_host_to_string(const struct sockaddr *addr, char buf[ADDR_HOST_STRLEN])
{
	const struct family *family = family_of(addr);
	char *at = buf;

	*buf = 0;
	if (!family)
		return buf;
	if (family->family == AF_IB)
		at = stpcpy(buf, GID_WORD);
	inet_ntop(family->family == AF_INET ? AF_INET : AF_INET6, host_of(addr, family), at,
		  (socklen_t)(buf + ADDR_HOST_STRLEN - at));
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
	const struct family *family = family_of(addr);

	return family ? family->len : 0;
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
	static const uint8_t any[ADDR_HOST_LEN];
	const struct family *family = family_of(addr);

	return !family || memcmp(host_of(addr, family), any, family->host_len) == 0;
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
		return ib_addr_loopback(&((const struct sockaddr_ib *)addr)->sib_addr);
	default:
		return false;
	}
}

bool addr_host(const struct sockaddr *addr, uint8_t ret[ADDR_HOST_LEN])
{
	const struct family *family = family_of(addr);

	memset(ret, 0, ADDR_HOST_LEN);
	if (!family)
		return false;
	if (family->family == AF_INET)
		ret[10] = ret[11] = 0xff;
	memcpy(ret + ADDR_HOST_LEN - family->host_len, host_of(addr, family), family->host_len);
	return true;
}

void addr_set_host(struct sockaddr_storage *ret, uint8_t kind, const uint8_t *host)
{
	*ret = (struct sockaddr_storage){ 0 };
	for (size_t i = 0; i < N_FAMILIES; i++) {
		if (families[i].kind != kind)
			continue;
		ret->ss_family = families[i].family;
		memcpy((uint8_t *)ret + families[i].host, host, families[i].host_len);
	}
}

unsigned addr_bits(const struct sockaddr *addr)
{
	const struct family *family = family_of(addr);

	return family ? (unsigned)family->host_len * 8 : 0;
}

uint8_t addr_traffic_class(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	return addr->sa_family == AF_INET6 ? (uint8_t)(ntohl(in6->sin6_flowinfo) >> 20) : 0;
}

void addr_set_traffic_class(struct sockaddr_storage *addr, uint8_t value)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

	if (addr->ss_family == AF_INET6)
		in6->sin6_flowinfo =
			htonl((ntohl(in6->sin6_flowinfo) & 0xf00fffff) | (uint32_t)value << 20);
}

bool addr_is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	uint8_t host[ADDR_HOST_LEN], other[ADDR_HOST_LEN];

	return a->sa_family == b->sa_family && addr_host(a, host) && addr_host(b, other) &&
	       memcmp(host, other, sizeof(host)) == 0;
}

bool addr_is_of_port_space(const struct sockaddr *addr, int ps, bool is_peer)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;
	const uint64_t services = UINT64_MAX << 16;
	uint64_t mask, sid;

	if (addr->sa_family != AF_IB)
		return true;
	mask = be64toh(ib->sib_sid_mask);
	sid = be64toh(ib->sib_sid);
	/* The kernel connects to the whole service id, whatever the mask is. */
	if (is_peer && sid >> 16 != (uint64_t)ps)
		return false;
	if (sid & ~mask || (mask & UINT16_MAX && ~mask & UINT16_MAX))
		return false;
	/* Without these bits of the mask, the kernel listens in the id's own port space. */
	return (mask & services) == 0 ||
	       ((mask & services) == services && sid >> 16 == (uint64_t)ps);
}

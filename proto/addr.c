/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "proto/addr.h"

const char *addr_host_to_string(const struct sockaddr *addr, char buf[ADDR_HOST_STRLEN])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	*buf = 0;
	if (addr->sa_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, buf, ADDR_HOST_STRLEN);
	else if (addr->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &in6->sin6_addr, buf, ADDR_HOST_STRLEN);
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
		snprintf(buf, ADDR_STRLEN, addr->sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u", text,
			 addr_port(addr));
	return buf;
}

bool addr_parse(struct sockaddr_storage *ret, const char *host, uint16_t port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

	*ret = (struct sockaddr_storage){ 0 };
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
	default:
		return 0;
	}
}

uint16_t addr_port(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ntohs(((const struct sockaddr_in *)addr)->sin_port);
	case AF_INET6:
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
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
	default:
		return false;
	}
}

bool addr_is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	uint8_t host[ADDR_HOST_LEN], other[ADDR_HOST_LEN];

	return a->sa_family == b->sa_family && addr_host(a, host) && addr_host(b, other) &&
	       memcmp(host, other, sizeof(host)) == 0;
}

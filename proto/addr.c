/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "proto/addr.h"

const char *addr_to_string(const struct sockaddr *addr, char buf[ADDR_STRLEN])
{
	char text[INET6_ADDRSTRLEN];

	switch (addr ? addr->sa_family : AF_UNSPEC) {
	case AF_INET: {
		const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		snprintf(buf, ADDR_STRLEN, "%s:%u", text, ntohs(in->sin_port));
		break;
	}
	case AF_INET6: {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
		if (in6->sin6_scope_id)
			snprintf(buf, ADDR_STRLEN, "[%s%%%u]:%u", text, in6->sin6_scope_id,
				 ntohs(in6->sin6_port));
		else
			snprintf(buf, ADDR_STRLEN, "[%s]:%u", text, ntohs(in6->sin6_port));
		break;
	}
	default:
		snprintf(buf, ADDR_STRLEN, "-");
	}
	return buf;
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
	if (a->sa_family != b->sa_family)
		return false;
	switch (a->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	case AF_INET6:
		return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
			      &((const struct sockaddr_in6 *)b)->sin6_addr, 16) == 0;
	default:
		return false;
	}
}

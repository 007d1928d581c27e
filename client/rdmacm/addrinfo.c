/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

/*
 * Looks names up with getaddrinfo(). A GID is looked up as an IPv6 address, and becomes one of AF_IB. The service of
 * InfiniBand that librdmacm asks for paths, ibacm, is not asked: the broker's host does that.
 */

static int to_socktype(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int to_protocol(int port_space, int socktype)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		return IPPROTO_TCP;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IPPROTO_UDP;
	case RDMA_PS_IB:
		return socktype == SOCK_STREAM ? IPPROTO_TCP :
		       socktype == SOCK_DGRAM  ? IPPROTO_UDP :
						 0;
	default:
		return 0;
	}
}

static struct addrinfo to_hints(const struct rdma_addrinfo *rai)
{
	struct addrinfo hints = { .ai_family = rai->ai_family == AF_IB ? 0 : rai->ai_family };

	if (rai->ai_flags & RAI_PASSIVE)
		hints.ai_flags |= AI_PASSIVE;
	if (rai->ai_flags & RAI_NUMERICHOST)
		hints.ai_flags |= AI_NUMERICHOST;
	hints.ai_socktype = to_socktype(rai->ai_qp_type);
	hints.ai_protocol = to_protocol(rai->ai_port_space, hints.ai_socktype);
	return hints;
}

static int copy_addr(struct sockaddr **ret, socklen_t *ret_len, const struct sockaddr *addr,
		     socklen_t len)
{
	*ret = malloc(len);
	if (!*ret)
		return fail(ENOMEM);
	memcpy(*ret, addr, len);
	*ret_len = len;
	return 0;
}

/* As librdmacm: AF_IB needs these flags, and without them the family is that of what was found. */
static bool wants_ib(const struct rdma_addrinfo *hints)
{
	return hints && hints->ai_flags & RAI_FAMILY && hints->ai_flags & RAI_NUMERICHOST &&
	       hints->ai_family == AF_IB;
}

/* ADDR, whose host is a GID, as an address of PORT_SPACE. */
static int convert_gid(struct sockaddr **ret, socklen_t *ret_len, const struct sockaddr *addr,
		       int port_space)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	struct sockaddr_ib ib = { .sib_family = AF_IB, .sib_pkey = htons(0xffff) };
	uint16_t port;

	/* An IPv4 address is no GID. */
	if (addr->sa_family != AF_INET6)
		return EAI_FAMILY;
	port = ntohs(in6->sin6_port);
	ib.sib_flowinfo = in6->sin6_flowinfo;
	memcpy(&ib.sib_addr, &in6->sin6_addr, sizeof(ib.sib_addr));
	ib.sib_sid = htobe64(((uint64_t)port_space << 16) + port);
	ib.sib_sid_mask = htobe64(port ? UINT64_MAX : UINT64_MAX << 16);
	ib.sib_scope_id = in6->sin6_scope_id;
	return copy_addr(ret, ret_len, (struct sockaddr *)&ib, sizeof(ib));
}

/*
 * QP type and port space are those of the hints; if the hints have none, the socket type and the protocol determine
 * them.
 */
static int from_addrinfo(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints,
			 const struct addrinfo *ai)
{
	bool passive = ai->ai_flags & AI_PASSIVE;
	char *name = ai->ai_canonname ? strdup(ai->ai_canonname) : NULL;
	struct sockaddr **addr;
	socklen_t *len;

	rai->ai_qp_type = ai->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD : IBV_QPT_RC;
	rai->ai_port_space = ai->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (hints && hints->ai_qp_type)
		rai->ai_qp_type = hints->ai_qp_type;
	if (hints && hints->ai_port_space)
		rai->ai_port_space = hints->ai_port_space;
	rai->ai_flags = passive ? RAI_PASSIVE : 0;
	rai->ai_family = wants_ib(hints) ? AF_IB : ai->ai_family;
	*(passive ? &rai->ai_src_canonname : &rai->ai_dst_canonname) = name;
	addr = passive ? &rai->ai_src_addr : &rai->ai_dst_addr;
	len = passive ? &rai->ai_src_len : &rai->ai_dst_len;
	return wants_ib(hints) ? convert_gid(addr, len, ai->ai_addr, rai->ai_port_space) :
				 copy_addr(addr, len, ai->ai_addr, ai->ai_addrlen);
}

static int resolve(struct rdma_addrinfo *rai, const char *node, const char *service,
		   const struct rdma_addrinfo *hints)
{
	struct addrinfo ai_hints, *ai;
	int r;

	if (hints)
		ai_hints = to_hints(hints);
	r = getaddrinfo(node, service, hints ? &ai_hints : NULL, &ai);
	if (r != 0)
		return r;
	r = from_addrinfo(rai, hints, ai);
	freeaddrinfo(ai);
	return r;
}

static int copy_hints(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	return hints->ai_dst_len ? copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len,
					     hints->ai_dst_addr, hints->ai_dst_len) :
				   0;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *rai;
	int r;

	if (!node && !service && !hints)
		return fail(EINVAL);
	/*
	 * Decide now between the broker and librdmacm, because the same one has to free the list. Ignore a failure:
	 * names can be looked up without a broker.
	 */
	broker_start();
	FORWARD(rdma_getaddrinfo, node, service, hints, res);
	if (hints && hints->ai_flags & RAI_SA) {
		report_once(
			"RAI_SA: only librdmacm itself asks InfiniBand's subnet administration for services");
		return fail(EOPNOTSUPP);
	}
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return fail(ENOMEM);
	r = node || service ? resolve(rai, node, service, hints) : copy_hints(rai, hints);
	if (r == 0 && hints && hints->ai_src_len && !rai->ai_src_len)
		r = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
			      hints->ai_src_len);
	if (r != 0) {
		rdma_freeaddrinfo(rai);
		return r;
	}
	*res = rai;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	struct rdma_addrinfo *next;

	FORWARD(rdma_freeaddrinfo, res);
	for (; res; res = next) {
		next = res->ai_next;
		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <string.h>

#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/rdmabroker.h"

static int to_errno(int r)
{
	switch (r) {
	case 0:
		return 0;
	case EAI_SYSTEM:
		return errno;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_AGAIN:
		return EAGAIN;
	case EAI_NONAME:
	case EAI_SERVICE:
		return ENOENT;
	case EAI_FAMILY:
		return EAFNOSUPPORT;
	default:
		return EINVAL;
	}
}

int rdmabroker_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			   struct addrinfo **ret)
{
	struct addrinfo ours = hints ? *hints : (struct addrinfo){ 0 };
	int r;

	/* getaddrinfo() returns an entry for each socket type otherwise; one for each address is enough. */
	if (ours.ai_socktype == 0)
		ours.ai_socktype = SOCK_STREAM;
	r = getaddrinfo(node, service, &ours, ret);
	return r == 0 ? 0 : fail(to_errno(r), "%s: %s", node ?: service ?: "*", gai_strerror(r));
}

int rdmabroker_create_ep(struct rdmabroker *session, struct rdmabroker_id **ret,
			 const struct addrinfo *info, enum rdmabroker_port_space ps,
			 struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	struct rdmabroker_id *id;
	int r = rdmabroker_create_id(session, &id, NULL, ps);

	if (r < 0)
		return r;
	if (info->ai_flags & AI_PASSIVE) {
		r = rdmabroker_bind_addr(id, info->ai_addr);
	} else {
		r = rdmabroker_resolve_addr_wait(id, NULL, info->ai_addr,
						 deadline_timeout_ms(deadline));
		if (r == 0)
			r = rdmabroker_resolve_route_wait(id, deadline_timeout_ms(deadline));
		if (r == 0 && attr)
			r = rdmabroker_create_qp(id, pd, attr);
	}
	if (r < 0)
		rdmabroker_destroy_id(id);
	else
		*ret = id;
	return r;
}

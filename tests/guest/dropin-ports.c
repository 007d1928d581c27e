/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "dropin.h"

/* A port that the kernel has chosen is free as soon as its id is destroyed. */

/* How an id and its successor use the port. */
enum {
	DATAGRAM = 1 << 0,
	SYNC = 1 << 1,
	WILDCARD = 1 << 2,
	LISTENS = 1 << 3,
	SHARED = 1 << 4, /* both set REUSEADDR */
	WILDCARD_NEXT = 1 << 5, /* the successor is bound to the wildcard address */
	ELSEWHERE = 1 << 6, /* the successor has another channel */
	ALL = 1 << 7,
};

static struct sockaddr *at(bool wildcard, in_port_t port)
{
	static struct sockaddr_in addr;

	addr = here;
	addr.sin_port = port;
	if (wildcard)
		addr.sin_addr.s_addr = htonl(INADDR_ANY);
	return (struct sockaddr *)&addr;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, ps) == 0);
	return id;
}

static bool fails(const char *call, int r, unsigned how)
{
	if (r < 0)
		fprintf(stderr, "%s, how %#x: %s\n", call, how, strerrorname_np(errno));
	return r < 0;
}

/* Binds ID to PORT, 0: a free one, and lets it listen if LISTENS. */
static bool take_port(struct rdma_cm_id *id, in_port_t port, bool wildcard, bool listens,
		      unsigned how)
{
	int yes = 1;

	if (how & SHARED)
		CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
				      sizeof(yes)) == 0);
	return !fails("bind", rdma_bind_addr(id, at(wildcard, port)), how) &&
	       !(listens && fails("listen", rdma_listen(id, 1), how));
}

static bool take_in_turn(struct rdma_event_channel *one, struct rdma_event_channel *other,
			 unsigned how)
{
	enum rdma_port_space ps = how & DATAGRAM ? RDMA_PS_UDP : RDMA_PS_TCP;
	struct rdma_cm_id *id = new_id(how & SYNC ? NULL : one, ps);
	in_port_t port;
	bool ret;

	CHECK(take_port(id, 0, how & WILDCARD, how & LISTENS, how));
	port = rdma_get_src_port(id);
	CHECK(port != 0 && rdma_destroy_id(id) == 0);
	id = new_id(how & ELSEWHERE ? other : one, ps);
	ret = take_port(id, port, how & WILDCARD_NEXT, true, how);
	CHECK(rdma_destroy_id(id) == 0);
	return ret;
}

void case_ports(void)
{
	struct rdma_event_channel *one = rdma_create_event_channel();
	struct rdma_event_channel *other = rdma_create_event_channel();
	bool ok = true;

	CHECK(one && other);
	for (unsigned how = 0; how < ALL; how++)
		ok &= take_in_turn(one, other, how);
	CHECK(ok);
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(other);
}

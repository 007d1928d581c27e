/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include "client/admin.h"
#include "tests/fake/fake.h"
#include "tests/unit/ends.h"
#include "tests/unit/ib.h"
#include "tests/unit/place.h"
#include "tests/unit/unit.h"

void put_policy(const char *rules)
{
	struct rdmabroker_reload_result *result;
	struct rdmabroker *admin;

	place_write(rules, "[Daemon]\nLogLevel=warning\n");
	ck_assert_int_eq(rdmabroker_open(NULL, &admin), 0);
	ck_assert_int_eq(rdmabroker_reload(admin, false, &result), 0);
	ck_assert(result->ok);
	rdmabroker_free(result);
	rdmabroker_close(admin);
}

void set_up_ib(void)
{
	fake_be_infiniband(true);
	set_up();
	put_policy("allow any\n");
}

struct sockaddr *ib_addr(uint64_t sid, uint64_t mask)
{
	static struct sockaddr_ib ibs[2];
	static unsigned n;
	struct sockaddr_ib *ib = &ibs[n++ % 2];

	*ib = (struct sockaddr_ib){
		.sib_family = AF_IB,
		.sib_pkey = htons(0xffff),
		.sib_sid = htobe64(sid),
		.sib_sid_mask = htobe64(mask),
	};
	fake_gid_of((union ibv_gid *)&ib->sib_addr, addr(0));
	return (struct sockaddr *)ib;
}

struct sockaddr *tcp_on(uint16_t port)
{
	return ib_addr((uint64_t)RDMA_PS_TCP << 16 | port, UINT64_MAX);
}

void expect_own_gid(const union ibv_gid *gid)
{
	union ibv_gid own;

	fake_gid_of(&own, addr(0));
	ck_assert_mem_eq(gid, &own, sizeof(own));
}

void expect_own_gids(const struct rdma_cm_id *id)
{
	expect_own_gid(&id->route.addr.addr.ibaddr.sgid);
	expect_own_gid(&id->route.addr.addr.ibaddr.dgid);
}

void create(void)
{
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
}

void resolve_ip(void)
{
	create();
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
}

struct rdma_cm_id *listen_on(struct sockaddr *address)
{
	struct rdma_cm_id *id;

	DO(&server, rdma_create_id(server.channel, &id, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(id, address));
	DO(&server, rdma_listen(id, 8));
	return id;
}

void expect_event(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;

	DO(&client, rdma_get_cm_event(client.channel, &event));
	ck_assert_int_eq(event->event, type);
	ck_assert_int_eq(event->status, status);
	rdma_ack_cm_event(event);
}

struct sockaddr *in_partition(struct sockaddr *address, uint16_t pkey)
{
	((struct sockaddr_ib *)address)->sib_pkey = htons(pkey);
	return address;
}

void resolve_in(uint16_t pkey)
{
	create();
	DO(&client, rdma_resolve_addr(client.id, NULL, in_partition(tcp_on(IB_PORT), pkey), 1000));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <netinet/in.h>
#include <poll.h>

#include "broker.h"
#include "tests/unit/ends.h"
#include "tests/unit/place.h"

struct broker *broker;

struct end server, client;
struct rdma_cm_id *listener;

static bool turn(void *userdata)
{
	sd_event *loop = hooks_get_loop();

	return hooks_run(loop) > 0 || sd_event_run(loop, 3000) > 0;
}

struct sockaddr *addr(uint16_t port)
{
	static struct sockaddr_in ins[2];
	static unsigned n;
	struct sockaddr_in *in = &ins[n++ % 2];

	*in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a090001),
	};
	return (struct sockaddr *)in;
}

void forget_traffic(void)
{
	client.traffic = server.traffic = (struct hooks_traffic){ 0 };
}

struct rdma_cm_id *await(struct end *end, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	DO(end, rdma_get_cm_event(end->channel, &event));
	ck_assert_str_eq(rdma_event_str(event->event), rdma_event_str(type));
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

void set_up(void)
{
	place_make("reject connect peer 10.9.0.9\n"
		   "allow connect port 7472 max 1\n"
		   "reject accept port 7473 reason \"in repair\"\n"
		   "allow accept port 7474 responder-resources 4 initiator-depth 2\n"
		   "allow any\n",
		   "[Daemon]\nLogLevel=warning\n");
	hooks_reset();
	place_start(&broker);
	hooks_set_turn(turn, NULL);

	server.channel = rdma_create_event_channel();
	client.channel = rdma_create_event_channel();
	ck_assert(server.channel && client.channel);
	DO(&server, rdma_create_id(server.channel, &listener, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(listener, addr(PORT)));
	DO(&server, rdma_listen(listener, 8));
	forget_traffic();
}

void tear_down(void)
{
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(client.channel);
	rdma_destroy_event_channel(server.channel);
	/* The drop-in keeps the session of its process, so the daemon is not freed. */
	place_remove();
}

bool is_readable(const struct rdma_event_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

void run_daemon(void)
{
	while (hooks_run(hooks_get_loop()) > 0)
		;
}

void make_qp(struct end *end)
{
	/* The fake verbs do not use the completion queues. */
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = (struct ibv_cq *)end,
		.recv_cq = (struct ibv_cq *)end,
	};

	DO(end, rdma_create_qp(end->id, NULL, &attr));
}

void resolve(const struct sockaddr *from)
{
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	if (from)
		DO(&client, rdma_bind_addr(client.id, (struct sockaddr *)from));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void connect_resolved(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };

	make_qp(&client);
	DO(&client, rdma_connect(client.id, &param));

	server.id = await(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(&server);
	DO(&server, rdma_accept(server.id, &param));
	await(&client, RDMA_CM_EVENT_ESTABLISHED);
	await(&server, RDMA_CM_EVENT_ESTABLISHED);
}

void connect_ends(const struct sockaddr *from)
{
	resolve(from);
	connect_resolved();
}

void end_connection(void)
{
	DO(&client, rdma_disconnect(client.id));
	await(&client, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(client.id);
	DO(&client, rdma_destroy_id(client.id));

	await(&server, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(server.id);
	DO(&server, rdma_destroy_id(server.id));
}

void warm_up(void)
{
	for (int i = 0; i < 3; i++) {
		connect_ends(NULL);
		end_connection();
	}
	forget_traffic();
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/unit.h"

/*
 * Counts the packets and the waits of programs that use the drop-in. The drop-in, the library and the daemon run in
 * this process, over the fake fabric, so the counts are exact.
 */

#define PORT 7471

static char dir[32];
static struct broker *broker;

/* One end of a connection: a program with its own event channel. */
struct end {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct hooks_traffic traffic; /* of the calls of this program */
};

static struct end server, client;
static struct rdma_cm_id *listener;

static bool turn(void *userdata)
{
	sd_event *loop = hooks_get_loop();

	(void)userdata;
	return hooks_run(loop) > 0 || sd_event_run(loop, 3000) > 0;
}

static void write_file(const char *name, const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static const char *in_dir(char *ret, const char *name)
{
	snprintf(ret, 64, "%s/%s", dir, name);
	return ret;
}

static struct sockaddr *addr(uint16_t port)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a090001),
	};
	return (struct sockaddr *)&in;
}

/* Carries out CALL, a call of END's program, and adds its traffic to that of END. */
#define BY(end, call)                                                  \
	({                                                             \
		hooks_start_counting();                                \
		hooks_begin_call();                                    \
		__auto_type result_ = (call);                          \
		(end)->traffic.packets += hooks_get_traffic().packets; \
		(end)->traffic.waits += hooks_get_traffic().waits;     \
		result_;                                               \
	})
#define DO(end, call) ck_assert_msg(BY(end, call) == 0, "%s: %s", #call, strerror(errno))

#define COUNTS(end, n_packets, n_waits)                               \
	do {                                                          \
		ck_assert_uint_eq((end)->traffic.packets, n_packets); \
		ck_assert_uint_eq((end)->traffic.waits, n_waits);     \
	} while (0)

static void forget_traffic(void)
{
	client.traffic = server.traffic = (struct hooks_traffic){ 0 };
}

/* Takes END's next event, which has to be of TYPE. Returns the id that it is about. */
static struct rdma_cm_id *await(struct end *end, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	DO(end, rdma_get_cm_event(end->channel, &event));
	ck_assert_str_eq(rdma_event_str(event->event), rdma_event_str(type));
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static void set_up(void)
{
	char config[64], socket[64], rules[64];
	struct broker_options options = {
		.config_path = config,
		.socket_path = socket,
		.policy_dir = rules,
	};

	umask(022);
	strcpy(dir, "/tmp/rdmabroker-dropin-XXXXXX");
	ck_assert(mkdtemp(dir));
	mkdir(in_dir(rules, "policy.d"), 0755);
	write_file("policy.d/1.rules", "allow any\n");
	write_file("rdmabrokerd.conf", "[Daemon]\nLogLevel=warning\n");
	in_dir(config, "rdmabrokerd.conf");
	setenv("RDMABROKER_SOCKET", in_dir(socket, "socket"), 1);
	hooks_reset();
	ck_assert_int_eq(broker_new(&broker, &options), 0);
	hooks_set_turn(turn, NULL);

	server.channel = rdma_create_event_channel();
	client.channel = rdma_create_event_channel();
	ck_assert(server.channel && client.channel);
	DO(&server, rdma_create_id(server.channel, &listener, NULL, RDMA_PS_TCP));
	DO(&server, rdma_bind_addr(listener, addr(PORT)));
	DO(&server, rdma_listen(listener, 8));
	forget_traffic();
}

static void tear_down(void)
{
	char path[64];

	rdma_destroy_id(listener);
	rdma_destroy_event_channel(client.channel);
	rdma_destroy_event_channel(server.channel);
	/* The drop-in keeps the session of its process, so the daemon is not freed. */
	remove(in_dir(path, "policy.d/1.rules"));
	remove(in_dir(path, "policy.d"));
	remove(in_dir(path, "rdmabrokerd.conf"));
	remove(in_dir(path, "socket"));
	remove(dir);
}

static void make_qp(struct end *end)
{
	/* The fake verbs do not look at the queues. */
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = (struct ibv_cq *)end,
		.recv_cq = (struct ibv_cq *)end,
	};

	DO(end, rdma_create_qp(end->id, NULL, &attr));
}

static void resolve(bool bound)
{
	DO(&client, rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
	if (bound)
		DO(&client, rdma_bind_addr(client.id, addr(0)));
	DO(&client, rdma_resolve_addr(client.id, NULL, addr(PORT), 1000));
	await(&client, RDMA_CM_EVENT_ADDR_RESOLVED);
	DO(&client, rdma_resolve_route(client.id, 1000));
	await(&client, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void connect_ends(bool bound)
{
	struct rdma_conn_param param = { .retry_count = 7 };

	resolve(bound);
	make_qp(&client);
	DO(&client, rdma_connect(client.id, &param));

	server.id = await(&server, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(&server);
	DO(&server, rdma_accept(server.id, &param));
	await(&client, RDMA_CM_EVENT_ESTABLISHED);
	await(&server, RDMA_CM_EVENT_ESTABLISHED);
}

static void end_connection(void)
{
	DO(&client, rdma_disconnect(client.id));
	await(&client, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(client.id);
	DO(&client, rdma_destroy_id(client.id));

	await(&server, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(server.id);
	DO(&server, rdma_destroy_id(server.id));
}

/* What is needed only once, such as opening the device, is not counted. */
static void warm_up(void)
{
	for (int i = 0; i < 3; i++) {
		connect_ends(/* bound= */ false);
		end_connection();
	}
	forget_traffic();
}

START_TEST(bound_connection)
{
	warm_up();
	connect_ends(/* bound= */ true);
	COUNTS(&client, 13, 8);
	client.traffic = (struct hooks_traffic){ 0 };
	end_connection();
	COUNTS(&client, 4, 2);
	COUNTS(&server, 6, 4);
}
END_TEST

START_TEST(unbound_connection)
{
	warm_up();
	connect_ends(/* bound= */ false);
	COUNTS(&client, 11, 7);
	client.traffic = (struct hooks_traffic){ 0 };
	end_connection();
	COUNTS(&client, 4, 2);
	COUNTS(&server, 6, 4);
}
END_TEST

UNIT_MAIN("dropin", set_up, tear_down, bound_connection, unbound_connection)

/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * unconfirmed ADDR PORT: connects to rdmabroker-ping with librdmacm itself, and does not confirm the response until a
 * line comes on stdin. Until then the peer's id waits for the confirmation. At the end it disconnects. ADDR is an IPv4
 * address. The exit status is 1 if anything else happens.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/patience.h"

#define RESOLVE_MS PATIENCE_MS

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static void check(const char *what, int r)
{
	if (r == 0)
		return;
	fprintf(stderr, "unconfirmed: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void await(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	check("rdma_get_cm_event", rdma_get_cm_event(channel, &event));
	printf("%s\n", rdma_event_str(event->event));
	if (event->event != type) {
		fprintf(stderr, "unconfirmed: the event is %s, and not %s\n",
			rdma_event_str(event->event), rdma_event_str(type));
		exit(1);
	}
	rdma_ack_cm_event(event);
}

int main(int argc, char **argv)
{
	struct sockaddr_in peer = { .sin_family = AF_INET };
	/* what rdmabroker-ping expects: its name, its version, and the size of its data */
	static const uint8_t hello[] = { 'p', 'i', 'n', 'g', 0, 0, 0, 1, 0, 0, 0, 64 };
	/* The kernel does not look at the number, and no data is sent. */
	struct rdma_conn_param param = {
		.private_data = hello,
		.private_data_len = sizeof(hello),
		.qp_num = 0x4711,
		.retry_count = 7,
	};

	if (argc != 3 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1) {
		fprintf(stderr, "unconfirmed: an IPv4 address and a port are expected\n");
		return 2;
	}
	peer.sin_port = htons((uint16_t)atoi(argv[2]));
	setvbuf(stdout, NULL, _IOLBF, 0);

	channel = rdma_create_event_channel();
	check("rdma_create_event_channel", channel ? 0 : -1);
	check("rdma_create_id", rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	check("rdma_resolve_addr",
	      rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, RESOLVE_MS));
	await(RDMA_CM_EVENT_ADDR_RESOLVED);
	check("rdma_resolve_route", rdma_resolve_route(id, RESOLVE_MS));
	await(RDMA_CM_EVENT_ROUTE_RESOLVED);
	check("rdma_connect", rdma_connect(id, &param));
	await(RDMA_CM_EVENT_CONNECT_RESPONSE);
	while (getchar() != '\n')
		if (feof(stdin))
			return 1;
	check("rdma_establish", rdma_establish(id));
	check("rdma_disconnect", rdma_disconnect(id));
	puts("disconnects");
	await(RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return 0;
}

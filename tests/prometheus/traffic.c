/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdmabroker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * traffic SOCKET ROUNDS: connections between two sessions with a daemon on the fake fabric, and requests that policy refuses:
 * ports from 7480 on. In each round one connection is made and ended, and two requests are refused. One connection stays.
 */

#define PORT 7471
#define REFUSED 7480
#define PATIENCE_MS 180000

static struct rdmabroker *server, *client;
static const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

/* Ends the program if R is a failure. */
static void must(const char *what, int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "traffic: %s: %s\n", what, rdmabroker_last_failure()->text);
	exit(EXIT_FAILURE);
}

static const struct sockaddr *address(uint16_t port)
{
	static struct sockaddr_in in = { .sin_family = AF_INET };

	in.sin_addr.s_addr = htonl(0x0a090001);
	in.sin_port = htons(port);
	return (const struct sockaddr *)&in;
}

static struct rdmabroker *open_session(const char *socket)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker *session;

	options.socket = socket;
	must("open", rdmabroker_open(&options, &session));
	return session;
}

static struct rdmabroker_id *bind_id(uint16_t port)
{
	struct rdmabroker_id *id;

	must("create", rdmabroker_create_id(server, RDMABROKER_PS_TCP, NULL, &id));
	must("bind", rdmabroker_bind_addr(id, address(port)));
	return id;
}

static struct rdmabroker_id *resolve(void)
{
	struct rdmabroker_id *id;

	must("create", rdmabroker_create_id(client, RDMABROKER_PS_TCP, NULL, &id));
	must("resolve address", rdmabroker_resolve_addr_wait(id, NULL, address(PORT), PATIENCE_MS));
	must("resolve route", rdmabroker_resolve_route_wait(id, PATIENCE_MS));
	return id;
}

static struct rdmabroker_event *expect(struct rdmabroker *session, enum rdmabroker_event_type type)
{
	struct rdmabroker_event *event;

	must("get event", rdmabroker_get_event(session, PATIENCE_MS, &event));
	if (event->type == type)
		return event;
	fprintf(stderr, "traffic: event %d in place of %d\n", event->type, type);
	exit(EXIT_FAILURE);
}

static struct rdmabroker_id *connect_once(struct rdmabroker_id **ret_passive)
{
	struct rdmabroker_id *active = resolve();
	struct rdmabroker_event *event;

	must("connect", rdmabroker_connect(active, &param));
	event = expect(server, RDMABROKER_EVENT_CONNECT_REQUEST);
	*ret_passive = event->id;
	rdmabroker_free_event(event);
	must("accept", rdmabroker_accept(*ret_passive, &param));
	rdmabroker_free_event(expect(client, RDMABROKER_EVENT_CONNECT_RESPONSE));
	must("establish", rdmabroker_establish(active));
	rdmabroker_free_event(expect(server, RDMABROKER_EVENT_ESTABLISHED));
	return active;
}

/* Policy refuses some at bind, the others when they listen. */
static void be_refused(uint16_t port)
{
	struct rdmabroker_id *id;

	must("create", rdmabroker_create_id(server, RDMABROKER_PS_TCP, NULL, &id));
	if (rdmabroker_bind_addr(id, address(port)) >= 0 && rdmabroker_listen(id, 0) >= 0) {
		fprintf(stderr, "traffic: port %u is not refused\n", port);
		exit(EXIT_FAILURE);
	}
	rdmabroker_destroy_id(id);
}

static void do_round(void)
{
	struct rdmabroker_id *passive, *active = connect_once(&passive);

	must("disconnect", rdmabroker_disconnect_wait(passive, PATIENCE_MS));
	rdmabroker_free_event(expect(client, RDMABROKER_EVENT_DISCONNECTED));
	rdmabroker_destroy_id(passive);
	rdmabroker_destroy_id(active);
	be_refused(REFUSED);
	be_refused(REFUSED + 1);
}

int main(int argc, char **argv)
{
	struct rdmabroker_id *passive;

	if (argc != 3) {
		fputs("traffic SOCKET ROUNDS\n", stderr);
		return 2;
	}
	server = open_session(argv[1]);
	client = open_session(argv[1]);
	must("listen", rdmabroker_listen(bind_id(PORT), 0));
	/* A line for each round that is asked for on stdin. */
	connect_once(&passive);
	for (int c; (c = getchar()) != EOF;) {
		for (int i = atoi(argv[2]); i > 0; i--)
			do_round();
		putchar(c);
		fflush(stdout);
	}
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "tests/guest/calls.h"

/* A device is removed and added again while sessions use it. */

/*
 * removal-server ADDR PORT: serves a client until the device is removed, and another after the device was added
 * again.
 */
int removal_server(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *listener = listen_on(session, RDMABROKER_PS_TCP, &address);
	struct server *server = server_new(session, 0, LINK_OWN);

	printf("listening\n");
	while (!server_lost_device(server) || server_n_links(server) > 0)
		server_wait(server, -1);
	rdmabroker_destroy_id(listener);
	step("all is destroyed");

	listener = listen_on(session, RDMABROKER_PS_TCP, &address);
	printf("listening again\n");
	while (server_n_ended(server) < 2)
		server_wait(server, -1);
	server_free(server);
	rdmabroker_destroy_id(listener);
	rdmabroker_close(session);
	return 0;
}

/* removal-client ADDR PORT: connects, loses its connection by the removal, and connects again. */
int removal_client(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_event *event;
	struct link link;

	client_connect(&link, session, &address, LINK_OWN);
	for (int i = 0; i < 20; i++)
		client_round(&link);
	printf("established\n");
	must(session, "get_event", rdmabroker_get_event(session, DEADLINE_MS, &event));
	printf("event: %s\n", rdmabroker_event_str(event->type));
	if (event->id != link.id || (event->type != RDMABROKER_EVENT_DISCONNECTED &&
				     event->type != RDMABROKER_EVENT_DEVICE_REMOVAL))
		die("DISCONNECTED or DEVICE_REMOVAL is expected");
	rdmabroker_free_event(event);
	link_done(&link);
	rdmabroker_destroy_id(link.id);
	step("all is destroyed");

	client_connect(&link, session, &address, LINK_OWN);
	for (int i = 0; i < 20; i++)
		client_round(&link);
	client_disconnect(&link);
	rdmabroker_close(session);
	printf("20 rounds verified on the new device\n");
	return 0;
}

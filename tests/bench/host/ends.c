/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/host/host.h"

/* The listener is the daemon's first id: the fake fabric, which searches a list, finds it at once. */
void ends_open(struct ends *ends)
{
	*ends = (struct ends){ .last_qpn = 16 };
	ends->server = open_session(RDMABROKER_FAIL_BY_EVENT); /* as the drop-in */
	ends->listener = listen_on(ends->server, SERVICE_PORT);
	ends->client = open_session(RDMABROKER_FAIL_BY_EVENT);
}

void ends_close(struct ends *ends)
{
	rdmabroker_close(ends->client);
	rdmabroker_close(ends->server);
}

static void resolve(struct ends *ends, struct rdmabroker_id *id)
{
	struct sockaddr_in service = service_addr(SERVICE_PORT);
	const struct sockaddr *addr = (const struct sockaddr *)&service;

	if (ends->resolves_at_once) {
		must(rdmabroker_resolve_wait(id, NULL, addr, DEADLINE_MS), "resolve");
		return;
	}
	must(rdmabroker_resolve_addr_wait(id, NULL, addr, DEADLINE_MS), "resolve_addr");
	must(rdmabroker_resolve_route_wait(id, DEADLINE_MS), "resolve_route");
}

void ends_connect(struct ends *ends, struct connection *ret)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param),
					       .private_data = "hello",
					       .private_data_len = 5 };
	struct rdmabroker *server = ends->server, *client = ends->client;
	struct rdmabroker_id *active, *passive;

	must(rdmabroker_create_id(client, RDMABROKER_PS_TCP, NULL, &active), "create_id");
	resolve(ends, active);
	param.qp_num = ++ends->last_qpn;
	must(rdmabroker_connect(active, &param), "connect");
	passive = await(server, RDMABROKER_EVENT_CONNECT_REQUEST);
	param.qp_num = ++ends->last_qpn;
	must(rdmabroker_accept(passive, &param), "accept");
	await(client, RDMABROKER_EVENT_CONNECT_RESPONSE);
	must(rdmabroker_establish(active), "establish");
	await(server, RDMABROKER_EVENT_ESTABLISHED);
	*ret = (struct connection){ active, passive };
}

void ends_disconnect(struct ends *ends, const struct connection *connection)
{
	must(rdmabroker_disconnect(connection->active), "disconnect");
	await(ends->client, RDMABROKER_EVENT_DISCONNECTED);
	await(ends->server, RDMABROKER_EVENT_DISCONNECTED);
	must(rdmabroker_destroy_id_wait(connection->active, DEADLINE_MS), "destroy_id");
	must(rdmabroker_destroy_id_wait(connection->passive, DEADLINE_MS), "destroy_id");
}

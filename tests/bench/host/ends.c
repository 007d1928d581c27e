/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/host/host.h"

/* The listener is the daemon's first id: the fake fabric, which searches a list, finds it at once. */
void ends_open(struct ends *ends)
{
	/* As the drop-in. */
	const unsigned flags = RDMABROKER_FAIL_BY_EVENT | (ends->apart ? RDMABROKER_TRUST_FD : 0);

	*ends = (struct ends){ .last_qpn = ends->last_qpn ?: 16, .apart = ends->apart };
	if (ends->apart)
		ends->replies = open_session(RDMABROKER_NO_POLL);
	ends->server = open_session_apart(ends->replies, flags);
	ends->listener = listen_on(ends->server, SERVICE_PORT);
	ends->client = open_session_apart(ends->replies, flags);
	if (ends->apart) {
		rdmabroker_get_fd(ends->server);
		rdmabroker_get_fd(ends->client);
	}
}

void ends_close(struct ends *ends)
{
	rdmabroker_close(ends->client);
	rdmabroker_close(ends->server);
	rdmabroker_close(ends->replies);
}

static struct rdmabroker_id *take(const struct ends *ends, struct rdmabroker *session,
				  enum rdmabroker_event_type type)
{
	if (ends->apart)
		must(rdmabroker_await_event(session), "await_event");
	return await(session, type);
}

static void resolve(struct ends *ends, struct rdmabroker_id *id)
{
	struct sockaddr_in service = service_addr(SERVICE_PORT);
	const struct sockaddr *addr = (const struct sockaddr *)&service;

	if (ends->resolves_at_once) {
		must(rdmabroker_resolve_wait(id, NULL, addr, DEADLINE_MS), "resolve");
		return;
	}
	if (ends->apart) {
		must(rdmabroker_resolve_addr(id, NULL, addr, DEADLINE_MS), "resolve_addr");
		take(ends, ends->client, RDMABROKER_EVENT_ADDR_RESOLVED);
		must(rdmabroker_resolve_route(id, DEADLINE_MS), "resolve_route");
		take(ends, ends->client, RDMABROKER_EVENT_ROUTE_RESOLVED);
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
	passive = take(ends, server, RDMABROKER_EVENT_CONNECT_REQUEST);
	param.qp_num = ++ends->last_qpn;
	must(rdmabroker_accept(passive, &param), "accept");
	take(ends, client, RDMABROKER_EVENT_CONNECT_RESPONSE);
	must(rdmabroker_establish(active), "establish");
	take(ends, server, RDMABROKER_EVENT_ESTABLISHED);
	*ret = (struct connection){ active, passive };
}

/* The drop-in waits for the reply, as rdma_destroy_id() returns when the port is free. */
static void destroy(const struct ends *ends, struct rdmabroker_id *id)
{
	if (ends->apart)
		must(rdmabroker_destroy_id_wait(id, DEADLINE_MS), "destroy_id");
	else
		rdmabroker_destroy_id(id);
}

void ends_disconnect(struct ends *ends, const struct connection *connection)
{
	must(rdmabroker_disconnect(connection->active), "disconnect");
	take(ends, ends->client, RDMABROKER_EVENT_DISCONNECTED);
	take(ends, ends->server, RDMABROKER_EVENT_DISCONNECTED);
	destroy(ends, connection->active);
	destroy(ends, connection->passive);
}

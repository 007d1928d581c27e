/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Uses the library's structs, and makes most of its calls. The binary in tests/abi was built from this file with the
 * headers of version 2.0 of the ABI. It must run with every later library of the same soname: see
 * tests/unit/check_abi.c.
 *
 * usage: program ADDRESS PORT GROUP
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdmabroker.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 180000 /* only ends a hang */

typedef void function(void);

/* If the library lacks one of these calls, the program cannot be loaded. */
static function *const calls[] = {
	(function *)rdmabroker_accept,
	(function *)rdmabroker_accept_wait,
	(function *)rdmabroker_bind_addr,
	(function *)rdmabroker_close,
	(function *)rdmabroker_close_device,
	(function *)rdmabroker_connect,
	(function *)rdmabroker_connect_wait,
	(function *)rdmabroker_create_ep,
	(function *)rdmabroker_create_id,
	(function *)rdmabroker_create_qp,
	(function *)rdmabroker_destroy_id,
	(function *)rdmabroker_destroy_id_wait,
	(function *)rdmabroker_destroy_qp,
	(function *)rdmabroker_disconnect,
	(function *)rdmabroker_disconnect_wait,
	(function *)rdmabroker_establish,
	(function *)rdmabroker_event_str,
	(function *)rdmabroker_export_id,
	(function *)rdmabroker_free_devices,
	(function *)rdmabroker_free_event,
	(function *)rdmabroker_get_context,
	(function *)rdmabroker_get_device_name,
	(function *)rdmabroker_get_devices,
	(function *)rdmabroker_get_event,
	(function *)rdmabroker_get_fd,
	(function *)rdmabroker_get_local_addr,
	(function *)rdmabroker_get_local_port,
	(function *)rdmabroker_get_option,
	(function *)rdmabroker_get_pd,
	(function *)rdmabroker_get_peer_addr,
	(function *)rdmabroker_get_peer_port,
	(function *)rdmabroker_get_qp,
	(function *)rdmabroker_get_reject_event,
	(function *)rdmabroker_get_remote_ece,
	(function *)rdmabroker_get_request,
	(function *)rdmabroker_get_request_event,
	(function *)rdmabroker_get_response_event,
	(function *)rdmabroker_get_session,
	(function *)rdmabroker_get_verbs,
	(function *)rdmabroker_get_version,
	(function *)rdmabroker_import_id,
	(function *)rdmabroker_init_qp_attr,
	(function *)rdmabroker_join_multicast,
	(function *)rdmabroker_join_multicast_wait,
	(function *)rdmabroker_last_failure,
	(function *)rdmabroker_leave_multicast,
	(function *)rdmabroker_listen,
	(function *)rdmabroker_migrate_id,
	(function *)rdmabroker_notify,
	(function *)rdmabroker_open,
	(function *)rdmabroker_open_device,
	(function *)rdmabroker_reject,
	(function *)rdmabroker_reject_ece,
	(function *)rdmabroker_resolve,
	(function *)rdmabroker_resolve_addr,
	(function *)rdmabroker_resolve_addr_wait,
	(function *)rdmabroker_resolve_route,
	(function *)rdmabroker_resolve_route_wait,
	(function *)rdmabroker_resolve_wait,
	(function *)rdmabroker_set_context,
	(function *)rdmabroker_set_local_ece,
	(function *)rdmabroker_set_option,
	(function *)rdmabroker_set_qp,
	(function *)rdmabroker_wait_disconnected,
};

static struct rdmabroker *session;

static void must(int r, const char *what)
{
	if (r == 0)
		return;
	printf("%s: %d, %s\n", what, r, rdmabroker_last_failure()->text);
	exit(1);
}

static struct sockaddr_in address(const char *text, const char *port)
{
	struct sockaddr_in ret = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, text, &ret.sin_addr) != 1)
		exit(2);
	ret.sin_port = htons((uint16_t)atoi(port));
	return ret;
}

static struct rdmabroker_event *await_event(enum rdmabroker_event_type type)
{
	struct rdmabroker_event *event;

	must(rdmabroker_get_event(session, TIMEOUT_MS, &event), "get_event");
	printf("event %s, status %d\n", rdmabroker_event_str(event->type), event->status);
	if (event->type != type)
		exit(1);
	return event;
}

static void print_conn(const struct rdmabroker_conn_param *conn)
{
	printf("  \"%.*s\", responder_resources %u, initiator_depth %u, flow_control %d, "
	       "retry_count %u, rnr_retry_count %u, srq %d, qp_num %u\n",
	       (int)strnlen(conn->private_data, conn->private_data_len),
	       (const char *)conn->private_data, conn->responder_resources, conn->initiator_depth,
	       conn->flow_control, conn->retry_count, conn->rnr_retry_count, conn->srq,
	       conn->qp_num);
}

static void open_session(void)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	const struct rdmabroker_failure *failure;
	int r;

	options.socket = "/nowhere";
	r = rdmabroker_open(&options, &session);
	failure = rdmabroker_last_failure();
	printf("open: %s, failure %d, text %d, rule %d, retry %u\n", r == -ENOENT ? "ENOENT" : "?",
	       failure->error == r, strlen(failure->text) > 0, failure->rule != NULL,
	       failure->retry_after_ms);
	options.socket = NULL;
	options.call_timeout_ms = TIMEOUT_MS;
	must(rdmabroker_open(&options, &session), "open");
}

static struct rdmabroker_id *start_listening(const struct sockaddr *addr)
{
	struct rdmabroker_id *id;
	int tos;

	must(rdmabroker_create_id(session, RDMABROKER_PS_TCP, &session, &id), "create_id");
	must(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 32), "set_option");
	must(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &tos), "get_option");
	must(rdmabroker_bind_addr(id, addr), "bind_addr");
	must(rdmabroker_listen(id, 5), "listen");
	printf("listens: port %u, context %d, session %d, tos %d, device %s\n",
	       rdmabroker_get_local_port(id), rdmabroker_get_context(id) == &session,
	       rdmabroker_get_session(id) == session, tos, rdmabroker_get_device_name(id));
	return id;
}

static void connect_to_self(const struct sockaddr *addr, struct rdmabroker_id *listener)
{
	struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT;
	struct rdmabroker_id *client, *server;
	struct rdmabroker_event *event;

	must(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &client), "create_id");
	must(rdmabroker_resolve_wait(client, NULL, addr, TIMEOUT_MS), "resolve_wait");
	printf("resolved: device %s, peer %d\n", rdmabroker_get_device_name(client),
	       rdmabroker_get_peer_port(client) == rdmabroker_get_local_port(listener));
	printf("connect without parameters: %d\n", rdmabroker_connect(client, NULL));
	param.private_data = "from the client";
	param.private_data_len = 16;
	param.responder_resources = 3;
	param.initiator_depth = 2;
	param.retry_count = 5;
	param.rnr_retry_count = 6;
	param.qp_num = 1001;
	must(rdmabroker_connect(client, &param), "connect");
	must(rdmabroker_get_request(listener, TIMEOUT_MS, &server), "get_request");
	print_conn(rdmabroker_get_request_event(server)->conn);
	param.private_data = "from the server";
	param.qp_num = 1002;
	must(rdmabroker_accept(server, &param), "accept");
	event = await_event(RDMABROKER_EVENT_CONNECT_RESPONSE);
	printf("  of the client: %d\n", event->id == client);
	print_conn(event->conn);
	rdmabroker_free_event(event);
	must(rdmabroker_establish(client), "establish");
	rdmabroker_free_event(await_event(RDMABROKER_EVENT_ESTABLISHED));
	must(rdmabroker_disconnect_wait(client, TIMEOUT_MS), "disconnect_wait");
	must(rdmabroker_wait_disconnected(server, TIMEOUT_MS), "wait_disconnected");
	must(rdmabroker_destroy_id_wait(client, TIMEOUT_MS), "destroy_id_wait");
	must(rdmabroker_destroy_id_wait(server, TIMEOUT_MS), "destroy_id_wait");
}

/* The port of ADDR is 0. */
static void join_group(const struct sockaddr *addr, const struct sockaddr *group)
{
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	must(rdmabroker_create_id(session, RDMABROKER_PS_UDP, NULL, &id), "create_id");
	must(rdmabroker_bind_addr(id, addr), "bind_addr");
	must(rdmabroker_join_multicast_wait(id, group, 1, TIMEOUT_MS, &ud), "join_multicast_wait");
	printf("joined: size %d\n", ud.size == sizeof(ud));
	must(rdmabroker_leave_multicast(id, group), "leave_multicast");
	must(rdmabroker_join_multicast(id, group, 1, &ud), "join_multicast");
	event = await_event(RDMABROKER_EVENT_MULTICAST_JOIN);
	printf("  the same parameters: %d, context %d\n",
	       event->ud->qp_num == ud.qp_num && event->ud->qkey == ud.qkey &&
		       event->ud->ah_attr.port_num == ud.ah_attr.port_num,
	       event->join_context == &ud);
	rdmabroker_free_event(event);
	rdmabroker_destroy_id(id);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr, any, group;
	struct rdmabroker_id *listener;

	if (argc != 4)
		return 2;
	printf("calls: %zu\n", sizeof(calls) / sizeof(calls[0]));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!calls[i])
			return 2;
	addr = address(argv[1], argv[2]);
	group = address(argv[3], "0");
	open_session();
	listener = start_listening((struct sockaddr *)&addr);
	connect_to_self((struct sockaddr *)&addr, listener);
	any = addr;
	any.sin_port = 0;
	join_group((struct sockaddr *)&any, (struct sockaddr *)&group);
	rdmabroker_destroy_id(listener);
	rdmabroker_close(session);
	return 0;
}

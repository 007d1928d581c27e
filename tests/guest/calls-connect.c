/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/guest/calls.h"

/* Connections by calls that wait, on a device that was opened before the address was resolved. */

static struct ibv_context *open_device(struct rdmabroker *session, const char *name)
{
	struct ibv_context *verbs;

	must(session, "open_device", rdmabroker_open_device(session, name, &verbs));
	return verbs;
}

static struct ibv_pd *make_pd(struct ibv_context *verbs)
{
	struct ibv_pd *pd = ibv_alloc_pd(verbs);

	if (!pd)
		die("no PD: %s", strerror(errno));
	return pd;
}

static void do_connect(struct rdmabroker *session, struct link *link, const union address *address)
{
	struct ibv_qp_init_attr attr = link_qp_attr(link, IBV_QPT_RC);
	struct rdmabroker_conn_param param = {
		.size = sizeof(param),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	must(session, "resolve_wait",
	     rdmabroker_resolve_wait(link->id, NULL, &address->any, DEADLINE_MS));
	must(session, "create_qp", rdmabroker_create_qp(link->id, link->pd, &attr));
	must(session, "connect_wait", rdmabroker_connect_wait(link->id, &param, DEADLINE_MS));
}

static void check_id(struct rdmabroker_id *id, const char *device, const union address *address)
{
	const struct sockaddr_in *local = (struct sockaddr_in *)rdmabroker_get_local_addr(id);
	const struct rdmabroker_event *response = rdmabroker_get_response_event(id);

	if (strcmp(rdmabroker_get_device_name(id), device) != 0)
		die("the id is bound to %s, not %s", rdmabroker_get_device_name(id), device);
	if (local->sin_family != AF_INET || local->sin_port == 0 ||
	    rdmabroker_get_peer_port(id) != ntohs(address->in.sin_port))
		die("the id does not know its addresses");
	if (!response || response->id != id || response->conn->qp_num == 0)
		die("the id does not know the peer's answer");
}

/* connect-to ADDR PORT DEVICE COUNT: makes, uses and ends COUNT connections, one after the other. */
int connect_to(char **argv)
{
	struct rdmabroker *session = open_session(0);
	struct ibv_context *verbs = open_device(session, argv[2]);
	union address address = make_address(argv[0], argv[1]);
	struct ibv_pd *pd = make_pd(verbs);

	for (int i = 0; i < number(argv[3]); i++) {
		struct link link;

		link_init_on(&link, new_id(session, RDMABROKER_PS_TCP), LINK_OWN, verbs, pd);
		do_connect(session, &link, &address);
		check_id(link.id, argv[2], &address);
		link_take_qp(&link);
		client_round(&link);
		client_disconnect(&link);
	}
	ibv_dealloc_pd(pd);
	rdmabroker_close_device(session, verbs);
	rdmabroker_close(session);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/guest/calls.h"

/* Connections by one call, rdmabroker_connect_to_wait(), which also resolves the address and the route. */

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

static int try_from(struct link *link, const union address *source, const union address *address)
{
	struct ibv_qp_init_attr attr = link_qp_attr(link, IBV_QPT_RC);
	struct rdmabroker_conn_param param = {
		.size = sizeof(param),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	return rdmabroker_connect_to_wait(link->id, source ? &source->any : NULL, &address->any,
					  link->pd, &attr, &param, DEADLINE_MS);
}

static int try_to_connect(struct link *link, const union address *address)
{
	return try_from(link, NULL, address);
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
		must(session, "connect_to_wait", try_to_connect(&link, &address));
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

static void use(struct link *link, const char *device, const union address *address)
{
	must(rdmabroker_get_session(link->id), "connect_to_wait", try_to_connect(link, address));
	check_id(link->id, device, address);
	link_take_qp(link);
	client_round(link);
}

static void check_spent(struct link *link)
{
	if (rdmabroker_get_qp(link->id) || rdmabroker_get_device_name(link->id))
		die("there is something left of what failed");
}

/*
 * connect-to-refused ADDR PORT DEVICE OTHER SOURCE: an id is usable after a failure. A server must listen on PORT,
 * and none on PORT + 1. The route to ADDR uses the device DEVICE, but OTHER if it begins at the address SOURCE.
 */
int connect_to_refused(char **argv)
{
	struct rdmabroker *session = open_session(0);
	struct ibv_context *verbs = open_device(session, argv[2]),
			   *others = open_device(session, argv[3]);
	union address address = make_address(argv[0], argv[1]), nobody = address,
		      source = make_address(argv[4], "0"),
		      silent = make_address("10.9.0.99", argv[1]);
	struct ibv_pd *pd = make_pd(verbs), *others_pd = make_pd(others);
	struct ibv_qp_init_attr attr;
	struct link link;

	nobody.in.sin_port = htons((uint16_t)(ntohs(address.in.sin_port) + 1));

	/* The QP is on OTHER, but the route to ADDR uses DEVICE unless it begins at SOURCE. */
	link_init_on(&link, new_id(session, RDMABROKER_PS_TCP), LINK_OWN, others, others_pd);
	must_fail("connect_to, other device", try_to_connect(&link, &address), -EXDEV);
	check_spent(&link);
	must(session, "connect_to from SOURCE", try_from(&link, &source, &address));
	check_id(link.id, argv[3], &address);
	link_take_qp(&link);
	client_round(&link);
	client_disconnect(&link);

	link_init_on(&link, new_id(session, RDMABROKER_PS_TCP), LINK_OWN, verbs, pd);
	for (int i = 0; i < 2; i++) {
		must_fail("connect_to, nobody", try_to_connect(&link, &nobody), -ECONNREFUSED);
		if (rdmabroker_get_reject_event(link.id)->rejected_by !=
		    RDMABROKER_REJECTED_NO_LISTENER)
			die("get_reject does not say that nobody listens");
		check_spent(&link);
	}
	attr = link_qp_attr(&link, IBV_QPT_RC);
	must_fail("connect_to, no neighbour",
		  rdmabroker_connect_to_wait(link.id, NULL, &silent.any, pd, &attr, NULL, 3000),
		  -ETIMEDOUT);
	check_spent(&link);

	/* The same id now connects to a port with a listener. */
	use(&link, argv[2], &address);
	attr = link_qp_attr(&link, IBV_QPT_RC);
	must_fail("connect_to, once more",
		  rdmabroker_connect_to_wait(link.id, NULL, &address.any, pd, &attr, NULL,
					     DEADLINE_MS),
		  -EINVAL);
	client_disconnect(&link);

	link_init_on(&link, new_id(session, RDMABROKER_PS_TCP), LINK_OWN, verbs, pd);
	step("connected, now policy closes");
	must_fail("connect_to, by policy", try_to_connect(&link, &address), -EACCES);
	check_spent(&link);
	step("refused, now policy opens");
	use(&link, argv[2], &address);
	client_disconnect(&link);

	/* The id is bound to an address of OTHER, but the QP is on DEVICE. The failure unbinds the id. */
	link_init_on(&link, new_id(session, RDMABROKER_PS_TCP), LINK_OWN, verbs, pd);
	must(session, "bind_addr", rdmabroker_bind_addr(link.id, &source.any));
	must_fail("connect_to, bound to another device", try_to_connect(&link, &address), -EXDEV);
	check_spent(&link);
	use(&link, argv[2], &address);
	client_disconnect(&link);

	link_init_on(&link, new_id(session, RDMABROKER_PS_TCP), LINK_OWN, verbs, pd);
	must(session, "set_option", rdmabroker_set_option(link.id, RDMABROKER_OPTION_TOS, 96));
	must_fail("connect_to, nobody", try_to_connect(&link, &nobody), -ECONNREFUSED);
	use(&link, argv[2], &address);
	{
		int tos;

		must(session, "get_option",
		     rdmabroker_get_option(link.id, RDMABROKER_OPTION_TOS, &tos));
		if (tos != 96)
			die("TOS is %d, not 96", tos);
	}
	client_disconnect(&link);

	ibv_dealloc_pd(pd);
	ibv_dealloc_pd(others_pd);
	rdmabroker_close(session);
	return 0;
}

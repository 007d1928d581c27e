/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/admin.h"
#include "tests/guest/calls.h"

/* A call without a reply ends by its deadline. Its id can then be destroyed at once. */

#define CALL_MS 5000 /* enough for the calls that have a reply, also on a slow machine */
/* The kernel's own timeouts are a minute or more. So what takes no longer than this has not waited for them. */
#define GRACE_MS 30000

/*
 * The call must have failed, at most GRACE_MS after its deadline. The kernel may report an error other than ETIMEDOUT
 * earlier.
 */
static void ended(const char *what, int64_t start, int r)
{
	int64_t took = now_ms() - start;

	printf("%s: %s after %lld ms: %s\n", what, error_name(r), (long long)took,
	       r < 0 ? rdmabroker_last_failure()->text : "-");
	if (r == 0)
		die("%s succeeded, with nobody to answer", what);
	if (took > CALL_MS + GRACE_MS)
		die("%s: the deadline was after %d ms", what, CALL_MS);
}

static void timed_out(const char *what, int64_t start, int r)
{
	ended(what, start, r);
	if (r != -ETIMEDOUT)
		die("%s: ETIMEDOUT is expected", what);
}

static void destroyed(struct rdmabroker_id *id)
{
	int64_t start = now_ms();

	rdmabroker_destroy_id(id);
	printf("destroy_id: after %lld ms\n", (long long)(now_ms() - start));
	if (now_ms() - start > GRACE_MS)
		die("destroy_id does not return at once");
}

/* deadline-broker ADDR PORT: the suite stops the broker with SIGSTOP. */
int deadline_broker(char **argv)
{
	const struct rdmabroker_options o = { .size = sizeof(o), .call_timeout_ms = CALL_MS };
	union address address = make_address(argv[0], argv[1]), any = make_address(argv[0], "0");
	struct rdmabroker_id *fresh, *found, *ready, *id;
	struct rdmabroker *session, *second;
	struct rdmabroker_status *status;
	struct link link, idle;
	int64_t start;

	if (rdmabroker_open(&o, &session) < 0)
		die("open: %s", rdmabroker_last_failure()->text);
	fresh = new_id(session, RDMABROKER_PS_TCP);
	found = new_id(session, RDMABROKER_PS_TCP);
	must(session, "resolve_addr_wait",
	     rdmabroker_resolve_addr_wait(found, NULL, &address.any, DEADLINE_MS));
	/*
	 * The broker resolves a route in advance, and resolve_route then sends no request. After a change of the TOS,
	 * the broker must resolve the route anew.
	 */
	must(session, "set_option TOS", rdmabroker_set_option(found, RDMABROKER_OPTION_TOS, 96));
	ready = resolve(session, RDMABROKER_PS_TCP, &address);
	link_init(&idle, ready, LINK_OWN);
	link_make_qp(&idle, IBV_QPT_RC);
	client_connect(&link, session, &address, LINK_OWN);
	client_round(&link);
	step("the broker is to be stopped");

	start = now_ms();
	timed_out("resolve_addr_wait", start,
		  rdmabroker_resolve_addr_wait(fresh, NULL, &address.any, CALL_MS));
	start = now_ms();
	timed_out("resolve_route_wait", start, rdmabroker_resolve_route_wait(found, CALL_MS));
	start = now_ms();
	timed_out("connect_wait", start, rdmabroker_connect_wait(ready, NULL, CALL_MS));
	start = now_ms();
	/* new_id() succeeds: the broker creates an id only with the id's first request. */
	id = new_id(session, RDMABROKER_PS_TCP);
	timed_out("bind_addr", start, rdmabroker_bind_addr(id, &any.any));
	start = now_ms();
	destroyed(id);
	start = now_ms();
	timed_out("get_status", start, rdmabroker_get_status(session, &status));
	/* Data does not go through the broker. */
	client_round(&link);
	start = now_ms();
	timed_out("disconnect_wait", start, rdmabroker_disconnect_wait(link.id, CALL_MS));
	start = now_ms();
	if (rdmabroker_open(&o, &second) != -ETIMEDOUT || now_ms() - start > CALL_MS + GRACE_MS)
		die("open, after %lld ms: %s", (long long)(now_ms() - start),
		    rdmabroker_last_failure()->text);
	printf("open: after %lld ms: %s\n", (long long)(now_ms() - start),
	       rdmabroker_last_failure()->text);

	link_done(&link);
	link_done(&idle);
	destroyed(link.id);
	destroyed(ready);
	destroyed(found);
	destroyed(fresh);
	start = now_ms();
	rdmabroker_close(session);
	printf("close: after %lld ms\n", (long long)(now_ms() - start));
	if (now_ms() - start > GRACE_MS)
		die("close does not return at once");
	return 0;
}

/* deadline-silent ADDR: no host has the address ADDR. */
int deadline_silent(char **argv)
{
	union address address = make_address(argv[0], "7471");
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = new_id(session, RDMABROKER_PS_TCP);
	int64_t start = now_ms();

	ended("resolve_addr_wait", start,
	      rdmabroker_resolve_addr_wait(id, NULL, &address.any, CALL_MS));
	destroyed(id);
	id = new_id(session, RDMABROKER_PS_TCP);
	start = now_ms();
	ended("resolve_wait", start, rdmabroker_resolve_wait(id, NULL, &address.any, CALL_MS));
	destroyed(id);

	id = new_id(session, RDMABROKER_PS_TCP);
	must(session, "resolve_addr", rdmabroker_resolve_addr(id, NULL, &address.any, DEADLINE_MS));
	start = now_ms();
	ended("resolve_route_wait", start, rdmabroker_resolve_route_wait(id, CALL_MS));
	destroyed(id);
	rdmabroker_close(session);
	return 0;
}

/* deadline-connect ADDR PORT: the peer does not accept, or cannot be reached. */
int deadline_connect(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = resolve(session, RDMABROKER_PS_TCP, &address);
	struct link link;
	int64_t start;

	link_init(&link, id, LINK_OWN);
	link_make_qp(&link, IBV_QPT_RC);
	start = now_ms();
	timed_out("connect_wait", start, rdmabroker_connect_wait(id, NULL, CALL_MS));
	link_done(&link);
	destroyed(id);
	rdmabroker_close(session);
	return 0;
}

/* deadline-accept ADDR PORT: after its request, the peer cannot be reached any more. */
int deadline_accept(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *listener = listen_on(session, RDMABROKER_PS_TCP, &address), *request;
	struct link link;
	int64_t start;

	printf("listening\n");
	must(session, "get_request", rdmabroker_get_request(listener, DEADLINE_MS, &request));
	link_init(&link, request, LINK_OWN);
	link_make_qp(&link, IBV_QPT_RC);
	step("a request is here");
	start = now_ms();
	ended("accept_wait", start, rdmabroker_accept_wait(request, NULL, CALL_MS));
	link_done(&link);
	destroyed(request);
	destroyed(listener);
	rdmabroker_close(session);
	return 0;
}

/* disconnect-stopped ADDR PORT: the server's process is stopped, but its broker replies for it. */
int disconnect_stopped(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct link link;
	int64_t start;

	client_connect(&link, session, &address, LINK_OWN);
	client_round(&link);
	step("the server is to be stopped");
	start = now_ms();
	must(session, "disconnect_wait", rdmabroker_disconnect_wait(link.id, DEADLINE_MS));
	printf("disconnect_wait: after %lld ms\n", (long long)(now_ms() - start));
	/* The disconnect is complete: this call returns at once. */
	must(session, "disconnect_wait again", rdmabroker_disconnect_wait(link.id, DEADLINE_MS));
	link_done(&link);
	destroyed(link.id);
	rdmabroker_close(session);
	return 0;
}

/* deadline-disconnect ADDR PORT: after the connection is established, the peer cannot be reached any more. */
int deadline_disconnect(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct link link;
	int64_t start;

	client_connect(&link, session, &address, LINK_OWN);
	client_round(&link);
	step("established");
	start = now_ms();
	timed_out("disconnect_wait", start, rdmabroker_disconnect_wait(link.id, CALL_MS));
	link_done(&link);
	destroyed(link.id);
	rdmabroker_close(session);
	return 0;
}

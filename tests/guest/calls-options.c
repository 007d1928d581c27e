/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/admin.h"
#include "tests/guest/calls.h"

static uint16_t listen_and_tell(struct rdmabroker_id *id, const char *what)
{
	uint16_t port = rdmabroker_get_local_port(id);

	must(rdmabroker_get_session(id), "listen", rdmabroker_listen(id, 0));
	printf("%s: port %u, device %s\n", what, port,
	       rdmabroker_get_device_name(id) ? rdmabroker_get_device_name(id) : "-");
	if (port == 0 || rdmabroker_get_local_port(id) != port)
		die("%s: no port was chosen, or another by listen", what);
	return port;
}

static struct rdmabroker_id *bind_to(struct rdmabroker *session, const char *host, unsigned port,
				     bool af_only, int *ret)
{
	struct rdmabroker_id *id = new_id(session, RDMABROKER_PS_TCP);
	union address address;
	char text[8];

	snprintf(text, sizeof(text), "%u", port);
	address = make_address(host, text);
	if (af_only)
		must(session, "set_option AFONLY",
		     rdmabroker_set_option(id, RDMABROKER_OPTION_AFONLY, 1));
	*ret = rdmabroker_bind_addr(id, &address.any);
	return id;
}

static struct rdmabroker_id *must_bind(struct rdmabroker *session, const char *host, unsigned port,
				       bool af_only)
{
	struct rdmabroker_id *id;
	int r;

	id = bind_to(session, host, port, af_only, &r);
	must(session, host, r);
	return id;
}

static void bind_is_refused(struct rdmabroker *session, const char *host, unsigned port)
{
	struct rdmabroker_id *id;
	int r;

	id = bind_to(session, host, port, /* af_only= */ false, &r);
	printf("%s, port %u, which is taken: %s\n", host, port, error_name(r));
	if (r != -EADDRINUSE && r != -EADDRNOTAVAIL)
		die("EADDRINUSE or EADDRNOTAVAIL is expected");
	rdmabroker_destroy_id(id);
}

/*
 * binds ADDR ADDR6: listens on the wildcard addresses and on these addresses of a device. Checks which other binds
 * are refused.
 */
int binds(char **argv)
{
	struct rdmabroker *session = open_session(0);
	const char *hosts[] = { "0.0.0.0", argv[0], "::", argv[1] };
	struct rdmabroker_id *id, *other;
	uint16_t port;

	for (int i = 0; i < 4; i++) {
		bool wildcard = i % 2 == 0;

		id = must_bind(session, hosts[i], 0, /* af_only= */ false);
		port = listen_and_tell(id, hosts[i]);
		if (wildcard != !rdmabroker_get_device_name(id))
			die("%s: the device should %sbe known", hosts[i], wildcard ? "not " : "");
		bind_is_refused(session, hosts[i], port);
		/*
		 * A wildcard address takes the port on all addresses of its family. Without AFONLY, :: also takes it
		 * on all IPv4 addresses.
		 */
		if (wildcard)
			bind_is_refused(session, hosts[i + 1], port);
		if (i == 2)
			bind_is_refused(session, hosts[0], port);
		rdmabroker_destroy_id(id);
	}

	id = must_bind(session, "::", 0, /* af_only= */ true);
	port = listen_and_tell(id, "::, AFONLY");
	other = must_bind(session, "0.0.0.0", port, /* af_only= */ false);
	if (listen_and_tell(other, "0.0.0.0, the same port") != port)
		die("it is another port");
	rdmabroker_destroy_id(other);
	rdmabroker_destroy_id(id);
	rdmabroker_close(session);
	return 0;
}

static void expect_option(struct rdmabroker_id *id, const char *when, enum rdmabroker_option option,
			  int expected)
{
	int value = -2;

	must(rdmabroker_get_session(id), "get_option", rdmabroker_get_option(id, option, &value));
	printf("%s: option %d is %d\n", when, option, value);
	if (value != expected)
		die("%d is expected", expected);
}

/* options ADDR PORT ASKED FORCED: the program sets the TOS ASKED (-1: none), and policy changes it to FORCED. */
int options(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = new_id(session, RDMABROKER_PS_TCP);
	int asked = number(argv[2]), forced = number(argv[3]), value;

	expect_option(id, "at first", RDMABROKER_OPTION_TOS, -1);
	expect_option(id, "at first", RDMABROKER_OPTION_REUSEADDR, 0);
	expect_option(id, "at first", RDMABROKER_OPTION_AFONLY, -1);
	expect_option(id, "at first", RDMABROKER_OPTION_ACK_TIMEOUT, -1);
	if (asked >= 0)
		must(session, "set_option TOS",
		     rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, asked));
	must(session, "set_option AFONLY", rdmabroker_set_option(id, RDMABROKER_OPTION_AFONLY, 1));
	must(session, "set_option ACK_TIMEOUT",
	     rdmabroker_set_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, 13));
	expect_option(id, "asked", RDMABROKER_OPTION_TOS, asked);
	expect_option(id, "asked", RDMABROKER_OPTION_AFONLY, 1);
	expect_option(id, "asked", RDMABROKER_OPTION_ACK_TIMEOUT, 13);
	must(session, "resolve_addr_wait",
	     rdmabroker_resolve_addr_wait(id, NULL, &address.any, DEADLINE_MS));
	if (rdmabroker_get_peer_port(id) != number(argv[1]))
		die("the peer's port is %u", rdmabroker_get_peer_port(id));
	expect_option(id, "resolved", RDMABROKER_OPTION_TOS, forced);
	expect_option(id, "resolved", RDMABROKER_OPTION_REUSEADDR, 0);
	must_fail("set_option AFONLY too late",
		  rdmabroker_set_option(id, RDMABROKER_OPTION_AFONLY, 0), -EINVAL);
	must_fail("get_option 1000",
		  rdmabroker_get_option(id, (enum rdmabroker_option)1000, &value), -ENOSYS);
	rdmabroker_destroy_id(id);
	rdmabroker_close(session);
	return 0;
}

/* devices: prints for each device whether it can be used. */
int devices(char **argv)
{
	struct rdmabroker *session = open_session(0);
	struct ibv_context **list;
	struct ibv_pd *pd;
	size_t n = 0;

	must(session, "get_devices", rdmabroker_get_devices(session, &list, &n));
	for (size_t i = 0; i < n; i++) {
		pd = ibv_alloc_pd(list[i]);
		printf("device %s%s\n", ibv_get_device_name(list[i]->device),
		       pd ? "" : ", which cannot be used");
		if (pd)
			ibv_dealloc_pd(pd);
	}
	if (list[n])
		die("the list goes on after %zu", n);
	rdmabroker_free_devices(session, list);
	rdmabroker_close(session);
	return 0;
}

/* reloads FILE COUNT: makes COUNT reloads, and changes the rule in FILE before each. */
int reloads(char **argv)
{
	struct rdmabroker *session = open_session(RDMABROKER_AS_ADMIN);
	struct rdmabroker_reload_result *result;
	FILE *file;

	for (int i = 0; i < number(argv[1]); i++) {
		file = fopen(argv[0], "w");
		if (!file || fprintf(file, "reject connect port %d\n", i % 7 + 1) < 0 ||
		    fclose(file) != 0)
			die("%s cannot be written", argv[0]);
		must(session, "reload", rdmabroker_reload(session, false, &result));
		if (!result->ok)
			die("reload %d: %s", i, result->complaints[0]);
		rdmabroker_free(result);
	}
	rdmabroker_close(session);
	return 0;
}

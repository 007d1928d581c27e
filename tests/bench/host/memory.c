/* SPDX-License-Identifier: BSD-2-Clause */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/object/id.h"
#include "core/object/session.h"
#include "fabric/internal.h"
#include "rpc/peer.h"
#include "tests/bench/host/host.h"

/*
 * Measures the growth of the daemon's heap, by mallinfo2(), without the memory of the fake fabric. For each id, the
 * size of the struct in the real fabric/ is added. librdmacm's memory is not included.
 */

#define MEMORY_TARGET 2048
#define WARM_UP 16

static size_t on_heap(size_t size)
{
	void *p = malloc(size);
	size_t n = malloc_usable_size(p) + sizeof(size_t);

	free(p);
	return n;
}

static double per(const struct daemon_memory *before, const struct daemon_memory *after, unsigned n)
{
	int64_t bytes = (after->heap - after->fake) - (before->heap - before->fake);

	return (double)bytes / n;
}

static double measure_ids(const struct host_options *options)
{
	struct daemon_memory before, after;
	struct rdmabroker_id *id;
	struct rdmabroker *session;
	struct daemon daemon;

	daemon_start(&daemon);
	session = open_session(daemon.place.socket, RDMABROKER_FAIL_BY_EVENT);
	must(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), "create_id");
	before = daemon_get_memory(&daemon);
	for (unsigned i = 0; i < options->connections; i++)
		must(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), "create_id");
	after = daemon_get_memory(&daemon);
	rdmabroker_close(session);
	daemon_stop(&daemon);
	return per(&before, &after, options->connections);
}

static double measure_connections(const struct host_options *options, double *ret_fake)
{
	struct daemon_memory before, after;
	struct connection connection;
	struct daemon daemon;
	struct ends ends;

	daemon_start(&daemon);
	ends_open(&ends, daemon.place.socket);
	for (int i = 0; i < WARM_UP; i++) {
		ends_connect(&ends, &connection);
		ends_disconnect(&ends, &connection);
	}
	before = daemon_get_memory(&daemon);
	for (unsigned i = 0; i < options->connections; i++)
		ends_connect(&ends, &connection);
	after = daemon_get_memory(&daemon);
	ends_close(&ends);
	daemon_stop(&daemon);
	*ret_fake = (double)(after.fake - before.fake) / options->connections;
	return per(&before, &after, options->connections);
}

void measure_memory(const struct host_options *options)
{
	size_t fabric = on_heap(sizeof(struct fabric_id));
	double id = measure_ids(options) + (double)fabric, fake;
	double both = measure_connections(options, &fake) + 2 * (double)fabric;
	char name[96];

	printf("The daemon's memory, %u of each; bytes\n", options->connections);
	printf("  %-52s %8.0f\n", "an id, made and no more", id);
	printf("  %-52s %8.0f\n", "an end of a connection", both / 2);
	printf("  %-52s %8.0f\n", "a connection with both ends on the host", both);
	printf("  of which struct id (%zu, on the heap %zu) and fabric's struct (%zu, %zu) for each "
	       "end, and its place in the session's table.\n",
	       sizeof(struct id), on_heap(sizeof(struct id)), sizeof(struct fabric_id), fabric);
	printf("  While a request waits for its answer: %zu more (struct fabric_event).\n",
	       on_heap(sizeof(struct fabric_event)));
	printf("  Not in it: librdmacm's own; the fake fabric's %.0f for both ends.\n\n", fake);
	fflush(stdout);
	result_add("memory of an id", "bytes", id);
	result_add("memory of an end of a connection", "bytes", both / 2);
	snprintf(name, sizeof(name), "memory of a connection, both ends, %u open",
		 options->connections);
	result_add_target(name, "bytes", both, MEMORY_TARGET, "without librdmacm's");
}

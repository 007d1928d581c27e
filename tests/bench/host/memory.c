/* SPDX-License-Identifier: BSD-2-Clause */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "core/object/id.h"
#include "core/object/session.h"
#include "fabric/cm/id.h"
#include "rpc/peer.h"
#include "tests/bench/host/host.h"

/*
 * Measures the growth of the daemon's heap, by mallinfo2(), without the memory of the fake fabric. For each id, the
 * size of the struct in the real fabric/ is added. librdmacm's memory is not included.
 */

#define IDS 10000 /* and as many connections */
#define SESSIONS 1000 /* each has three descriptors, two of them the daemon's */
#define WARM_UP 16

static size_t on_heap(size_t size)
{
	void *p = malloc(size);
	size_t n = malloc_usable_size(p) + sizeof(size_t);

	free(p);
	return n;
}

/* Makes N objects. Returns the bytes for each. */
static double grow(const struct process *daemon, struct ends *ends,
		   void (*make)(struct ends *ends, unsigned i), unsigned n)
{
	int64_t before = daemon_get_heap(daemon);

	for (unsigned i = 0; i < n; i++)
		make(ends, i);
	return (double)(daemon_get_heap(daemon) - before) / n;
}

static void make_id(struct ends *ends, unsigned i)
{
	struct rdmabroker_id *id;
	int value;

	must(rdmabroker_create_id(ends->client, RDMABROKER_PS_TCP, NULL, &id), "create_id");
	/* With FAIL_BY_EVENT the library does not send the request before the next one. */
	must(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), "get_option");
}

static void make_connection(struct ends *ends, unsigned i)
{
	struct connection connection;

	ends_connect(ends, &connection);
}

static struct rdmabroker *sessions[SESSIONS];

static void make_session(struct ends *ends, unsigned i)
{
	sessions[i] = open_session(0);
}

static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("getrlimit: %m");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("setrlimit: %m");
}

void measure_memory(void)
{
	double id, connection, session, fabric = (double)on_heap(sizeof(struct fabric_id));
	struct connection first;
	struct process daemon;
	struct ends ends = { 0 };

	allow_descriptors();
	daemon_start(&daemon);
	ends_open(&ends);
	for (int i = 0; i < WARM_UP; i++) {
		ends_connect(&ends, &first);
		ends_disconnect(&ends, &first);
	}
	connection = grow(&daemon, &ends, make_connection, IDS) + 2 * fabric;
	session = grow(&daemon, &ends, make_session, SESSIONS);
	for (int i = 0; i < SESSIONS; i++)
		rdmabroker_close(sessions[i]);
	ends_close(&ends);
	daemon_stop(&daemon);

	daemon_start(&daemon);
	ends_open(&ends);
	id = grow(&daemon, &ends, make_id, IDS) + fabric;
	ends_close(&ends);
	daemon_stop(&daemon);

	printf("The daemon's memory, bytes\n");
	printf("  %-42s %6.0f\n", "a session", session);
	printf("  %-42s %6.0f\n", "an id, made and no more", id);
	printf("  %-42s %6.0f\n", "an end of a connection", connection / 2);
	printf("  %-42s %6.0f\n", "a connection with both ends on the host", connection);
	printf("Of a session, struct session takes %zu and struct peer %zu; the rest is what is known of the client, and\n"
	       "sd-event's sources. Of an end, struct id takes %zu and the fabric's struct %.0f. While a request waits for\n"
	       "its answer, struct fabric_event takes %zu more. Not included: librdmacm's own.\n",
	       sizeof(struct session), sizeof(struct peer), on_heap(sizeof(struct id)), fabric,
	       on_heap(sizeof(struct fabric_event)));
}

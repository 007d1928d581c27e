/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * What the daemon does for N objects, for callgrind (tests/bench/count/run): with a hundred times the objects, it must
 * not do more than a little over a hundred times the work. The argument is N. Prints for each part "part NAME" and the
 * number of objects, or of requests.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include "client/admin.h"
#include "tests/bench/count/single.h"
#include "tests/unit/place.h"

#define CONNECTIONS_MAX 2000 /* more would take long */
#define ASKED 20 /* requests of an admin */

static unsigned n;
static struct rdmabroker **sessions;
static struct rdmabroker_id **ids;
static int *fds;

static void begin_part(void)
{
	CALLGRIND_ZERO_STATS;
	single_collects = true;
}

static void end_part_of(const char *name, unsigned times)
{
	single_run();
	single_collects = false;
	CALLGRIND_DUMP_STATS_AT(name);
	printf("part %s %u\n", name, times);
}

static void end_part(const char *name)
{
	end_part_of(name, n);
}

static void *allocate(size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		die("no memory for %u objects", n);
	return p;
}

static void make_exports(struct rdmabroker *session)
{
	for (unsigned i = 0; i < n; i++) {
		must(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &ids[i]), "create_id");
		must(rdmabroker_export_id(ids[i], &fds[i]), "export_id");
	}
	single_run();
}

static void destroy_ids(void)
{
	for (unsigned i = 0; i < n; i++)
		rdmabroker_destroy_id(ids[i]);
	single_run();
}

/* All exports end at once, as when their process does. */
static void count_ends_of_exports(struct rdmabroker *session)
{
	make_exports(session);
	begin_part();
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	end_part("ends-of-exports");
	destroy_ids();
}

static void count_imports(struct rdmabroker *session, struct rdmabroker *other)
{
	struct rdmabroker_id *moved;

	make_exports(session);
	begin_part();
	for (unsigned i = 0; i < n; i++) {
		must(rdmabroker_import_id(other, fds[i], &moved), "import_id");
		close(fds[i]);
		rdmabroker_destroy_id(ids[i]);
		ids[i] = moved;
	}
	end_part("imports");
	destroy_ids();
}

/* They stay open, so that each is one more. The first id listens: the fake fabric, which searches a list, finds it at once. */
static void count_connections(void)
{
	struct connection *connections = allocate(sizeof(*connections));
	unsigned all = n;
	struct ends ends = { 0 };

	n = n < CONNECTIONS_MAX ? n : CONNECTIONS_MAX;
	ends_open(&ends);
	begin_part();
	for (unsigned i = 0; i < n; i++)
		ends_connect(&ends, &connections[i]);
	end_part("connections");
	begin_part();
	for (unsigned i = 0; i < n; i++)
		ends_disconnect(&ends, &connections[i]);
	end_part("ends-of-connections");
	ends_close(&ends);
	single_run();
	free(connections);
	n = all;
}

/* What an admin asks takes as long whatever the number of sessions is. A reload may look at each of them once. */
static void count_admin(struct rdmabroker *admin)
{
	struct rdmabroker_reload_result *result;
	struct rdmabroker_status *status;
	char *text;

	begin_part();
	for (unsigned i = 0; i < ASKED; i++) {
		must(rdmabroker_get_status(admin, &status), "status");
		rdmabroker_free(status);
	}
	end_part_of("status", ASKED);
	begin_part();
	for (unsigned i = 0; i < ASKED; i++) {
		must(rdmabroker_get_metrics(admin, &text), "metrics");
		free(text);
	}
	end_part_of("metrics", ASKED);
	begin_part();
	must(rdmabroker_reload(admin, false, &result), "reload");
	end_part("reload");
	rdmabroker_free(result);
}

static void count_sessions(struct rdmabroker *observer)
{
	const struct rdmabroker_filter filter = { NULL };
	struct rdmabroker_list *list;
	struct rdmabroker *watcher;

	begin_part();
	for (unsigned i = 0; i < n; i++)
		sessions[i] = open_session(0);
	end_part("sessions");
	begin_part();
	must(rdmabroker_get_list(observer, 0, &list), "list");
	end_part("rows-of-list");
	if (list->n_sessions < n)
		die("%zu sessions are listed", list->n_sessions);
	rdmabroker_free(list);
	count_admin(observer);

	/* Each session causes an event, which is told to one of them all. */
	watcher = open_session(0);
	must(rdmabroker_watch(watcher, &filter), "watch");
	begin_part();
	for (unsigned i = 0; i < n; i++) {
		struct rdmabroker_notice *notice;
		struct rdmabroker_id *id;
		struct sockaddr_in service = service_addr((uint16_t)(7000 + i % 1000));

		must(rdmabroker_create_id(sessions[i], RDMABROKER_PS_TCP, NULL, &id), "create_id");
		must(rdmabroker_bind_addr(id, (struct sockaddr *)&service), "bind_addr");
		must(rdmabroker_listen(id, 1), "listen");
		must(rdmabroker_get_notice(watcher, DEADLINE_MS, &notice), "get_notice");
		rdmabroker_free(notice);
		rdmabroker_destroy_id(id);
	}
	end_part("events");
	rdmabroker_close(watcher);

	begin_part();
	for (unsigned i = 0; i < n; i++)
		rdmabroker_close(sessions[i]);
	end_part("ends-of-sessions");
}

int main(int argc, char **argv)
{
	struct rdmabroker *session, *other;
	struct broker *broker;
	struct rlimit limit;

	n = argc == 2 ? (unsigned)atoi(argv[1]) : 0;
	if (n == 0)
		die("how many objects?");
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("getrlimit: %m");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("setrlimit: %m");
	sessions = allocate(sizeof(*sessions));
	ids = allocate(sizeof(*ids));
	fds = allocate(sizeof(*fds));
	broker = single_start(/* keeps= */ false);
	count_connections();
	session = open_session(0);
	other = open_session(0);
	count_ends_of_exports(session);
	count_imports(session, other);
	count_sessions(session);
	rdmabroker_close(session);
	rdmabroker_close(other);
	single_run();
	broker_free(broker);
	place_remove();
	return EXIT_SUCCESS;
}

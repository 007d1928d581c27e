/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Many connections of one process.
 *
 *   connects serve ADDR PORT...        accepts what comes to these ports, until it is killed
 *   connects hold ADDR PORT...         answers nothing that comes to these ports
 *   connects one-by-one ADDR PORT N    connects N times, each time when the last one has ended
 *   connects at-once ADDR PORT N       connects N times at once
 *
 * With WATCH=1 the process watches, too. Then its session is not taken over when the broker restarts.
 *
 * The clients print how many connects succeeded, how many a broker's policy rejected, and how many failed otherwise, and
 * the times of those that were decided. The exit status is 1 if one failed otherwise. ADDR is an IPv4 address.
 */

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/admin.h"
#include "tests/patience.h"

#define DEADLINE_MS PATIENCE_MS

struct client {
	double began, took; /* ms; TOOK is set when the connect was decided */
	bool is_decided;
};

static struct rdmabroker *session;
static struct sockaddr_in addr;
static struct ibv_cq *cq; /* shared by all QPs */
static unsigned n_connected, n_rejected, n_failed;
static char why[256]; /* the last failure */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void die(const char *what)
{
	fprintf(stderr, "connects: cannot %s: %s\n", what, rdmabroker_last_failure()->text);
	exit(2);
}

static struct rdmabroker_id *make_id(void *context)
{
	struct rdmabroker_id *id;

	if (rdmabroker_create_id(session, RDMABROKER_PS_TCP, context, &id) < 0)
		die("create an id");
	return id;
}

static int make_qp(struct rdmabroker_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_context *context;

	/* The device stays open until the process ends. */
	if (!cq && rdmabroker_open_device(session, rdmabroker_get_device_name(id), &context) == 0)
		cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = cq;
	return cq ? rdmabroker_create_qp(id, NULL, &attr) : -1;
}

/* ---- the server ---- */

static void on_server_event(const struct rdmabroker_event *event)
{
	switch (event->type) {
	case RDMABROKER_EVENT_CONNECT_REQUEST:
		if (make_qp(event->id) < 0 || rdmabroker_accept(event->id, NULL) < 0)
			rdmabroker_destroy_id(event->id);
		break;
	case RDMABROKER_EVENT_DISCONNECTED:
		rdmabroker_disconnect(event->id);
		rdmabroker_destroy_id(event->id);
		break;
	case RDMABROKER_EVENT_REJECTED:
	case RDMABROKER_EVENT_UNREACHABLE:
	case RDMABROKER_EVENT_CONNECT_ERROR:
		rdmabroker_destroy_id(event->id);
		break;
	default:
		break;
	}
}

static int serve(char **ports, bool answers)
{
	struct rdmabroker_event *event;

	for (; *ports; ports++) {
		struct rdmabroker_id *id = make_id(NULL);

		addr.sin_port = htons((uint16_t)atoi(*ports));
		if (rdmabroker_bind_addr(id, (struct sockaddr *)&addr) < 0 ||
		    rdmabroker_listen(id, 0) < 0)
			die("listen");
	}
	puts("listening");
	fflush(stdout);
	while (rdmabroker_get_event(session, DEADLINE_MS * 10, &event) == 0) {
		if (answers)
			on_server_event(event);
		else
			puts(rdmabroker_event_str(event->type));
		fflush(stdout);
		rdmabroker_free_event(event);
	}
	die("wait for a connection");
	return 1;
}

/* ---- the clients ---- */

static void decided(struct client *client, unsigned *counter)
{
	client->is_decided = true;
	client->took = now() - client->began;
	++*counter;
}

static void failed(const char *text)
{
	n_failed++;
	snprintf(why, sizeof(why), "%s", text ?: "no reason was given");
}

static void rejected(struct client *client, const struct rdmabroker_event *event)
{
	if (event && event->rejected_by == RDMABROKER_REJECTED_BY_POLICY)
		decided(client, &n_rejected);
	else
		failed(event ? event->text : NULL);
}

static void connect_once(struct client *client)
{
	const struct sockaddr *to = (struct sockaddr *)&addr;
	struct rdmabroker_id *id = make_id(NULL);
	int r;

	client->began = now();
	r = rdmabroker_resolve_wait(id, NULL, to, DEADLINE_MS);
	if (r == 0)
		r = make_qp(id);
	if (r == 0)
		r = rdmabroker_connect_wait(id, NULL, DEADLINE_MS);
	if (r == 0)
		decided(client, &n_connected);
	else if (rdmabroker_get_reject_event(id))
		rejected(client, rdmabroker_get_reject_event(id));
	else
		failed(rdmabroker_last_failure()->text);
	if (r == 0)
		rdmabroker_disconnect_wait(id, DEADLINE_MS);
	rdmabroker_destroy_id(id);
}

static void on_client_event(const struct rdmabroker_event *event)
{
	struct client *client = event->id ? rdmabroker_get_context(event->id) : NULL;

	switch (event->type) {
	case RDMABROKER_EVENT_ROUTE_RESOLVED:
		if (make_qp(event->id) < 0 || rdmabroker_connect(event->id, NULL) < 0)
			failed(rdmabroker_last_failure()->text);
		break;
	case RDMABROKER_EVENT_ESTABLISHED:
		decided(client, &n_connected);
		break;
	case RDMABROKER_EVENT_REJECTED:
		rejected(client, event);
		break;
	case RDMABROKER_EVENT_DONE:
		if (event->status != 0)
			failed(event->text);
		break;
	case RDMABROKER_EVENT_ADDR_RESOLVED:
	case RDMABROKER_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		failed(event->text);
	}
}

static void connect_all(struct client *clients, unsigned n)
{
	struct rdmabroker_id **ids = calloc(n, sizeof(struct rdmabroker_id *));
	struct rdmabroker_event *event;

	if (!ids)
		die("allocate memory");
	for (unsigned i = 0; i < n; i++) {
		ids[i] = make_id(&clients[i]);
		clients[i].began = now();
		if (rdmabroker_resolve(ids[i], NULL, (struct sockaddr *)&addr, DEADLINE_MS) < 0)
			failed(rdmabroker_last_failure()->text);
	}
	while (n_connected + n_rejected + n_failed < n) {
		if (rdmabroker_get_event(session, DEADLINE_MS, &event) < 0)
			die("wait for the end of the connects");
		on_client_event(event);
		rdmabroker_free_event(event);
	}
	for (unsigned i = 0; i < n; i++)
		rdmabroker_destroy_id(ids[i]);
	free(ids);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const struct client *clients, unsigned n)
{
	double *times = calloc(n, sizeof(double));
	unsigned n_times = 0;

	if (!times)
		die("allocate memory");
	for (unsigned i = 0; i < n; i++)
		if (clients[i].is_decided)
			times[n_times++] = clients[i].took;
	qsort(times, n_times, sizeof(double), compare);
	printf("%u connected, %u rejected, %u failed", n_connected, n_rejected, n_failed);
	if (n_times > 0)
		printf("; ms: p50 %.1f, p99 %.1f, longest %.1f", times[(n_times - 1) / 2],
		       times[(n_times - 1) * 99 / 100], times[n_times - 1]);
	printf("%s%s\n", n_failed > 0 ? "; " : "", why);
	free(times);
}

static int connects(bool at_once, const char *port, unsigned n)
{
	struct client *clients = calloc(n, sizeof(*clients));

	if (!clients)
		die("allocate memory");
	addr.sin_port = htons((uint16_t)atoi(port));
	if (at_once)
		connect_all(clients, n);
	for (unsigned i = 0; !at_once && i < n; i++)
		connect_once(&clients[i]);
	print(clients, n);
	free(clients);
	return n_failed > 0;
}

int main(int argc, char **argv)
{
	const struct rdmabroker_options options = { .size = sizeof(options),
						    .flags = RDMABROKER_AS_ADMIN };
	const char *what = argc >= 4 ? argv[1] : "";

	addr.sin_family = AF_INET;
	if (argc < 4 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1) {
		fprintf(stderr,
			"connects: serve|hold|one-by-one|at-once, an IPv4 address and a port "
			"are needed\n");
		return 2;
	}
	if (rdmabroker_open(&options, &session) < 0)
		die("open a session");
	if (getenv("WATCH") && rdmabroker_watch(session, NULL) < 0)
		die("watch");
	if (strcmp(what, "serve") == 0 || strcmp(what, "hold") == 0)
		return serve(argv + 3, strcmp(what, "serve") == 0);
	return connects(strcmp(what, "at-once") == 0, argv[3],
			argc > 4 ? (unsigned)atoi(argv[4]) : 1);
}

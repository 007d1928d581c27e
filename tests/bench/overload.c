/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Measures a service, and a second service (the neighbour), under ten times the load that the first service's rule
 * admits.
 *
 *   overload ADDR PORT OTHER-PORT RATE CLIENTS SECONDS
 *
 * Listens on both ports. The rule for PORT has to admit RATE connections per second, with a burst of RATE. Connects
 * to OTHER-PORT three times: without other load; while CLIENTS clients together connect to PORT at ten times RATE;
 * and while these clients use RDMABROKER_RETRY_BUSY. Prints a table. The exit status is 1 if
 *
 *   - more connections to PORT were made than RATE and the burst admit,
 *   - no client was refused, or no client connected to PORT,
 *   - a connection to PORT failed for a reason other than BUSY,
 *   - a connection to OTHER-PORT failed, or
 *   - a client that retries did not connect.
 *
 * The clients run with low priority, so that the services and the broker get the CPU first, as if the clients were on
 * other hosts.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdmabroker.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/patience.h"

#define DEADLINE_MS PATIENCE_MS
#define MAX_CLIENTS 64
#define MAX_TIMES 65536
#define FACTOR 10

static struct sockaddr_in service, other;
static unsigned rate, n_clients, seconds;
static atomic_bool stop;

struct client {
	pthread_t thread;
	unsigned flags;
	struct sockaddr_in addr;
	double per_second; /* connects; 0: each begins when the previous one has ended */
	double delay; /* ms before the first connect */
	unsigned n_tried, n_connected, n_busy, n_other, n_late;
	double *times; /* in ms, of the connects that succeeded */
	unsigned n_times;
	char why[256]; /* the last error other than BUSY */
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void die(const char *what)
{
	fprintf(stderr, "overload: %s\n", what);
	exit(2);
}

static struct rdmabroker *open_session(unsigned flags)
{
	struct rdmabroker_options options = { .size = sizeof(options), .flags = flags };
	struct rdmabroker *session;

	if (rdmabroker_open(&options, &session) < 0)
		die(rdmabroker_last_failure()->text);
	return session;
}

static struct ibv_qp_init_attr qp_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
}

/* Returns the CQ for all QPs of a session, and keeps its device open. */
static struct ibv_cq *make_cq(struct rdmabroker_id *id)
{
	struct ibv_context *context;

	if (rdmabroker_open_device(rdmabroker_get_session(id), rdmabroker_get_device_name(id),
				   &context) < 0)
		return NULL;
	return ibv_create_cq(context, 16, NULL, NULL, 0);
}

static void *serve(void *arg)
{
	struct rdmabroker *session = arg;
	struct rdmabroker_event *event;
	struct ibv_qp_init_attr attr;
	static struct ibv_cq *cq; /* shared by all QPs, until the process ends */

	while (!stop) {
		if (rdmabroker_get_event(session, 200, &event) < 0)
			continue;
		if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST) {
			if (!cq)
				cq = make_cq(event->id);
			attr = qp_attr(cq);
			if (rdmabroker_create_qp(event->id, NULL, &attr) < 0 ||
			    rdmabroker_accept(event->id, NULL) < 0)
				rdmabroker_destroy_id(event->id);
		} else if (event->type == RDMABROKER_EVENT_DISCONNECTED) {
			rdmabroker_disconnect(event->id);
			rdmabroker_destroy_id(event->id);
		} else if (event->type == RDMABROKER_EVENT_REJECTED ||
			   event->type == RDMABROKER_EVENT_UNREACHABLE ||
			   event->type == RDMABROKER_EVENT_CONNECT_ERROR) {
			rdmabroker_destroy_id(event->id);
		}
		rdmabroker_free_event(event);
	}
	return NULL;
}

static void start_listening(struct rdmabroker *session, const struct sockaddr_in *addr)
{
	struct rdmabroker_id *id;

	if (rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id) < 0 ||
	    rdmabroker_bind_addr(id, (const struct sockaddr *)addr) < 0 ||
	    rdmabroker_listen(id, 0) < 0)
		die(rdmabroker_last_failure()->text);
}

static int prepare(struct rdmabroker_id *id, struct client *client, struct ibv_cq **cq)
{
	struct ibv_qp_init_attr attr;
	int r;

	r = rdmabroker_resolve_addr_wait(id, NULL, (struct sockaddr *)&client->addr, DEADLINE_MS);
	if (r == 0)
		r = rdmabroker_resolve_route_wait(id, DEADLINE_MS);
	if (r < 0)
		return r;
	if (!*cq)
		*cq = make_cq(id);
	attr = qp_attr(*cq);
	return rdmabroker_create_qp(id, NULL, &attr);
}

static void try_once(struct client *client, struct rdmabroker *session, struct ibv_cq **cq)
{
	const struct rdmabroker_event *reject;
	struct rdmabroker_id *id;
	double begin = now();
	int r;

	client->n_tried++;
	if (rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id) < 0)
		die("no id");
	r = prepare(id, client, cq);
	if (r == 0)
		r = rdmabroker_connect_wait(id, NULL, DEADLINE_MS);
	reject = r == -ECONNREFUSED ? rdmabroker_get_reject_event(id) : NULL;
	if (r == 0) {
		client->n_connected++;
		if (client->n_times < MAX_TIMES)
			client->times[client->n_times++] = now() - begin;
		rdmabroker_disconnect_wait(id, DEADLINE_MS);
	} else if (reject && reject->rejected_by == RDMABROKER_REJECTED_BY_POLICY &&
		   reject->reject_code == RDMABROKER_REJECT_BUSY) {
		client->n_busy++;
	} else {
		client->n_other++;
		snprintf(client->why, sizeof(client->why), "%s", rdmabroker_last_failure()->text);
	}
	rdmabroker_destroy_id(id);
}

static void *run_client(void *arg)
{
	struct client *client = arg;
	struct rdmabroker *session = open_session(client->flags);
	double begin = now(), due = begin + client->delay;
	struct ibv_cq *cq = NULL;

	while (now() - begin < seconds * 1e3) {
		if (client->per_second > 0) {
			double wait = due - now();

			if (wait > 0)
				poll(NULL, 0, (int)wait);
			else if (wait < -1e3 / client->per_second)
				client->n_late++;
			due += 1e3 / client->per_second;
		}
		try_once(client, session, &cq);
	}
	if (cq)
		ibv_destroy_cq(cq);
	rdmabroker_close(session);
	return NULL;
}

static void start(struct client *client, const struct sockaddr_in *addr, double per_second,
		  double delay, unsigned flags)
{
	*client = (struct client){
		.addr = *addr,
		.per_second = per_second,
		.delay = delay,
		.flags = flags,
		.times = calloc(MAX_TIMES, sizeof(double)),
	};
	if (!client->times || pthread_create(&client->thread, NULL, run_client, client) != 0)
		die("out of memory");
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(struct client *client, double p)
{
	if (client->n_times == 0)
		return 0;
	qsort(client->times, client->n_times, sizeof(double), compare);
	return client->times[(unsigned)(p * (client->n_times - 1))];
}

static void finish(struct client *client)
{
	pthread_join(client->thread, NULL);
}

struct outcome {
	unsigned n_tried, n_connected, n_busy, n_other;
	double p50, p99; /* ms, of the neighbour's connects */
	double took; /* s, from before the first connect until after the last */
};

static struct outcome press(unsigned flags)
{
	static struct client clients[MAX_CLIENTS];
	struct outcome ret = { 0 };
	double begin = now();
	/* With retries, each connect waits until it is admitted, so a client needs no pauses. */
	double per_second = flags ? 0 : (double)rate * FACTOR / n_clients;

	for (unsigned i = 0; i < n_clients; i++)
		start(&clients[i], &service, per_second, i * 1e3 / (rate * FACTOR), flags);
	for (unsigned i = 0; i < n_clients; i++) {
		finish(&clients[i]);
		ret.n_tried += clients[i].n_tried;
		ret.n_connected += clients[i].n_connected;
		ret.n_busy += clients[i].n_busy;
		ret.n_other += clients[i].n_other;
		if (clients[i].why[0])
			fprintf(stderr, "overload: not busy but: %s\n", clients[i].why);
		free(clients[i].times);
	}
	ret.took = (now() - begin) / 1e3;
	return ret;
}

/* The process with the service's clients. It is forked before the first thread or session exists. */
struct pressers {
	pid_t pid;
	int orders, outcomes;
};

static void run_pressers(int orders, int outcomes)
{
	struct outcome outcome;
	unsigned flags;

	setpriority(PRIO_PROCESS, 0, 19);
	while (read(orders, &flags, sizeof(flags)) == (ssize_t)sizeof(flags)) {
		outcome = press(flags);
		if (write(outcomes, &outcome, sizeof(outcome)) != (ssize_t)sizeof(outcome))
			die("nobody takes the outcome");
	}
}

static struct pressers start_pressers(void)
{
	struct pressers ret;
	int orders[2], outcomes[2];

	if (pipe(orders) < 0 || pipe(outcomes) < 0)
		die("no pipe");
	ret.pid = fork();
	if (ret.pid < 0)
		die("no process");
	if (ret.pid == 0) {
		close(orders[1]);
		close(outcomes[0]);
		run_pressers(orders[0], outcomes[1]);
		_exit(0);
	}
	close(orders[0]);
	close(outcomes[1]);
	ret.orders = orders[1];
	ret.outcomes = outcomes[0];
	return ret;
}

/* PRESSERS: runs the service's clients at the same time; NULL: only the neighbour's client runs. */
static struct outcome run(const struct pressers *pressers, unsigned flags)
{
	struct outcome ret = { 0 };
	struct client neighbour;

	if (pressers && write(pressers->orders, &flags, sizeof(flags)) != (ssize_t)sizeof(flags))
		die("nobody presses");
	start(&neighbour, &other, 0, 0, 0);
	finish(&neighbour);
	if (pressers && read(pressers->outcomes, &ret, sizeof(ret)) != (ssize_t)sizeof(ret))
		die("those who press have failed");
	if (neighbour.n_connected != neighbour.n_tried)
		fprintf(stderr, "overload: the neighbour failed %u times: %s\n",
			neighbour.n_tried - neighbour.n_connected, neighbour.why);
	ret.n_other += neighbour.n_tried - neighbour.n_connected;
	ret.p50 = percentile(&neighbour, 0.5);
	ret.p99 = percentile(&neighbour, 0.99);
	free(neighbour.times);
	return ret;
}

static void print(const char *what, const struct outcome *outcome, const struct outcome *alone)
{
	printf("%-18s %8.1f %10.1f %8.0f%% %8u %8u %8.1f %8.1f %7.2f\n", what,
	       outcome->n_tried / (double)seconds, outcome->n_connected / (double)seconds,
	       100.0 * outcome->n_connected / (double)(rate * seconds), outcome->n_busy,
	       outcome->n_other, outcome->p50, outcome->p99,
	       alone->p99 > 0 ? outcome->p99 / alone->p99 : 0);
}

static bool within_rate(const struct outcome *outcome)
{
	return outcome->n_connected <= rate * outcome->took + rate;
}

static bool is_right(const struct outcome *alone, const struct outcome *pressed,
		     const struct outcome *retried)
{
	const char *wrong = NULL;

	if (alone->n_other + pressed->n_other + retried->n_other > 0)
		wrong = "somebody was refused for another reason than BUSY";
	else if (pressed->n_busy == 0)
		wrong = "nobody was refused";
	else if (pressed->n_connected == 0)
		wrong = "nobody got through";
	else if (retried->n_connected != retried->n_tried)
		wrong = "somebody who retries did not get through";
	else if (!within_rate(pressed) || !within_rate(retried))
		wrong = "more got through than the rate and its burst admit";
	if (wrong)
		printf("FAILED: %s\n", wrong);
	return !wrong;
}

int main(int argc, char **argv)
{
	struct outcome alone, pressed, retried;
	struct pressers pressers;
	static struct rdmabroker *server; /* open until the process ends */
	pthread_t thread;
	int status;

	if (argc != 7)
		die("ADDR PORT OTHER-PORT RATE CLIENTS SECONDS are to be given");
	service.sin_family = AF_INET;
	if (inet_pton(AF_INET, argv[1], &service.sin_addr) != 1)
		die("the address is not IPv4");
	other = service;
	service.sin_port = htons((uint16_t)atoi(argv[2]));
	other.sin_port = htons((uint16_t)atoi(argv[3]));
	rate = (unsigned)atoi(argv[4]);
	n_clients = (unsigned)atoi(argv[5]);
	seconds = (unsigned)atoi(argv[6]);
	if (rate == 0 || n_clients == 0 || n_clients > MAX_CLIENTS || seconds == 0)
		die("a number is out of range");

	pressers = start_pressers();
	server = open_session(0);
	start_listening(server, &service);
	start_listening(server, &other);
	if (pthread_create(&thread, NULL, serve, server) != 0)
		die("no thread");

	alone = run(NULL, 0);
	pressed = run(&pressers, 0);
	retried = run(&pressers, RDMABROKER_RETRY_BUSY);
	close(pressers.orders);
	if (waitpid(pressers.pid, &status, 0) < 0 || status != 0)
		die("those who press have failed");
	stop = true;
	pthread_join(thread, NULL);

	printf("%u/s are admitted, %u clients, %u s each; times of the neighbour in ms\n", rate,
	       n_clients, seconds);
	printf("%-18s %8s %10s %9s %8s %8s %8s %8s %7s\n", "load", "tries/s", "connects/s",
	       "of rate", "busy", "others", "p50", "p99", "p99 x");
	print("none", &alone, &alone);
	print("10 times", &pressed, &alone);
	print("all retry", &retried, &alone);

	return is_right(&alone, &pressed, &retried) ? 0 : 1;
}

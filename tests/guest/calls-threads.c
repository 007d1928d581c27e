/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/guest/calls.h"

/*
 * Threads with a common session: each makes connections, one after the other. Either each thread calls the _wait
 * forms, or one thread takes all events and passes them on.
 */

#define EVENTS_MAX 8

/* The context of an id: collects the id's events. */
struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct rdmabroker_event *events[EVENTS_MAX];
	unsigned n;
};

struct team {
	struct rdmabroker *session;
	union address address;
	int n_connections; /* number of connections of each thread */
	bool pumped;
	/* held while an event is passed on, so that its id is not destroyed */
	pthread_mutex_t taking;
	bool done;
};

static void hand_on(struct rdmabroker_event *event)
{
	struct waiter *w = rdmabroker_get_context(event->id);

	if (event->type == RDMABROKER_EVENT_TIMEWAIT_EXIT) {
		rdmabroker_free_event(event);
		return;
	}
	pthread_mutex_lock(&w->lock);
	if (w->n == EVENTS_MAX)
		die("too many events for one id");
	w->events[w->n++] = event;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

static void *pump(void *arg)
{
	struct team *team = arg;
	struct pollfd p = { .fd = rdmabroker_get_fd(team->session), .events = POLLIN };
	struct rdmabroker_event *event;
	bool done = false;

	while (!done) {
		int r;

		if (poll(&p, 1, DEADLINE_MS) <= 0)
			die("the thread that takes events is not woken");
		pthread_mutex_lock(&team->taking);
		while ((r = rdmabroker_get_event(team->session, 0, &event)) == 0)
			hand_on(event);
		done = team->done;
		pthread_mutex_unlock(&team->taking);
		if (r != -EAGAIN)
			die("get_event: %s", error_name(r));
	}
	return NULL;
}

static void wait_for(struct waiter *w, enum rdmabroker_event_type type)
{
	struct rdmabroker_event *event;
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += DEADLINE_MS / 1000;
	pthread_mutex_lock(&w->lock);
	while (w->n == 0)
		if (pthread_cond_timedwait(&w->more, &w->lock, &deadline) != 0)
			die("%s is lost", rdmabroker_event_str(type));
	event = w->events[0];
	w->n--;
	for (unsigned i = 0; i < w->n; i++)
		w->events[i] = w->events[i + 1];
	pthread_mutex_unlock(&w->lock);
	if (event->type != type)
		die("%s instead of %s", rdmabroker_event_str(event->type),
		    rdmabroker_event_str(type));
	rdmabroker_free_event(event);
}

static void connect_pumped(struct team *team, struct link *link, struct waiter *w)
{
	struct rdmabroker *s = team->session;
	struct rdmabroker_id *id;

	must(s, "create_id", rdmabroker_create_id(s, RDMABROKER_PS_TCP, w, &id));
	must(s, "resolve_addr", rdmabroker_resolve_addr(id, NULL, &team->address.any, DEADLINE_MS));
	wait_for(w, RDMABROKER_EVENT_ADDR_RESOLVED);
	must(s, "write_event", rdmabroker_write_event(id, RDMABROKER_EVENT_USER, 0, 0));
	wait_for(w, RDMABROKER_EVENT_USER);
	must(s, "resolve_route", rdmabroker_resolve_route(id, DEADLINE_MS));
	wait_for(w, RDMABROKER_EVENT_ROUTE_RESOLVED);
	link_init(link, id, LINK_OWN);
	link_make_qp(link, IBV_QPT_RC);
	must(s, "connect", rdmabroker_connect(id, NULL));
	wait_for(w, RDMABROKER_EVENT_ESTABLISHED);
}

static void disconnect_pumped(struct team *team, struct link *link, struct waiter *w)
{
	must(team->session, "disconnect", rdmabroker_disconnect(link->id));
	wait_for(w, RDMABROKER_EVENT_DISCONNECTED);
	link_done(link);
	pthread_mutex_lock(&team->taking);
	rdmabroker_destroy_id(link->id);
	pthread_mutex_unlock(&team->taking);
}

static void *member(void *arg)
{
	struct team *team = arg;
	struct waiter waiter = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.more = PTHREAD_COND_INITIALIZER,
	};
	struct link link;

	for (int i = 0; i < team->n_connections; i++) {
		if (team->pumped)
			connect_pumped(team, &link, &waiter);
		else
			client_connect(&link, team->session, &team->address, LINK_OWN);
		client_round(&link);
		if (team->pumped)
			disconnect_pumped(team, &link, &waiter);
		else
			client_disconnect(&link);
	}
	return NULL;
}

/* The thread that takes events has to look whether it is done. */
static void end_pump(struct team *team, pthread_t pumping)
{
	struct waiter waiter = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.more = PTHREAD_COND_INITIALIZER,
	};
	struct rdmabroker_id *id;

	must(team->session, "create_id",
	     rdmabroker_create_id(team->session, RDMABROKER_PS_TCP, &waiter, &id));
	pthread_mutex_lock(&team->taking);
	team->done = true;
	pthread_mutex_unlock(&team->taking);
	must(team->session, "write_event", rdmabroker_write_event(id, RDMABROKER_EVENT_USER, 0, 0));
	pthread_join(pumping, NULL);
	wait_for(&waiter, RDMABROKER_EVENT_USER);
	rdmabroker_destroy_id(id);
}

static int run(char **argv, bool pumped)
{
	struct team team = {
		.session = open_session(0),
		.address = make_address(argv[0], argv[1]),
		.n_connections = number(argv[3]),
		.pumped = pumped,
		.taking = PTHREAD_MUTEX_INITIALIZER,
	};
	int n = number(argv[2]);
	pthread_t pumping, *threads = calloc((size_t)n, sizeof(*threads));

	if (!threads || (pumped && pthread_create(&pumping, NULL, pump, &team) != 0))
		die("no thread");
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, member, &team) != 0)
			die("no thread");
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	if (pumped)
		end_pump(&team, pumping);
	rdmabroker_close(team.session);
	free(threads);
	printf("%d connections\n", n * team.n_connections);
	return 0;
}

/* threads-waiting ADDR PORT THREADS CONNECTIONS: each thread calls the _wait forms. */
int threads_waiting(char **argv)
{
	return run(argv, /* pumped= */ false);
}

/* threads-pumped ADDR PORT THREADS CONNECTIONS: a further thread takes all events and passes them on. */
int threads_pumped(char **argv)
{
	return run(argv, /* pumped= */ true);
}

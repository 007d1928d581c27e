/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "tests/guest/calls.h"

/* A connection without QPs: both ends offer only QP numbers. A rule can allow these numbers. */

static struct rdmabroker_conn_param number_param(const char *qpn)
{
	return (struct rdmabroker_conn_param){
		.size = sizeof(struct rdmabroker_conn_param),
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = (uint32_t)number(qpn),
	};
}

/* NULL: the suite has sent a line. */
static struct rdmabroker_event *next_event(struct rdmabroker *session)
{
	struct pollfd p[2] = {
		{ .fd = rdmabroker_get_fd(session), .events = POLLIN },
		{ .fd = 0, .events = POLLIN },
	};
	struct rdmabroker_event *event;
	int r;

	while ((r = rdmabroker_get_event(session, 0, &event)) == -EAGAIN) {
		if (poll(p, 2, DEADLINE_MS) <= 0)
			die("neither an event nor the suite's next step came");
		if (p[1].revents && step_is_over())
			return NULL;
	}
	must(session, "get_event", r);
	return event;
}

static void tell_failure(const char *what, int r)
{
	printf("%s: %s: %s\n", what, error_name(r), rdmabroker_last_failure()->text);
}

/*
 * number-server ADDR PORT QPN: accepts each request with the number QPN, until the suite ends the server. If the
 * broker refuses QPN, rejects the request.
 */
int number_server(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker_conn_param param = number_param(argv[2]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_event *event;
	int r;

	listen_on(session, RDMABROKER_PS_TCP, &address);
	printf("listening\n");
	while ((event = next_event(session))) {
		if (event->type == RDMABROKER_EVENT_CONNECT_REQUEST) {
			printf("request with QP number %u\n", event->conn->qp_num);
			r = rdmabroker_accept(event->id, &param);
			if (r < 0) {
				tell_failure("accept", r);
				must(session, "reject", rdmabroker_reject(event->id, NULL, 0));
			}
		} else {
			printf("event: %s\n", rdmabroker_event_str(event->type));
		}
		rdmabroker_free_event(event);
	}
	rdmabroker_close(session);
	return 0;
}

/*
 * number-client ADDR PORT QPN: connects with the number QPN. Ends when the peer rejects or disconnects, or after a
 * line from the suite. Exit status 3: connect failed at once, for example because the broker refused QPN.
 */
int number_client(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker_conn_param param = number_param(argv[2]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = resolve(session, RDMABROKER_PS_TCP, &address);
	struct rdmabroker_event *event;
	bool is_over = false;
	int r;

	r = rdmabroker_connect(id, &param);
	if (r < 0) {
		tell_failure("connect", r);
		rdmabroker_close(session);
		return 3;
	}
	while (!is_over && (event = next_event(session))) {
		printf("event: %s (%d)\n", rdmabroker_event_str(event->type), event->status);
		if (event->type == RDMABROKER_EVENT_CONNECT_RESPONSE) {
			printf("response with QP number %u\n", event->conn->qp_num);
			must(session, "establish", rdmabroker_establish(id));
			printf("established\n");
		}
		is_over = event->type == RDMABROKER_EVENT_REJECTED ||
			  event->type == RDMABROKER_EVENT_DISCONNECTED;
		rdmabroker_free_event(event);
	}
	rdmabroker_destroy_id(id);
	rdmabroker_close(session);
	return 0;
}

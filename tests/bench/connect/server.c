/* SPDX-License-Identifier: BSD-2-Clause */

/* The server's end: one thread that handles events. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/bench/connect/bench.h"

struct connection {
	struct ibv_qp *qp; /* NULL: the library made the QP */
	struct data_end *data; /* NULL: the connection transfers no data */
};

static unsigned n_open;
static bool marking; /* the leader waits for the answer to ORDER_MARK */

static void ready_qp(void *id, const struct connection *connection)
{
	move_qp(id, connection->qp, IBV_QPS_INIT, NULL);
	if (connection->data)
		data_post_receive(connection->data);
	move_qp(id, connection->qp, IBV_QPS_RTR, NULL);
	move_qp(id, connection->qp, IBV_QPS_RTS, NULL);
}

static void accept_request(const struct event *event)
{
	const struct data_request *request = find_data_request(event->data, event->data_len);
	struct connection *connection = calloc(1, sizeof(*connection));
	struct rdma_conn_param param;
	struct data_answer target;
	int r;

	if (!connection)
		fail(-ENOMEM, "take a request");
	if (request)
		connection->data = data_open(request);
	if (connection->data)
		connection->qp = connection->data->qp;
	else if (worker.shared->config.qps == QPS_PROGRAM)
		connection->qp = make_qp(worker.cq, 1);
	else
		give_qp(event->id);
	if (connection->qp)
		ready_qp(event->id, connection);
	describe_connection(&param, connection->qp);
	if (connection->data) {
		target = (struct data_answer){
			.addr = (uintptr_t)connection->data->buf,
			.rkey = connection->data->mr->rkey,
		};
		param.private_data = &target;
		param.private_data_len = sizeof(target);
	}
	worker.backend->set_context(event->id, connection);
	r = worker.backend->accept(event->id, &param);
	if (r < 0)
		fail(r, "accept");
	worker.report->n_accepted++;
	n_open++;
}

static void end_connection(void *id)
{
	struct connection *connection = worker.backend->get_context(id);
	int r = worker.backend->disconnect(id);

	if (r < 0)
		fail(r, "answer a disconnect");
	if (!connection->qp)
		worker.backend->destroy_qp(id);
	r = worker.backend->destroy_id(id);
	if (r < 0)
		fail(r, "destroy an id");
	if (connection->data)
		data_close(connection->data);
	else if (connection->qp)
		ibv_destroy_qp(connection->qp);
	free(connection);
	n_open--;
}

static void on_event(const struct event *event)
{
	struct connection *connection;

	switch (event->type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		accept_request(event);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		connection = worker.backend->get_context(event->id);
		if (connection->data) {
			data_begin(connection->data);
			data_echo(connection->data);
		}
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		end_connection(event->id);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fail(0, "%s (status %d) came", rdma_event_str(event->type), event->status);
	}
}

static void take_events(void)
{
	struct event event;
	int r;

	while ((r = worker.backend->get_event(&event, false)) == 0)
		on_event(&event);
	if (r != -EAGAIN)
		fail(r, "take events");
}

static void take_order(void)
{
	struct command command;

	if (recv(CONTROL_FD, &command, sizeof(command), 0) != sizeof(command) ||
	    command.order == ORDER_END)
		exit(0);
	if (command.order == ORDER_MARK)
		marking = true;
	else
		answer();
}

void server_loop(void)
{
	struct pollfd p[] = {
		{ .fd = worker.backend->get_fd(), .events = POLLIN },
		{ .fd = CONTROL_FD, .events = POLLIN },
	};

	for (;;) {
		if (marking && n_open == 0) {
			marking = false;
			worker.report->cpu_ns = cpu_ns();
			answer();
		}
		if (poll(p, N_ELEMENTS(p), -1) < 0)
			fail(-errno, "poll");
		if (p[0].revents)
			take_events();
		if (p[1].revents)
			take_order();
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */

/* The server's end: one thread that handles events. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/bench/connect/worker.h"

static unsigned n_open;
static bool marking; /* an order has no answer yet */

/* The id's context is the program's QP; NULL: the library made one. */
static void accept_request(void *id)
{
	struct ibv_qp *qp = worker.moves_qps ? make_qp() : NULL;
	int r;

	if (qp) {
		move_qp(id, qp, IBV_QPS_INIT, NULL);
		move_qp(id, qp, IBV_QPS_RTR, NULL);
		move_qp(id, qp, IBV_QPS_RTS, NULL);
	} else {
		give_qp(id);
	}
	worker.backend->set_context(id, qp);
	r = worker.backend->accept(id, qp ? qp->qp_num : 0);
	if (r < 0)
		fail(r, "accept");
	n_open++;
}

static void end_connection(void *id)
{
	struct ibv_qp *qp = worker.backend->get_context(id);
	int r = worker.backend->disconnect(id);

	if (r < 0)
		fail(r, "answer a disconnect");
	if (!qp)
		worker.backend->destroy_qp(id);
	r = worker.backend->destroy_id(id);
	if (r < 0)
		fail(r, "destroy an id");
	if (qp)
		ibv_destroy_qp(qp);
	n_open--;
}

static void take_events(void)
{
	struct event event;
	int r;

	while ((r = worker.backend->get_event(&event, false)) == 0)
		switch (event.type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			accept_request(event.id);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			end_connection(event.id);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			fail(0, "%s (status %d) came", rdma_event_str(event.type), event.status);
		}
	if (r != -EAGAIN)
		fail(r, "take events");
}

/* Order: "mark QPS"; the answer, when no connection is left, is "marked" and the CPU time. */
void run_server(void)
{
	struct pollfd p[] = {
		{ .fd = worker.backend->get_fd(), .events = POLLIN },
		{ .fd = STDIN_FILENO, .events = POLLIN },
	};
	unsigned n;

	for (;;) {
		if (marking && n_open == 0) {
			marking = false;
			printf("marked %llu\n", (unsigned long long)get_cpu_ns());
			fflush(stdout);
		}
		if (poll(p, 2, -1) < 0)
			fail(-errno, "poll");
		if (p[0].revents)
			take_events();
		if (p[1].revents) {
			read_order(&n);
			marking = true;
		}
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/host/host.h"

/* The passive end, in its own process. For each order it serves N connections, and answers with its share. */

struct order {
	enum half half;
	unsigned n;
};

static void accept_one(struct rdmabroker *session, uint32_t qp_num)
{
	struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT;
	struct rdmabroker_id *id = traffic_await(session, RDMABROKER_EVENT_CONNECT_REQUEST);

	traffic_get_qp_attr(id, IBV_QPS_INIT);
	traffic_get_qp_attr(id, IBV_QPS_RTR);
	traffic_get_qp_attr(id, IBV_QPS_RTS);
	param.qp_num = qp_num;
	MUST(rdmabroker_accept(id, &param));
	traffic_await(session, RDMABROKER_EVENT_ESTABLISHED);
}

static void end_one(struct rdmabroker *session)
{
	struct rdmabroker_id *id = traffic_await(session, RDMABROKER_EVENT_DISCONNECTED);

	traffic_begin_call();
	rdmabroker_destroy_id(id);
}

static noreturn void serve(const char *socket, unsigned flags, uint16_t port, int control)
{
	struct sockaddr_in addr = service_addr(port);
	uint32_t last_qpn = (port - SERVICE_PORT + 1U) << 22; /* QP numbers of this server alone */
	struct rdmabroker_id *listener;
	struct rdmabroker *session;
	struct order order;
	struct share share;
	int value;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	session = open_session(socket, flags);
	must(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &listener), "create_id");
	must(rdmabroker_bind_addr(listener, (const struct sockaddr *)&addr), "bind_addr");
	must(rdmabroker_listen(listener, 0), "listen");
	if (send(control, "r", 1, 0) != 1)
		die("the server's control socket: %m");
	while (recv(control, &order, sizeof(order), 0) == sizeof(order)) {
		share_begin(&share);
		for (unsigned i = 0; i < order.n; i++)
			if (order.half == HALF_CONNECT)
				accept_one(session, ++last_qpn);
			else
				end_one(session);
		share_end(&share);
		/* A reply implies that the daemon has processed all earlier requests. */
		must(rdmabroker_get_option(listener, RDMABROKER_OPTION_TOS, &value), "get_option");
		if (send(control, &share, sizeof(share), 0) != sizeof(share))
			die("the server's control socket: %m");
	}
	rdmabroker_close(session);
	_exit(EXIT_SUCCESS);
}

static void receive(const struct server *server, void *ret, size_t size)
{
	struct pollfd p = { .fd = server->control, .events = POLLIN };

	if (poll(&p, 1, DEADLINE_MS) != 1)
		die("the server: nothing came in time");
	if (recv(server->control, ret, size, 0) != (ssize_t)size)
		die("the server is gone");
}

void server_start(struct server *server, const char *socket, unsigned flags, uint16_t port)
{
	int pair[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair: %m");
	fflush(NULL);
	server->pid = fork();
	if (server->pid < 0)
		die("fork: %m");
	if (server->pid == 0) {
		close(pair[0]);
		serve(socket, flags, port, pair[1]);
	}
	close(pair[1]);
	server->control = pair[0];
	receive(server, &c, 1);
}

void server_stop(struct server *server)
{
	int status;

	/* close() alone does not end the connection: processes that were forked later hold the descriptor, too. */
	shutdown(server->control, SHUT_RDWR);
	close(server->control);
	if (waitpid(server->pid, &status, 0) != server->pid || status != 0)
		die("the server ended with status 0x%x", (unsigned)status);
}

void server_begin(const struct server *server, enum half half, unsigned n)
{
	struct order order = { .half = half, .n = n };

	if (send(server->control, &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order))
		die("the server is gone");
}

struct share server_finish(const struct server *server)
{
	struct share share;

	receive(server, &share, sizeof(share));
	return share;
}

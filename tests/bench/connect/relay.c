/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A broker that does nothing. Connections are made with librdmacm, as in WAY_DIRECT. In addition, the workers
 * exchange with another process, the relay, as many messages as a connection in one go needs. There is one relay for
 * all workers. The cost of a connection differs from that in WAY_DIRECT by the cost of these messages alone. The
 * client resolves the route for each connection. A broker with a spare id saves this step, and can therefore be
 * faster than the relay.
 *
 *   client:  connect, and the peer's response     server:  the request, and accept
 *            establish                                     (established)
 *            disconnect, and the end of it                 (disconnected)
 *            destroy                                       destroy
 *
 * No messages are sent for the steps in brackets, because librdmacm's own event comes at that time.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/bench/connect/bench.h"

/* Approximately the sizes of the broker's requests and replies. */
#define REQUEST_SIZE 64
#define ANSWER_SIZE 192

static struct backend backend;
static int sock = -1;

/* The name is abstract, and contains the leader's pid. */
static socklen_t name_socket(struct sockaddr_un *ret)
{
	int n;

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "rdmabroker-bench/relay/%d",
		     getppid());
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* The relay */

static void relay_accept(int listener, int epoll)
{
	struct epoll_event event = { .events = EPOLLIN };

	event.data.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (event.data.fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event) < 0)
		_exit(1);
}

/* Replies to messages whose first byte is not 0. */
static void relay_message(int fd)
{
	static const char answer[ANSWER_SIZE];
	char request[REQUEST_SIZE];
	ssize_t n = recv(fd, request, sizeof(request), 0);

	if (n <= 0)
		close(fd);
	else if (request[0] && send(fd, answer, sizeof(answer), MSG_NOSIGNAL) < 0)
		close(fd);
}

static void __attribute__((noreturn)) run_relay(int listener)
{
	struct epoll_event events[64] = { { .events = EPOLLIN, .data.fd = listener } };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &events[0]) < 0)
		_exit(1);
	for (;;) {
		int n = epoll_wait(epoll, events, (int)N_ELEMENTS(events), -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				relay_accept(listener, epoll);
			else
				relay_message(events[i].data.fd);
		}
	}
}

/* Starts the relay, which ends together with the server's worker. */
static int start_relay(void)
{
	struct sockaddr_un addr;
	socklen_t len = name_socket(&addr);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t parent = getpid(), pid;

	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, len) < 0 ||
	    listen(listener, MAX_CLIENTS) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		/*
		 * The relay closes its copy of the worker's socket, because the leader notices the worker's end only
		 * when all copies of the socket are closed.
		 */
		close(CONTROL_FD);
		run_relay(listener);
	}
	close(listener);
	return 0;
}

/* The workers, which are the relay's clients */

static int say(bool answered)
{
	char request[REQUEST_SIZE] = { answered }, answer[ANSWER_SIZE];

	if (send(sock, request, sizeof(request), MSG_NOSIGNAL) < 0)
		return -errno;
	if (!answered)
		return 0;
	errno = EPIPE; /* at the end of the connection recv() does not set errno */
	return recv(sock, answer, sizeof(answer), 0) == sizeof(answer) ? 0 : -errno;
}

static int connect_to_relay(void)
{
	const struct timeval deadline = { .tv_sec = DEADLINE_MS / 1000 };
	struct sockaddr_un addr;
	socklen_t len = name_socket(&addr);

	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline)) < 0 ||
	    connect(sock, (struct sockaddr *)&addr, len) < 0)
		return -errno;
	return 0;
}

static int relay_open(const struct sockaddr *addr, void **ret, struct ibv_context **ret_verbs)
{
	int r = worker.is_server ? start_relay() : 0;

	if (r == 0)
		r = connect_to_relay();
	return r < 0 ? r : direct_backend.open(addr, ret, ret_verbs);
}

static int relay_connect(void *id, const struct rdma_conn_param *param)
{
	int r = say(/* answered= */ true);

	return r < 0 ? r : direct_backend.connect(id, param);
}

/*
 * librdmacm establishes the client's connection by itself before it returns ESTABLISHED. Therefore the message about
 * it is sent here.
 */
static int relay_get_event(struct event *ret, bool wait)
{
	int r = direct_backend.get_event(ret, wait);

	if (r == 0 && ret->type == RDMA_CM_EVENT_ESTABLISHED && !worker.is_server)
		r = say(/* answered= */ false);
	return r;
}

static int relay_accept_request(void *id, const struct rdma_conn_param *param)
{
	int r = say(/* answered= */ true);

	return r < 0 ? r : direct_backend.accept(id, param);
}

/*
 * The server calls this in reply to the client's disconnect. It sends no message, because a broker would disconnect
 * the server's id by itself.
 */
static int relay_disconnect(void *id)
{
	int r = worker.is_server ? 0 : say(/* answered= */ true);

	return r < 0 ? r : direct_backend.disconnect(id);
}

static int relay_destroy_id(void *id)
{
	int r = say(/* answered= */ false);

	return r < 0 ? r : direct_backend.destroy_id(id);
}

const struct backend *relay_backend(void)
{
	backend = direct_backend;
	backend.open = relay_open;
	backend.get_event = relay_get_event;
	backend.connect = relay_connect;
	backend.accept = relay_accept_request;
	backend.disconnect = relay_disconnect;
	backend.destroy_id = relay_destroy_id;
	return &backend;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/patience.h"

/*
 * A program that closes all descriptors from 3 up at its start, as many servers do, and opens its own instead. Then it
 * uses RDMA. What the libraries had opened was among the closed ones. Usage: closes ADDRESS CASE, in which CASE is
 *
 *   files, sockets, epolls  which descriptors it opens itself
 *   kept                    it has a connection, and closes all descriptors but those that it knows of
 *   daemon                  it becomes a daemon before, and only uses libibverbs
 *   listed                  it has listed the devices before, and only uses libibverbs
 *   loaded                  it uses libibverbs as dlopen() has found it
 *   lingers                 it waits for a line after it has closed them, and then does as in the case loaded
 *   again                   it does all of this several times
 *
 * It prints the same lines with librdmacm and with the drop-in, in the cases that librdmacm can do. Its own descriptors must
 * stay as they were.
 */

#define N_OWN 24
#define PORT 7490

static const char *address;
static int own[N_OWN], ends[N_OWN];

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

__attribute__((noreturn)) static void fail(const char *what)
{
	say("%s: %s", what, strerror(errno));
	exit(1);
}

static void close_all(const int *keep, size_t n_keep)
{
	for (int fd = 3; fd < 1024; fd++) {
		bool kept = false;

		for (size_t i = 0; i < n_keep; i++)
			kept = kept || keep[i] == fd;
		if (!kept)
			close(fd);
	}
}

/* Opens the program's own descriptors. What each must contain at the end is its number. */
static void open_own(const char *kind)
{
	for (int i = 0; i < N_OWN; i++) {
		int pair[2] = { -1, -1 };

		if (strcmp(kind, "files") == 0) {
			char path[] = "/tmp/closes-XXXXXX";

			own[i] = mkstemp(path);
			unlink(path);
		} else if (strcmp(kind, "epolls") == 0) {
			own[i] = epoll_create1(0);
		} else {
			if (socketpair(AF_UNIX, i % 2 ? SOCK_STREAM : SOCK_SEQPACKET, 0, pair) < 0)
				fail("socketpair");
			own[i] = pair[0];
			ends[i] = pair[1];
			if (write(pair[0], "hello", 5) != 5)
				fail("write");
		}
		if (own[i] < 0)
			fail(kind);
	}
}

static void check_file(int i)
{
	if (lseek(own[i], 0, SEEK_END) != 0)
		say("file %d has foreign bytes, or is closed", i);
}

static void check_socket(int i)
{
	char buf[1024];
	ssize_t n = recv(own[i], buf, sizeof(buf), MSG_DONTWAIT);

	if (n >= 0 || errno != EAGAIN)
		say("socket %d has %zd foreign bytes, or is closed", i, n);
	n = recv(ends[i], buf, sizeof(buf), MSG_DONTWAIT);
	if (n != 5 || memcmp(buf, "hello", 5) != 0)
		say("the peer of socket %d reads %zd bytes", i, n);
	n = recv(ends[i], buf, sizeof(buf), MSG_DONTWAIT);
	if (n >= 0 || errno != EAGAIN)
		say("the peer of socket %d reads %zd foreign bytes", i, n);
}

static void check_epoll(int i)
{
	struct epoll_event event;

	if (epoll_wait(own[i], &event, 1, 0) != 0)
		say("epoll %d watches something, or is closed", i);
}

static void check_own(const char *kind)
{
	for (int i = 0; i < N_OWN; i++) {
		if (strcmp(kind, "files") == 0)
			check_file(i);
		else if (strcmp(kind, "epolls") == 0)
			check_epoll(i);
		else
			check_socket(i);
	}
	say("%s looked at", kind);
}

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel)
{
	struct pollfd p = { channel->fd, POLLIN, 0 };
	struct rdma_cm_event *event;

	if (poll(&p, 1, PATIENCE_MS) != 1)
		fail("waited for an event");
	if (rdma_get_cm_event(channel, &event))
		fail("rdma_get_cm_event");
	return event;
}

static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = next_event(channel);
	struct rdma_cm_id *id = event->id;

	if (event->event != type) {
		say("%s, status %d, and not %s", rdma_event_str(event->event), event->status,
		    rdma_event_str(type));
		exit(1);
	}
	rdma_ack_cm_event(event);
	return id;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(id, NULL, &attr))
		fail("rdma_create_qp");
}

struct connection {
	struct rdma_event_channel *channel, *listening;
	struct rdma_cm_id *listener, *id, *request;
};

static struct sockaddr *here(uint16_t port)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, address, &in.sin_addr);
	return (struct sockaddr *)&in;
}

static void connect_both(struct connection *c)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	c->listening = rdma_create_event_channel();
	c->channel = rdma_create_event_channel();
	if (!c->listening || !c->channel)
		fail("rdma_create_event_channel");
	if (rdma_create_id(c->listening, &c->listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(c->listener, here(PORT)) || rdma_listen(c->listener, 1))
		fail("rdma_listen");
	if (rdma_create_id(c->channel, &c->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(c->id, NULL, here(PORT), PATIENCE_MS))
		fail("rdma_resolve_addr");
	expect(c->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(c->id, PATIENCE_MS))
		fail("rdma_resolve_route");
	expect(c->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(c->id);
	if (rdma_connect(c->id, &param))
		fail("rdma_connect");
	struct rdma_cm_event *event = next_event(c->listening);
	c->request = event->id;
	rdma_ack_cm_event(event);
	make_qp(c->request);
	if (rdma_accept(c->request, &param))
		fail("rdma_accept");
	expect(c->channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(c->listening, RDMA_CM_EVENT_ESTABLISHED);
	say("connected");
}

static void end_both(struct connection *c)
{
	if (rdma_disconnect(c->id))
		fail("rdma_disconnect");
	expect(c->listening, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(c->request);
	rdma_destroy_id(c->request);
	expect(c->channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(c->id);
	rdma_destroy_id(c->id);
	rdma_destroy_id(c->listener);
	rdma_destroy_event_channel(c->channel);
	rdma_destroy_event_channel(c->listening);
	say("disconnected");
}

static void list_devices(void)
{
	struct ibv_context **devices;
	int n;

	devices = rdma_get_devices(&n);
	if (!devices)
		fail("rdma_get_devices");
	say("%d devices", n);
	rdma_free_devices(devices);
}

static void use_own(const char *kind)
{
	struct connection c;

	close_all(NULL, 0);
	open_own(kind);
	list_devices();
	connect_both(&c);
	end_both(&c);
	check_own(kind);
}

/* The connections of a program whose channels stay open go on. */
static void use_kept(void)
{
	struct connection c;
	int keep[12];
	size_t n = 0;

	connect_both(&c);
	keep[n++] = c.channel->fd;
	keep[n++] = c.listening->fd;
	keep[n++] = c.id->verbs->cmd_fd;
	keep[n++] = c.id->verbs->async_fd;
	keep[n++] = c.id->send_cq_channel->fd;
	keep[n++] = c.id->recv_cq_channel->fd;
	keep[n++] = c.request->send_cq_channel->fd;
	keep[n++] = c.request->recv_cq_channel->fd;
	close_all(keep, n);
	open_own("sockets");
	/* librdmacm has no other descriptors. The broker's channel has lost its socket, so its connections have ended. */
	if (rdma_disconnect(c.id))
		say("rdma_disconnect: %s", strerror(errno));
	check_own("sockets");
}

static void open_one(struct ibv_context *(*open_device)(struct ibv_device *device),
		     struct ibv_device **list)
{
	struct ibv_context *context = open_device(list[0]);
	struct ibv_pd *pd;

	if (!context)
		fail("ibv_open_device");
	pd = ibv_alloc_pd(context);
	if (!pd)
		fail("ibv_alloc_pd");
	ibv_dealloc_pd(pd);
	if (ibv_close_device(context))
		fail("ibv_close_device");
	say("opened a device");
}

static struct ibv_device **get_list(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		fail("ibv_get_device_list");
	return list;
}

static void use_verbs(void)
{
	struct ibv_device **list = get_list();

	open_one(ibv_open_device, list);
	ibv_free_device_list(list);
	check_own("sockets");
}

static void use_loaded(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	struct ibv_context *(*open_device)(struct ibv_device * device);
	struct ibv_device **list = get_list();

	open_device = (__typeof__(open_device))dlvsym(lib, "ibv_open_device", "IBVERBS_1.1");
	if (!open_device)
		fail("dlvsym");
	open_one(open_device, list);
	ibv_free_device_list(list);
	check_own("sockets");
}

int main(int argc, char **argv)
{
	const char *what = argc == 3 ? argv[2] : "";
	struct ibv_device **list;

	if (argc != 3) {
		fprintf(stderr, "Usage: closes ADDRESS CASE\n");
		return 2;
	}
	address = argv[1];
	if (strcmp(what, "files") == 0 || strcmp(what, "sockets") == 0 ||
	    strcmp(what, "epolls") == 0) {
		use_own(what);
	} else if (strcmp(what, "again") == 0) {
		for (int i = 0; i < 4; i++)
			use_own(i % 2 ? "files" : "sockets");
	} else if (strcmp(what, "kept") == 0) {
		use_kept();
	} else if (strcmp(what, "daemon") == 0) {
		if (daemon(/* nochdir= */ 1, /* noclose= */ 1) < 0)
			fail("daemon");
		close_all(NULL, 0);
		open_own("sockets");
		use_verbs();
		say("end");
	} else if (strcmp(what, "listed") == 0) {
		list = get_list();
		close_all(NULL, 0);
		open_own("sockets");
		open_one(ibv_open_device, list);
		check_own("sockets");
	} else if (strcmp(what, "loaded") == 0 || strcmp(what, "lingers") == 0) {
		close_all(NULL, 0);
		open_own("sockets");
		say("closed");
		if (strcmp(what, "lingers") == 0)
			getchar();
		use_loaded();
	} else {
		fprintf(stderr, "closes: there is no case %s\n", what);
		return 2;
	}
	return 0;
}

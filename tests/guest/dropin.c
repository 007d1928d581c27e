/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dropin.h"

#define PORT 7480

struct sockaddr_in here = { .sin_family = AF_INET };
static const char *here_text;

void check_failed(const char *file, int line, const char *cond)
{
	fprintf(stderr, "%s:%d: not so: %s (errno: %s)\n", file, line, cond, strerror(errno));
	_exit(1);
}

void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	CHECK(id->qp && id->send_cq && id->recv_cq && id->send_cq_channel);
	CHECK(attr.cap.max_recv_wr >= 2);
}

static void serve(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	enum rdma_cm_event_type type = event->event;

	rdma_ack_cm_event(event);
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		make_qp(id);
		CHECK(rdma_accept(id, NULL) == 0);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		rdma_destroy_qp(id);
		CHECK(rdma_destroy_id(id) == 0);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "server: %s\n", rdma_event_str(type));
	}
}

static void *server_run(void *arg)
{
	struct server *server = arg;
	struct rdma_cm_event *event;
	int state;

	for (;;) {
		CHECK(rdma_get_cm_event(server->channel, &event) == 0);
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		serve(event);
		pthread_setcancelstate(state, NULL);
	}
	return NULL;
}

void server_start(struct server *server)
{
	server->channel = rdma_create_event_channel();
	CHECK(server->channel);
	CHECK(rdma_create_id(server->channel, &server->listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(server->listener, (struct sockaddr *)&here) == 0);
	CHECK(rdma_listen(server->listener, 128) == 0);
	CHECK(pthread_create(&server->thread, NULL, server_run, server) == 0);
}

/* The thread is cancelled while it waits for an event, as in rping. */
void server_stop(struct server *server)
{
	CHECK(pthread_cancel(server->thread) == 0);
	CHECK(pthread_join(server->thread, NULL) == 0);
	CHECK(rdma_destroy_id(server->listener) == 0);
	rdma_destroy_event_channel(server->channel);
}

void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	do {
		CHECK(rdma_get_cm_event(channel, &event) == 0);
		if (event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			break;
		rdma_ack_cm_event(event);
	} while (true);
	if (event->event != type)
		fprintf(stderr, "got %s, status %d\n", rdma_event_str(event->event), event->status);
	CHECK(event->event == type);
	CHECK(event->status == 0);
	CHECK(rdma_ack_cm_event(event) == 0);
}

static struct rdma_cm_id *resolve_new(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, PATIENCE_MS) == 0);
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(id, PATIENCE_MS) == 0);
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

struct rdma_cm_id *connect_new(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = resolve_new(channel);
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	make_qp(id);
	CHECK(rdma_connect(id, &param) == 0);
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

void disconnect(struct rdma_cm_id *id)
{
	CHECK(rdma_disconnect(id) == 0);
	expect(id->channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	CHECK(!id->send_cq && !id->recv_cq_channel);
	CHECK(rdma_destroy_id(id) == 0);
}

static void case_id(void)
{
	struct rdma_event_channel *one = rdma_create_event_channel();
	struct rdma_event_channel *two = rdma_create_event_channel();
	struct ibv_context **devices;
	struct rdma_cm_id *a, *b;
	struct server server;
	uint8_t tos = 8;
	int n, number = 1;

	CHECK(one && two && one->fd >= 0);
	devices = rdma_get_devices(&n);
	CHECK(devices && n == 2 && devices[0] && devices[1] && !devices[2]);
	server_start(&server);
	a = resolve_new(one);
	b = connect_new(two);
	CHECK(a->verbs == b->verbs && a->pd == b->pd && a->pd);
	CHECK(a->verbs == devices[0] || a->verbs == devices[1]);
	CHECK(a->verbs != server.listener->verbs);
	CHECK(a->port_num == 1 && a->channel == one && a->ps == RDMA_PS_TCP);
	CHECK(a->qp_type == IBV_QPT_RC);
	CHECK(rdma_get_dst_port(a) == htons(PORT) && rdma_get_src_port(b) != 0);
	CHECK(rdma_get_local_addr(b)->sa_family == AF_INET);
	CHECK(((struct sockaddr_in *)rdma_get_peer_addr(a))->sin_addr.s_addr ==
	      here.sin_addr.s_addr);
	CHECK(a->route.num_paths == 1 && a->route.path_rec);
	CHECK(memcmp(&a->route.addr.addr.ibaddr.dgid.raw[12], &here.sin_addr, 4) == 0);
	CHECK(memcmp(&a->route.path_rec->dgid, &a->route.addr.addr.ibaddr.dgid, 16) == 0);
	CHECK(memcmp(&a->route.path_rec->sgid, &a->route.addr.addr.ibaddr.sgid, 16) == 0);
	printf("path: mtu %d hops %d life %d rate %d pkey %x %x\n", a->route.path_rec->mtu,
	       a->route.path_rec->hop_limit, a->route.path_rec->packet_life_time,
	       a->route.path_rec->rate, a->route.path_rec->pkey, a->route.addr.addr.ibaddr.pkey);
	CHECK(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1) == 0);
	CHECK(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, 4) < 0);
	CHECK(errno == EINVAL);
	CHECK(rdma_set_option(a, RDMA_OPTION_ID, 77, &number, 4) < 0 && errno == ENOSYS);
	CHECK(rdma_set_option(a, 7, 0, &number, 4) < 0 && errno == ENOSYS);
	CHECK(rdma_bind_addr(a, (struct sockaddr *)&here) < 0 && errno == EINVAL);
	CHECK(rdma_disconnect(a) < 0 && errno == EINVAL);
	CHECK(rdma_destroy_id(a) == 0);
	disconnect(b);
	rdma_free_devices(devices);
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
	server_stop(&server);

	/* The server's end frees the port at once. */
	server_start(&server);
	server_stop(&server);
}

static void send_number(struct rdma_cm_id *id, uint32_t number)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, &number, sizeof(number));
	struct ibv_wc wc;

	CHECK(mr);
	CHECK(rdma_post_send(id, NULL, &number, sizeof(number), mr, 0) == 0);
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_dereg_mr(mr) == 0);
}

static void serve_one(struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id;
	struct rdma_cm_event *event;
	uint32_t number = 0;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	CHECK(rdma_get_request(listener, &id) == 0);
	CHECK(id->qp && id->channel != listener->channel);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(memcmp(id->event->param.conn.private_data, "ep hello", 8) == 0);
	mr = rdma_reg_msgs(id, &number, sizeof(number));
	CHECK(rdma_post_recv(id, NULL, &number, sizeof(number), mr) == 0);
	CHECK(rdma_accept(id, NULL) == 0);
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(number == 77);
	/*
	 * The client disconnects first, so that its QP does not move to ERR before it has the completion of its send.
	 */
	CHECK(rdma_get_cm_event(id->channel, &event) == 0);
	CHECK(event->event == RDMA_CM_EVENT_DISCONNECTED && event->id == id);
	CHECK(rdma_ack_cm_event(event) == 0);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
}

#define N_SYNC 3 /* clients, one after another */

static void *sync_server(void *arg)
{
	for (int i = 0; i < N_SYNC; i++)
		serve_one(arg);
	return NULL;
}

static void get_addrs(int flags, struct rdma_addrinfo **ret)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	char port[8];

	snprintf(port, sizeof(port), "%d", PORT);
	CHECK(rdma_getaddrinfo(here_text, port, &hints, ret) == 0);
	CHECK((*ret)->ai_qp_type == IBV_QPT_RC);
}

static struct rdma_cm_id *new_ep(int flags)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *addrs;
	struct rdma_cm_id *id;

	get_addrs(flags, &addrs);
	if (!(flags & RAI_PASSIVE)) {
		addrs->ai_connect = strdup("ep ");
		addrs->ai_connect_len = 3;
	}
	CHECK(rdma_create_ep(&id, addrs, NULL, &attr) == 0);
	rdma_freeaddrinfo(addrs);
	return id;
}

static struct rdma_conn_param hello = {
	.private_data = "hello",
	.private_data_len = 5,
	.responder_resources = 1,
	.initiator_depth = 1,
	.retry_count = 7,
	.rnr_retry_count = 7,
};

static void case_sync(void)
{
	struct rdma_cm_id *listener = new_ep(RAI_PASSIVE), *id, *other;
	pthread_t thread;

	CHECK(rdma_listen(listener, 8) == 0);
	CHECK(pthread_create(&thread, NULL, sync_server, listener) == 0);
	for (int i = 0; i < N_SYNC; i++) {
		id = new_ep(0);
		CHECK(id->qp && id->event && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
		CHECK(rdma_connect(id, &hello) == 0);
		CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
		send_number(id, 77);
		CHECK(rdma_disconnect(id) == 0);
		CHECK(id->event->event == RDMA_CM_EVENT_DISCONNECTED);
		rdma_destroy_ep(id);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	rdma_destroy_ep(listener);

	other = new_ep(0);
	CHECK(rdma_connect(other, &hello) < 0 && errno == ECONNREFUSED);
	CHECK(other->event->event == RDMA_CM_EVENT_REJECTED && other->event->status == 8);
	rdma_destroy_ep(other);
}

/* Migrates an id with a QP before it is connected, while it is connected, and after it is disconnected. */
static void case_migrate(void)
{
	struct rdma_event_channel *one = rdma_create_event_channel();
	struct rdma_event_channel *two = rdma_create_event_channel();
	struct server server;
	struct rdma_cm_id *id;

	server_start(&server);
	id = new_ep(0);
	CHECK(rdma_migrate_id(id, one) == 0);
	CHECK(id->channel == one && id->qp && !id->event);
	CHECK(rdma_connect(id, &hello) == 0);
	expect(one, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(rdma_migrate_id(id, two) == 0);
	CHECK(rdma_disconnect(id) == 0);
	expect(two, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(rdma_migrate_id(id, NULL) == 0 && id->channel != two);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
	server_stop(&server);
}

static void move_qp(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	CHECK(rdma_init_qp_attr(id, &attr, &mask) == 0);
	CHECK(ibv_modify_qp(qp, &attr, mask) == 0);
}

static void case_external(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct rdma_conn_param param = hello;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_ece ece;
	struct server server;
	struct ibv_qp *qp;

	server_start(&server);
	id = resolve_new(channel);
	attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	qp = ibv_create_qp(id->pd, &attr);
	CHECK(qp);
	move_qp(id, qp, IBV_QPS_INIT);
	param.qp_num = qp->qp_num;
	CHECK(rdma_connect(id, &param) == 0);
	expect(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(rdma_get_remote_ece(id, &ece) == 0);
	move_qp(id, qp, IBV_QPS_RTR);
	move_qp(id, qp, IBV_QPS_RTS);
	CHECK(rdma_establish(id) == 0);
	CHECK(rdma_disconnect(id) == 0);
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(ibv_destroy_qp(qp) == 0);
	CHECK(ibv_destroy_cq(attr.send_cq) == 0);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
	server_stop(&server);
}

static void case_srq(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct rdma_conn_param param = hello;
	struct server server;
	struct rdma_cm_id *id;

	server_start(&server);
	id = resolve_new(channel);
	CHECK(rdma_create_srq(id, NULL, &srq) == 0 && id->srq && srq.attr.max_wr >= 4);
	make_qp(id);
	CHECK(id->qp->srq == id->srq);
	CHECK(rdma_connect(id, &param) == 0);
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(rdma_disconnect(id) == 0);
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
	server_stop(&server);
}

/*
 * The following cases run only with the drop-in. After "ready" from stays-away, lost or removal, the suite ends the
 * daemon or removes the device.
 */

static void say(const char *text)
{
	puts(text);
	fflush(stdout);
}

static void expect_removal(struct rdma_event_channel *channel, struct rdma_cm_id *a,
			   struct rdma_cm_id *b)
{
	struct rdma_cm_event *event;

	CHECK(rdma_get_cm_event(channel, &event) == 0);
	CHECK(event->event == RDMA_CM_EVENT_DEVICE_REMOVAL);
	CHECK(event->id == a || event->id == b);
	rdma_ack_cm_event(event);
}

/* Retries, because the device or the broker may not be there yet. */
static struct rdma_cm_id *listen_at_last(struct rdma_event_channel **ret_channel)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	for (int64_t end = patience_end(); patience_now_ms() < end;) {
		channel = rdma_create_event_channel();
		if (channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0) {
			if (rdma_bind_addr(id, (struct sockaddr *)&here) == 0 && id->verbs &&
			    rdma_listen(id, 8) == 0) {
				*ret_channel = channel;
				return id;
			}
			rdma_destroy_id(id);
		}
		if (channel)
			rdma_destroy_event_channel(channel);
		poll(NULL, 0, 200);
	}
	CHECK(false);
}

/*
 * The broker ends for good. A program that has used the broker does not change to librdmacm, whatever
 * RDMABROKER_FALLBACK= is.
 */
static void case_stays_away(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	say("ready");
	CHECK(rdma_get_cm_event(channel, &event) < 0 && errno == ECONNRESET);
	CHECK(!rdma_get_devices(NULL) && errno == ENODEV);
	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) < 0);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
}

/* The daemon is killed and restarted. */
static void case_lost(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *next;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *listener;
	struct ibv_context *verbs;
	struct server server;

	server_start(&server);
	id = connect_new(channel);
	CHECK(pthread_cancel(server.thread) == 0 && pthread_join(server.thread, NULL) == 0);
	verbs = id->verbs;
	say("ready");
	CHECK(rdma_get_cm_event(channel, &event) == 0);
	CHECK(event->event == RDMA_CM_EVENT_DISCONNECTED && event->id == id);
	rdma_ack_cm_event(event);
	CHECK(rdma_get_cm_event(channel, &event) < 0 && errno == ECONNRESET);
	CHECK(rdma_disconnect(id) < 0 && errno == ECONNRESET);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);

	CHECK(rdma_get_cm_event(server.channel, &event) == 0);
	while (event->event != RDMA_CM_EVENT_DEVICE_REMOVAL) {
		if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
			id = event->id;
			rdma_ack_cm_event(event);
			rdma_destroy_ep(id);
		} else {
			rdma_ack_cm_event(event);
		}
		CHECK(rdma_get_cm_event(server.channel, &event) == 0);
	}
	CHECK(event->id == server.listener);
	rdma_ack_cm_event(event);
	CHECK(rdma_get_cm_event(server.channel, &event) < 0 && errno == ECONNRESET);
	rdma_destroy_id(server.listener);
	rdma_destroy_event_channel(server.channel);

	listener = listen_at_last(&next);
	server = (struct server){ .channel = next, .listener = listener };
	CHECK(pthread_create(&server.thread, NULL, server_run, &server) == 0);
	channel = rdma_create_event_channel();
	id = connect_new(channel);
	CHECK(id->verbs == verbs);
	disconnect(id);
	rdma_destroy_event_channel(channel);
	server_stop(&server);
}

/* The device is removed and added again. */
static void case_removal(void)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id = listen_at_last(&channel);

	say("ready");
	expect_removal(channel, id, id);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
	say("gone");
	id = listen_at_last(&channel);
	CHECK(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
}

static void case_fork(void)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id = listen_at_last(&channel), *other;
	struct rdma_cm_event *event;
	struct server server;
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		CHECK(rdma_get_cm_event(channel, &event) < 0 && errno == EPERM);
		CHECK(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) < 0 && errno == EPERM);
		here.sin_port = htons(PORT + 1);
		server_start(&server);
		channel = rdma_create_event_channel();
		disconnect(connect_new(channel));
		rdma_destroy_event_channel(channel);
		server_stop(&server);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	server = (struct server){ .channel = channel, .listener = id };
	CHECK(pthread_create(&server.thread, NULL, server_run, &server) == 0);
	channel = rdma_create_event_channel();
	disconnect(connect_new(channel));
	rdma_destroy_event_channel(channel);
	server_stop(&server);
}

static void case_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	if (!channel) {
		printf("channel: %s\n", strerrorname_np(errno));
		CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) < 0);
		exit(3);
	}
	puts("channel: yes");
	rdma_destroy_event_channel(channel);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "id", case_id },
	{ "sync", case_sync },
	{ "migrate", case_migrate },
	{ "external", case_external },
	{ "srq", case_srq },
	{ "own-channels", case_own_channels },
	{ "one-channel", case_one_channel },
	{ "ack-elsewhere", case_ack_elsewhere },
	{ "poll", case_poll },
	{ "signal", case_signal },
	{ "late", case_late },
	{ "lost", case_lost },
	{ "stays-away", case_stays_away },
	{ "removal", case_removal },
	{ "back", case_back },
	{ "fork", case_fork },
	{ "ports", case_ports },
	{ "setuid", case_setuid },
	{ "setuid-early", case_setuid_early },
	{ "channel", case_channel },
};

int main(int argc, char **argv)
{
	if (argc < 3) {
		fputs("usage: dropin ADDRESS CASE...\n", stderr);
		return 2;
	}
	here_text = argv[1];
	here.sin_port = htons(PORT);
	CHECK(inet_pton(AF_INET, argv[1], &here.sin_addr) == 1);
	for (int i = 2; i < argc; i++) {
		size_t k = 0;

		while (k < sizeof(cases) / sizeof(cases[0]) && strcmp(cases[k].name, argv[i]) != 0)
			k++;
		CHECK(k < sizeof(cases) / sizeof(cases[0]));
		printf("--- %s\n", argv[i]);
		fflush(stdout);
		cases[k].run();
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client that uses poll. It connects to HOST and PORT, sends TEXT and disconnects. Calls that wait come before the
 * loop: resolving the name, opening the session, and opening the devices. The loop waits only in poll().
 *
 * cc -o event-client event-client.c $(pkg-config --cflags --libs rdmabroker libibverbs)
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 60000 /* for the whole program */

enum state {
	GOES_ON,
	DONE,
	FAILED,
};

struct client {
	struct rdmabroker *session;
	struct ibv_context **devices;
	struct rdmabroker_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	const char *text;
	bool sent; /* the peer has received the text */
};

static enum state failed(const char *what)
{
	const struct rdmabroker_failure *f = rdmabroker_last_failure();

	fprintf(stderr, "%s: %s%s%s\n", what, f->text, f->rule ? ", rule " : "",
		f->rule ? f->rule : "");
	return FAILED;
}

/* No call here waits for the broker: the device is open, and the QP's attributes came with the events. */
static enum state make_qp(struct client *client)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 64,
		},
	};
	struct ibv_context *verbs;

	if (rdmabroker_get_verbs(client->id, &verbs) < 0)
		return failed("open the device");
	client->channel = ibv_create_comp_channel(verbs);
	if (client->channel)
		client->cq = ibv_create_cq(verbs, 2, NULL, client->channel, 0);
	if (!client->cq || ibv_req_notify_cq(client->cq, 0) != 0) {
		perror("make a completion queue");
		return FAILED;
	}
	attr.send_cq = attr.recv_cq = client->cq;
	if (rdmabroker_create_qp(client->id, NULL, &attr) < 0)
		return failed("make a QP");
	return rdmabroker_connect(client->id, NULL) < 0 ? failed("connect") : GOES_ON;
}

static enum state send_text(struct client *client)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)client->text,
		.length = (uint32_t)strnlen(client->text, 64),
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
	};

	return ibv_post_send(rdmabroker_get_qp(client->id), &wr, &bad) == 0 ? GOES_ON : FAILED;
}

static enum state on_event(struct client *client, const struct rdmabroker_event *event)
{
	switch (event->type) {
	case RDMABROKER_EVENT_ADDR_RESOLVED:
		return GOES_ON;
	case RDMABROKER_EVENT_ROUTE_RESOLVED:
		return make_qp(client);
	case RDMABROKER_EVENT_ESTABLISHED:
		return send_text(client);
	case RDMABROKER_EVENT_DISCONNECTED:
		if (client->sent)
			return DONE;
		break;
	case RDMABROKER_EVENT_TIMEWAIT_EXIT:
		return GOES_ON;
	case RDMABROKER_EVENT_DONE:
		/* The reply to a call. A call whose result is an event gets a reply only if the call fails. */
		if (event->status == 0)
			return GOES_ON;
		break;
	default:
		break;
	}
	fprintf(stderr, "%s%s%s%s: %s\n", rdmabroker_event_str(event->type),
		event->call ? " of " : "", event->call ? event->call : "",
		event->rejected_by == RDMABROKER_REJECTED_BY_POLICY ? " by the peer's broker" : "",
		event->text ? event->text : "the end");
	return FAILED;
}

/* A readable descriptor does not show the number of events, so take all. */
static enum state take_events(struct client *client)
{
	enum state state = GOES_ON;
	struct rdmabroker_event *event;
	int r = 0;

	while (state == GOES_ON && (r = rdmabroker_get_event(client->session, 0, &event)) == 0) {
		state = on_event(client, event);
		rdmabroker_free_event(event);
	}
	return r < 0 && r != -EAGAIN ? failed("take events") : state;
}

static enum state take_completion(struct client *client)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (ibv_get_cq_event(client->channel, &cq, &context) != 0)
		return FAILED;
	ibv_ack_cq_events(cq, 1);
	if (ibv_poll_cq(cq, 1, &wc) != 1)
		return GOES_ON;
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "send: %s\n", ibv_wc_status_str(wc.status));
		return FAILED;
	}
	client->sent = true;
	return rdmabroker_disconnect(client->id) < 0 ? failed("disconnect") : GOES_ON;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static enum state run(struct client *client)
{
	int64_t deadline = now_ms() + TIMEOUT_MS, left;
	enum state state = GOES_ON;

	while (state == GOES_ON && (left = deadline - now_ms()) > 0) {
		struct pollfd fds[] = {
			{ .fd = rdmabroker_get_fd(client->session), .events = POLLIN },
			{ .fd = client->cq ? client->channel->fd : -1, .events = POLLIN },
		};

		if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
			return FAILED;
		if (fds[1].revents && !client->sent)
			state = take_completion(client);
		if (fds[0].revents && state == GOES_ON)
			state = take_events(client);
	}
	if (state == GOES_ON)
		fprintf(stderr, "no end in time\n");
	return state;
}

/* Destroys the QP before its completion queue, both before the id, and these before the device. */
static void end(struct client *client)
{
	if (client->id)
		rdmabroker_destroy_qp(client->id);
	if (client->cq)
		ibv_destroy_cq(client->cq);
	if (client->channel)
		ibv_destroy_comp_channel(client->channel);
	rdmabroker_destroy_id(client->id);
	rdmabroker_free_devices(client->session, client->devices);
	rdmabroker_close(client->session);
}

int main(int argc, char **argv)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct client client = { 0 };
	struct addrinfo *info;
	enum state state;
	int r;

	if (argc != 4) {
		fprintf(stderr, "usage: %s HOST PORT TEXT\n", argv[0]);
		return 2;
	}
	client.text = argv[3];
	r = getaddrinfo(argv[1], argv[2], &hints, &info);
	if (r != 0) {
		fprintf(stderr, "%s: %s\n", argv[1], gai_strerror(r));
		return 1;
	}
	options.flags = RDMABROKER_NONBLOCK;
	if (rdmabroker_open(&options, &client.session) < 0) {
		failed("open a session");
		freeaddrinfo(info);
		return 1;
	}
	if (rdmabroker_get_devices(client.session, &client.devices, NULL) < 0)
		state = failed("open the devices");
	else if (rdmabroker_create_id(client.session, RDMABROKER_PS_TCP, &client, &client.id) < 0 ||
		 rdmabroker_resolve(client.id, NULL, info->ai_addr, TIMEOUT_MS) < 0)
		state = failed("resolve");
	else
		state = run(&client);
	freeaddrinfo(info);
	end(&client);
	return state == DONE ? 0 : 1;
}

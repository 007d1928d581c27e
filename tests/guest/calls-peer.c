/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guest/calls.h"

#define SERVER_LINKS_MAX 64

int ack_timeout = -1;

static void ask_for_ack_timeout(struct rdmabroker_id *id)
{
	if (ack_timeout >= 0)
		must(rdmabroker_get_session(id), "set_option ACK_TIMEOUT",
		     rdmabroker_set_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, ack_timeout));
}

static void check_ack_timeout(struct link *link)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int r = ibv_query_qp(link->qp, &attr, IBV_QP_TIMEOUT, &init);

	if (r != 0)
		die("the QP cannot be queried: %s", strerror(r));
	if (ack_timeout < 0)
		return;
	printf("timeout of the QP: %u\n", attr.timeout);
	if (attr.timeout != ack_timeout)
		die("%d is expected", ack_timeout);
}

static struct rdmabroker_conn_param conn_param(const struct link *link)
{
	return (struct rdmabroker_conn_param){
		.size = sizeof(struct rdmabroker_conn_param),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = link_is_external(link) ? link->qp->qp_num : 0,
	};
}

void client_connect(struct link *link, struct rdmabroker *session, const union address *address,
		    enum link_mode mode)
{
	struct rdmabroker_id *id = resolve(session, RDMABROKER_PS_TCP, address);
	struct rdmabroker_conn_param param;

	ask_for_ack_timeout(id);
	link_init(link, id, mode);
	link_make_qp(link, IBV_QPT_RC);
	param = conn_param(link);
	must(session, "connect_wait", rdmabroker_connect_wait(id, &param, DEADLINE_MS));
	if (!link_is_external(link)) {
		check_ack_timeout(link);
		return;
	}
	/* Only now does the connection manager report the QP's access flags: move the QP to INIT once more. */
	link_move(link, IBV_QPS_INIT);
	link_move(link, IBV_QPS_RTR);
	link_move(link, IBV_QPS_RTS);
	check_ack_timeout(link);
	must(session, "establish", rdmabroker_establish(id));
}

void client_ask(struct link *link)
{
	struct message *m = &link->memory->send.message;
	uint64_t round = link->round + 1;

	*m = (struct message){
		.round = round,
		.addr = (uintptr_t)link->memory->target,
		.rkey = link->mr->rkey,
	};
	pattern_fill(m->pattern, round);
	memset(link->memory->target, 0, PATTERN_SIZE);
	link_post_send(link, NULL);
}

enum answer client_take(struct link *link, int timeout_ms, uint32_t *ret_who)
{
	uint64_t round = link->round + 1;
	const struct message *answer;
	struct ibv_wc wc;

	if (!link_try(link, IBV_WC_RECV, timeout_ms, &wc)) {
		if (wc.status == IBV_WC_SUCCESS)
			return ANSWER_NONE;
		printf("round %llu: %s\n", (unsigned long long)round, ibv_wc_status_str(wc.status));
		return ANSWER_FAILED;
	}
	answer = &link->memory->receives[wc.wr_id].message;
	if (wc.byte_len != sizeof(*answer) || answer->round != round)
		die("round %llu: the answer is to round %llu", (unsigned long long)round,
		    (unsigned long long)answer->round);
	pattern_check("the answer", answer->pattern, ~round);
	pattern_check("what the server wrote", link->memory->target, round + PATTERN_WRITTEN);
	if (ret_who)
		*ret_who = answer->who;
	link_post_receive(link, (unsigned)wc.wr_id);
	link->round = round;
	return ANSWER_VERIFIED;
}

uint32_t client_round(struct link *link)
{
	enum answer answer;
	uint32_t who;

	client_ask(link);
	answer = client_take(link, DEADLINE_MS, &who);
	if (answer == ANSWER_NONE)
		stall_tell(rdmabroker_get_session(link->id), link, "a round is not answered");
	if (answer != ANSWER_VERIFIED)
		die("round %llu is not answered", (unsigned long long)link->round + 1);
	return who;
}

void client_disconnect(struct link *link)
{
	struct rdmabroker_id *id = link->id;

	must(rdmabroker_get_session(id), "disconnect_wait",
	     rdmabroker_disconnect_wait(id, DEADLINE_MS));
	link_done(link);
	rdmabroker_destroy_id(id);
}

struct server {
	struct rdmabroker *session;
	uint32_t who;
	enum link_mode mode;
	struct link *links[SERVER_LINKS_MAX];
	unsigned n_links;
	unsigned n_ended;
	bool lost_device;
};

struct server *server_new(struct rdmabroker *session, uint32_t who, enum link_mode mode)
{
	struct server *server = calloc(1, sizeof(*server));

	if (!server)
		die("out of memory");
	server->session = session;
	server->who = who;
	server->mode = mode;
	return server;
}

static void end_link(struct server *server, struct link *link)
{
	for (unsigned i = 0; i < server->n_links; i++)
		if (server->links[i] == link) {
			server->links[i] = server->links[--server->n_links];
			break;
		}
	server->n_ended++;
	link_done(link);
	rdmabroker_destroy_id(link->id);
	free(link);
}

void server_free(struct server *server)
{
	while (server->n_links > 0)
		end_link(server, server->links[0]);
	free(server);
}

unsigned server_n_links(const struct server *server)
{
	return server->n_links;
}

unsigned server_n_ended(const struct server *server)
{
	return server->n_ended;
}

bool server_lost_device(const struct server *server)
{
	return server->lost_device;
}

/* A client that gives up before it is connected is not a failure of the server. */
static void lose_link(struct server *server, struct link *link, const char *why, const char *text)
{
	printf("a client is lost: %s: %s\n", why, text ? text : "-");
	end_link(server, link);
}

void server_accept(struct server *server, struct rdmabroker_id *request)
{
	struct link *link = calloc(1, sizeof(*link));
	struct rdmabroker_conn_param param;

	if (!link || server->n_links == SERVER_LINKS_MAX)
		die("no room for a connection");
	ask_for_ack_timeout(request);
	link_init(link, request, server->mode);
	link_make_qp(link, IBV_QPT_RC);
	if (server->mode == LINK_EXTERNAL) {
		link_move(link, IBV_QPS_RTR);
		link_move(link, IBV_QPS_RTS);
	}
	rdmabroker_set_context(request, link);
	server->links[server->n_links++] = link;
	param = conn_param(link);
	if (rdmabroker_accept(request, &param) < 0) {
		lose_link(server, link, "accept", rdmabroker_last_failure()->text);
		return;
	}
	check_ack_timeout(link);
}

static void on_event(struct server *server, struct rdmabroker_event *event)
{
	struct link *link = rdmabroker_get_context(event->id);

	switch (event->type) {
	case RDMABROKER_EVENT_CONNECT_REQUEST:
		server_accept(server, event->id);
		break;
	case RDMABROKER_EVENT_ESTABLISHED:
	case RDMABROKER_EVENT_TIMEWAIT_EXIT:
	case RDMABROKER_EVENT_ADDR_CHANGE:
		break;
	case RDMABROKER_EVENT_DISCONNECTED:
	case RDMABROKER_EVENT_DEVICE_REMOVAL:
		if (event->type == RDMABROKER_EVENT_DEVICE_REMOVAL)
			server->lost_device = true;
		printf("event: %s\n", rdmabroker_event_str(event->type));
		/* An event of the listener has no link. */
		if (link)
			end_link(server, link);
		break;
	case RDMABROKER_EVENT_CONNECT_ERROR:
	case RDMABROKER_EVENT_REJECTED:
	case RDMABROKER_EVENT_UNREACHABLE:
		lose_link(server, link, rdmabroker_event_str(event->type), event->text);
		break;
	default:
		die("%s: %s", rdmabroker_event_str(event->type), event->text ? event->text : "-");
	}
}

static void answer(struct server *server, struct link *link, unsigned slot)
{
	const struct message *request = &link->memory->receives[slot].message;
	struct message *m = &link->memory->send.message;

	if (request->round != link->round + 1)
		die("round %llu came after round %llu", (unsigned long long)request->round,
		    (unsigned long long)link->round);
	pattern_check("the request", request->pattern, request->round);
	*m = (struct message){ .round = request->round, .who = server->who };
	pattern_fill(m->pattern, ~request->round);
	pattern_fill(link->memory->target, request->round + PATTERN_WRITTEN);
	link_post_write(link, request);
	link_post_send(link, NULL);
	link->round++;
	/* The client sends its next request only after it has the answer, so this receive is posted in time. */
	link_post_receive(link, slot);
	link->is_answering = true;
}

/*
 * The server must not block until a send completes: a client may disconnect as soon as it has the answer, before its
 * QP has acknowledged the answer. The send then never succeeds, and the id gets an event.
 */
static void serve_link(struct server *server, struct link *link)
{
	struct ibv_wc wc;

	/* If the QP has failed, link_try() fails, too, and an event of the id reports the end. */
	for (;;) {
		if (link->is_answering && !link_try(link, IBV_WC_SEND, 0, &wc))
			return;
		link->is_answering = false;
		if (!link_try(link, IBV_WC_RECV, 0, &wc))
			return;
		answer(server, link, (unsigned)wc.wr_id);
	}
}

bool server_wait(struct server *server, int fd)
{
	struct pollfd p[SERVER_LINKS_MAX + 2] = {
		{ .fd = rdmabroker_get_fd(server->session), .events = POLLIN },
		{ .fd = fd, .events = POLLIN },
	};
	struct link *links[SERVER_LINKS_MAX];
	struct rdmabroker_event *event;
	unsigned n = server->n_links;
	int r;

	memcpy(links, server->links, sizeof(links));
	for (unsigned i = 0; i < n; i++)
		p[i + 2] = (struct pollfd){ .fd = links[i]->channel->fd, .events = POLLIN };
	if (poll(p, n + 2, DEADLINE_MS) <= 0) {
		stall_tell(server->session, NULL, "the server has nothing to do");
		die("the server has nothing to do");
	}
	for (unsigned i = 0; i < n; i++)
		if (p[i + 2].revents)
			serve_link(server, links[i]);
	while ((r = rdmabroker_get_event(server->session, 0, &event)) == 0) {
		on_event(server, event);
		rdmabroker_free_event(event);
	}
	if (r != -EAGAIN)
		must(server->session, "get_event", r);
	return p[1].revents != 0;
}

/*
 * serve ADDR PORT MODE [COUNT [ACK_TIMEOUT]]: serves until COUNT connections have ended, or until the suite ends it.
 */
int serve(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *listener = listen_on(session, RDMABROKER_PS_TCP, &address);
	struct server *server = server_new(session, 0, link_mode(argv[2]));
	unsigned count = argv[3] ? (unsigned)number(argv[3]) : ~0u;

	if (argv[3] && argv[4])
		ack_timeout = number(argv[4]);
	printf("listening\n");
	while (server->n_ended < count)
		if (server_wait(server, 0) && step_is_over())
			break;
	printf("served %u connections\n", server->n_ended);
	server_free(server);
	rdmabroker_destroy_id(listener);
	rdmabroker_close(session);
	return 0;
}

/* client ADDR PORT MODE ROUNDS [ACK_TIMEOUT]: connects, makes ROUNDS rounds, and disconnects. */
int client(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	int rounds = number(argv[3]);
	struct link link;

	if (argv[4])
		ack_timeout = number(argv[4]);
	client_connect(&link, session, &address, link_mode(argv[2]));
	for (int i = 0; i < rounds; i++)
		client_round(&link);
	client_disconnect(&link);
	rdmabroker_close(session);
	printf("%d rounds verified\n", rounds);
	return 0;
}

/*
 * client-leaves ADDR PORT ROUNDS: makes ROUNDS rounds. After a line from the suite, makes one more round, and
 * disconnects immediately after the answer.
 */
int client_leaves(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	int rounds = number(argv[2]);
	struct link link;

	client_connect(&link, session, &address, LINK_OWN);
	for (int i = 0; i < rounds; i++)
		client_round(&link);
	step("one round is left");
	client_round(&link);
	client_disconnect(&link);
	rdmabroker_close(session);
	return 0;
}

/*
 * client-reset ADDR PORT ROUNDS: the QP stays in RESET until the peer has accepted. The kernel lists such a QP only
 * in a dump of all QPs.
 */
int client_reset(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = resolve(session, RDMABROKER_PS_TCP, &address);
	struct rdmabroker_conn_param param;
	int rounds = number(argv[2]);
	struct link link;

	link_init(&link, id, LINK_RESET);
	link_make_qp(&link, IBV_QPT_RC);
	param = conn_param(&link);
	printf("QP number %u\n", param.qp_num);
	step("the QP is in RESET");
	must(session, "connect_wait", rdmabroker_connect_wait(id, &param, DEADLINE_MS));
	link_move(&link, IBV_QPS_INIT);
	for (unsigned i = 0; i < LINK_RECEIVES; i++)
		link_post_receive(&link, i);
	link_move(&link, IBV_QPS_RTR);
	link_move(&link, IBV_QPS_RTS);
	must(session, "establish", rdmabroker_establish(id));
	for (int i = 0; i < rounds; i++)
		client_round(&link);
	client_disconnect(&link);
	rdmabroker_close(session);
	return 0;
}

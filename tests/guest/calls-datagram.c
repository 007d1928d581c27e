/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/guest/calls.h"

#define QUESTION "where are you?"
#define ANSWER "here I am"
#define REFUSAL "\x01not for you\xff"

static struct rdmabroker_conn_param data_param(const void *data, size_t len)
{
	return (struct rdmabroker_conn_param){
		.size = sizeof(struct rdmabroker_conn_param),
		.private_data = data,
		.private_data_len = (uint8_t)len,
	};
}

/* The transport appends zeroes to private data. */
static void check_data(const struct rdmabroker_event *event, const char *data, size_t len)
{
	if (event->conn->private_data_len < len ||
	    memcmp(event->conn->private_data, data, len) != 0)
		die("%s: the private data (%zu bytes) is not what was sent",
		    rdmabroker_event_str(event->type), event->conn->private_data_len);
}

void datagram_answer(struct link *link, const struct ibv_wc *wc, struct ibv_ah_attr *attr)
{
	struct link_memory *got = &link->memory->receives[wc->wr_id];
	struct message *m = &link->memory->send.message;
	struct link_dest dest = { .qpn = wc->src_qp, .qkey = got->message.rkey };
	struct ibv_wc sent;

	if (wc->byte_len != sizeof(*got) || !(wc->wc_flags & IBV_WC_GRH))
		die("a datagram of %u bytes, flags 0x%x", wc->byte_len, wc->wc_flags);
	pattern_check("the datagram", got->message.pattern, got->message.round);
	dest.ah = ibv_create_ah(link->pd, attr);
	if (!dest.ah)
		die("no address handle of the sender: %s", strerror(errno));
	*m = (struct message){ .round = got->message.round, .who = 1 };
	pattern_fill(m->pattern, ~m->round);
	link_post_receive(link, (unsigned)wc->wr_id);
	link_post_send(link, &dest);
	link_await(link, IBV_WC_SEND, &sent);
	ibv_destroy_ah(dest.ah);
}

static void answer_by_completion(struct link *link, struct ibv_wc *wc)
{
	struct ibv_grh *grh = (struct ibv_grh *)link->memory->receives[wc->wr_id].grh;
	struct ibv_ah_attr attr = { 0 };

	if (ibv_init_ah_from_wc(link->qp->context, 1, wc, grh, &attr) != 0)
		die("no address from the completion: %s", strerror(errno));
	datagram_answer(link, wc, &attr);
}

/*
 * datagram-server ADDR PORT COUNT: accepts a look-up (a datagram id's connection request), and answers COUNT
 * datagrams.
 */
int datagram_server(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_conn_param param = data_param(ANSWER, sizeof(ANSWER));
	struct rdmabroker_id *listener, *request;
	int count = number(argv[2]);
	struct link link;
	struct ibv_wc wc;

	listener = listen_on(session, RDMABROKER_PS_UDP, &address);
	printf("listening\n");
	must(session, "get_request", rdmabroker_get_request(listener, DEADLINE_MS, &request));
	check_data(rdmabroker_get_request_event(request), QUESTION, sizeof(QUESTION));
	link_init(&link, request, LINK_OWN);
	link_make_qp(&link, IBV_QPT_UD);
	must(session, "accept_wait", rdmabroker_accept_wait(request, &param, DEADLINE_MS));
	printf("QP %u is told to the one who looked it up\n", link.qp->qp_num);
	for (int i = 0; i < count; i++) {
		link_await(&link, IBV_WC_RECV, &wc);
		answer_by_completion(&link, &wc);
	}
	printf("answered %d datagrams\n", count);
	link_done(&link);
	rdmabroker_destroy_id(request);
	rdmabroker_destroy_id(listener);
	rdmabroker_close(session);
	return 0;
}

/* Sends a datagram, and verifies the answer. It does not retry: the devices here lose no datagrams. */
static void ask(struct link *link, const struct link_dest *dest, uint32_t qkey, uint64_t round)
{
	struct message *m = &link->memory->send.message;
	const struct link_memory *got;
	struct ibv_wc wc;

	*m = (struct message){ .round = round, .rkey = qkey };
	pattern_fill(m->pattern, round);
	link_post_send(link, dest);
	link_await(link, IBV_WC_RECV, &wc);
	got = &link->memory->receives[wc.wr_id];
	if (wc.byte_len != sizeof(*got) || got->message.round != round || wc.src_qp != dest->qpn)
		die("%u bytes, round %llu, from QP %u", wc.byte_len,
		    (unsigned long long)got->message.round, wc.src_qp);
	pattern_check("the answer", got->message.pattern, ~round);
	link_post_receive(link, (unsigned)wc.wr_id);
}

/* datagram-client ADDR PORT COUNT: looks up the server's QP, and exchanges COUNT datagrams with it. */
int datagram_client(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = resolve(session, RDMABROKER_PS_UDP, &address);
	struct rdmabroker_conn_param param = data_param(QUESTION, sizeof(QUESTION));
	struct rdmabroker_event *event;
	struct link_dest dest;
	struct link link;
	int count = number(argv[2]);

	link_init(&link, id, LINK_OWN);
	link_make_qp(&link, IBV_QPT_UD);
	must(session, "connect", rdmabroker_connect(id, &param));
	event = await_event(session, id, RDMABROKER_EVENT_ESTABLISHED);
	check_data(event, ANSWER, sizeof(ANSWER));
	printf("found QP %u, Q_Key 0x%x\n", event->ud->qp_num, event->ud->qkey);
	dest = (struct link_dest){
		.ah = ibv_create_ah(link.pd, &event->ud->ah_attr),
		.qpn = event->ud->qp_num,
		.qkey = event->ud->qkey,
	};
	if (!dest.ah)
		die("no address handle from the event: %s", strerror(errno));
	for (int i = 1; i <= count; i++)
		ask(&link, &dest, event->ud->qkey, (uint64_t)i);
	printf("%d datagrams and their answers verified\n", count);
	rdmabroker_free_event(event);
	ibv_destroy_ah(dest.ah);
	link_done(&link);
	rdmabroker_destroy_id(id);
	rdmabroker_close(session);
	return 0;
}

/* datagram-refuser ADDR PORT COUNT: rejects COUNT look-ups. */
int datagram_refuser(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *listener = listen_on(session, RDMABROKER_PS_UDP, &address), *request;

	printf("listening\n");
	for (int i = 0; i < number(argv[2]); i++) {
		must(session, "get_request",
		     rdmabroker_get_request(listener, DEADLINE_MS, &request));
		must(session, "reject", rdmabroker_reject(request, REFUSAL, sizeof(REFUSAL)));
		rdmabroker_destroy_id(request);
		printf("refused\n");
	}
	rdmabroker_destroy_id(listener);
	rdmabroker_close(session);
	return 0;
}

static const char *const rejecters[] = {
	[RDMABROKER_REJECTED_BY_NOBODY] = "nobody",
	[RDMABROKER_REJECTED_BY_PEER] = "peer",
	[RDMABROKER_REJECTED_BY_POLICY] = "policy",
	[RDMABROKER_REJECTED_NO_LISTENER] = "no-listener",
};

static const char *rejecter_name(enum rdmabroker_rejecter rejecter)
{
	return rejecter < sizeof(rejecters) / sizeof(rejecters[0]) ? rejecters[rejecter] : "other";
}

/*
 * datagram-refused ADDR PORT BY [TEXT]: makes a look-up with connect and another with connect_wait. BY must reject
 * both ("nobody": both fail without a reject). TEXT: the text of the first event.
 */
int datagram_refused(char **argv)
{
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = resolve(session, RDMABROKER_PS_UDP, &address);
	const struct rdmabroker_event *reject;
	struct rdmabroker_event *event;

	must(session, "connect", rdmabroker_connect(id, NULL));
	event = await_event(session, id, RDMABROKER_EVENT_UNREACHABLE);
	printf("status %d, refused by %s: %s\n", event->status, rejecter_name(event->rejected_by),
	       event->text ? event->text : "-");
	if (strcmp(rejecter_name(event->rejected_by), argv[2]) != 0)
		die("not refused by %s", argv[2]);
	if (event->rejected_by == RDMABROKER_REJECTED_BY_PEER)
		check_data(event, REFUSAL, sizeof(REFUSAL));
	if (argv[3] && (!event->text || strcmp(event->text, argv[3]) != 0))
		die("the text is not \"%s\"", argv[3]);
	if (argv[3] && event->reject_code != RDMABROKER_REJECT_DENIED)
		die("the code is %d", event->reject_code);
	rdmabroker_free_event(event);
	rdmabroker_destroy_id(id);

	id = resolve(session, RDMABROKER_PS_UDP, &address);
	must_fail("connect_wait", rdmabroker_connect_wait(id, NULL, DEADLINE_MS),
		  strcmp(argv[2], "nobody") == 0 ? -EHOSTUNREACH : -ECONNREFUSED);
	reject = rdmabroker_get_reject_event(id);
	if (strcmp(rejecter_name(reject ? reject->rejected_by : 0), argv[2]) != 0)
		die("get_reject does not say so");
	rdmabroker_destroy_id(id);
	rdmabroker_close(session);
	return 0;
}

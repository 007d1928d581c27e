/* SPDX-License-Identifier: BSD-2-Clause */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/asking.h"

#define RULES                                                         \
	"allow session\nallow listen\nallow connect port 7400-7499\n" \
	"allow connect port 8000 peer-user 1234\n"                    \
	"allow accept port 7471 peer-same user\n"                     \
	"allow accept port 7472-7473 peer-user 1234\nallow accept port 7479\n"

struct rdmabroker *server, *client;
static struct rdmabroker *watcher;

void set_up_asking(void)
{
	const struct rdmabroker_filter filter = { .kind = "decision" };

	set_up_peerd();
	set_policy(RULES);
	start_peerd();
	server = open_session(0);
	client = open_session(0);
	watcher = open_session(0);
	ck_assert_int_eq(rdmabroker_watch(watcher, &filter), 0);
}

void tear_down_asking(void)
{
	rdmabroker_close(server);
	rdmabroker_close(client);
	rdmabroker_close(watcher);
	tear_down_peerd();
}

struct rdmabroker_id *connect_from(const char *host, uint16_t port)
{
	static uint32_t qpn = 16;
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = ++qpn };
	struct sockaddr_storage src = address_of(host, 0);
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(client, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, (struct sockaddr *)&src, addr(port), T), 0);
	rdmabroker_free_event(expect(client, RDMABROKER_EVENT_ADDR_RESOLVED));
	ck_assert_int_eq(rdmabroker_resolve_route(id, T), 0);
	rdmabroker_free_event(expect(client, RDMABROKER_EVENT_ROUTE_RESOLVED));
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	return id;
}

struct rdmabroker_id *connect_to(uint16_t port)
{
	struct sockaddr_storage dst = address_of(OTHER, port);
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(client, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, (struct sockaddr *)&dst, T), 0);
	return id;
}

struct rdmabroker_notice *expect_decision(const char *operation)
{
	struct rdmabroker_notice *notice;

	for (;;) {
		ck_assert_int_eq(rdmabroker_get_notice(watcher, T, &notice), 0);
		if (strcmp(notice->operation ?: "", operation) == 0)
			return notice;
		rdmabroker_free(notice);
	}
}

void expect_allowed(const char *operation, uint32_t uid)
{
	struct rdmabroker_notice *notice = expect_decision(operation);

	ck_assert_str_eq(notice->outcome, "allowed");
	ck_assert(notice->who_peer.is_known);
	ck_assert_uint_eq(notice->who_peer.who.uid, uid);
	rdmabroker_free(notice);
}

void expect_unknown(const char *operation, const char *why)
{
	struct rdmabroker_notice *notice = expect_decision(operation);

	ck_assert_str_eq(notice->outcome, "rejected");
	ck_assert_msg(notice->who_peer.why && strstr(notice->who_peer.why, why), "no '%s' in '%s'",
		      why, notice->who_peer.why ?: "nothing");
	rdmabroker_free(notice);
}

void expect_reject(void)
{
	rdmabroker_free_event(expect(client, RDMABROKER_EVENT_REJECTED));
}

void reject_request(void)
{
	struct rdmabroker_event *event = expect(server, RDMABROKER_EVENT_CONNECT_REQUEST);

	rdmabroker_destroy_id(event->id);
	rdmabroker_free_event(event);
}

void expect_request(void)
{
	reject_request();
	expect_reject();
}

void reply(int fd, const char *text, const char *answers)
{
	struct question questions[QUESTIONS_MAX];
	char error[MESSAGE_ERROR_MAX], *message, *sealed;
	struct message_head head;
	size_t n;

	ck_assert_msg(message_read_questions(text, &head, questions, &n, error), "%s", error);
	message = message_answer(&head, json_loads(answers, 0, NULL));
	ck_assert_ptr_nonnull(message);
	sealed = seal_text(message);
	send_text(fd, sealed);
	free(sealed);
	free(message);
}

void answer(int listening, const char *answers)
{
	char *text;
	int fd = accept_questions(listening, &text);

	reply(fd, text, answers);
	close(fd);
	free(text);
}

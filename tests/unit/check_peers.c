/* SPDX-License-Identifier: BSD-2-Clause */
#include <netinet/in.h>

#include "core/rule/enforce.h"
#include "core/object/session.h"
#include "proto/addr.h"
#include "tests/unit/helper.h"

/* Rules that depend on who the peer is. The test is the helper: it answers in place of rdmabroker-peerd. */

/* Connects to PORT, where WHO is needed. TEXT NULL: the listener gets the request. */
static void try(struct rdmabroker *helper, struct rdmabroker *s, struct rdmabroker *c,
		uint16_t port, const struct rdmabroker_who *who, const char *text)
{
	struct rdmabroker_id *id = connect_to(c, port);

	answer_question(helper, "accept", who);
	if (text)
		expect_reject(c, text);
	else
		rdmabroker_destroy_id(expect_request(s));
	rdmabroker_destroy_id(id);
}

START_TEST(rules_that_name_the_peer)
{
	struct rdmabroker_who other = somebody, same = somebody;
	struct rdmabroker *helper, *s, *c;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	for (uint16_t port = 7471; port <= 7474; port++)
		start_listening(s, port);
	other.uid = 1235;
	other.gids = NULL;
	other.n_gids = 0;
	other.unit = "user@1235.service";
	same.uid = geteuid();

	try(helper, s, c, 7471, &somebody, NULL);
	try(helper, s, c, 7471, &other, "no-rule");
	try(helper, s, c, 7471, NULL, "no-rule");
	/* A reject rule matches also if it is not known who the peer is. */
	try(helper, s, c, 7472, &other, NULL);
	try(helper, s, c, 7472, &somebody, "not group 77");
	try(helper, s, c, 7472, NULL, "not group 77");
	try(helper, s, c, 7473, &somebody, NULL);
	try(helper, s, c, 7473, &other, "no-rule");
	other.knows_workload = false;
	other.unit = somebody.unit;
	try(helper, s, c, 7473, &other, "no-rule");
	try(helper, s, c, 7474, &same, NULL);
	try(helper, s, c, 7474, &somebody, "no-rule");
	rdmabroker_close(s);
	rdmabroker_close(c);
	rdmabroker_close(helper);
}
END_TEST

START_TEST(what_no_rule_needs_is_not_asked)
{
	struct rdmabroker *helper, *s, *c;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7479);
	connect_to(c, 7479);
	expect_request(s);
	expect_no_question(helper);
	/* The rules before it reject all the same. */
	set_policy(
		"allow session\nallow listen\nallow connect\nreject accept peer-user 1\nreject accept\n");
	connect_to(c, 7479);
	expect_reject(c, "denied");
	expect_no_question(helper);
	rdmabroker_close(s);
	rdmabroker_close(c);
	rdmabroker_close(helper);
}
END_TEST

static void do_limit_inquiries(void *arg)
{
	harness.core->account.limit_per_user[ACCOUNT_INQUIRIES] = *(unsigned *)arg;
}

/* Connects from another address, that of a host of its own. */
static void connect_from_elsewhere(struct rdmabroker *session, uint16_t port)
{
	struct sockaddr_in other = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a090002) };
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, (struct sockaddr *)&other), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(port), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	ck_assert_int_eq(rdmabroker_connect(id, new_param()), 0);
}

START_TEST(a_user_at_the_limit)
{
	struct rdmabroker *helper, *s, *c;
	unsigned limit = 2;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	in_server(do_limit_inquiries, &limit);
	connect_to(c, 7471);
	/* Half of them can be about one address. */
	connect_to(c, 7471);
	expect_reject(c, "no-rule");
	connect_from_elsewhere(c, 7471);
	connect_from_elsewhere(c, 7471);
	expect_reject(c, "no-rule");
	answer_question(helper, "accept", &somebody);
	answer_question(helper, "accept", &somebody);
	expect_request(s);
	expect_request(s);
	expect_no_question(helper);
	ck_assert_uint_eq(count_inquiries(), 0);
	rdmabroker_close(s);
	rdmabroker_close(c);
	rdmabroker_close(helper);
}
END_TEST

/* A host that does not answer cannot close a listener to other hosts. */
START_TEST(one_address_has_half_of_a_backlog)
{
	struct rdmabroker *helper, *s, *c;

	set_policy("allow session\nallow listen backlog 4\nallow connect\n"
		   "allow accept port 7471 peer-user 1234\nallow accept port 7479\n");
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	connect_to(c, 7471);
	connect_to(c, 7471);
	connect_to(c, 7471);
	expect_reject(c, "busy");
	connect_from_elsewhere(c, 7471);
	ck_assert_uint_eq(count_inquiries(), 3);
	for (int i = 0; i < 3; i++) {
		answer_question(helper, "accept", &somebody);
		expect_request(s);
	}
	/* Nobody waits for an answer any more. The requests that the client has not answered count in the backlog. */
	connect_to(c, 7471);
	answer_question(helper, "accept", &somebody);
	expect_request(s);
	connect_to(c, 7471);
	expect_reject(c, "busy");
	rdmabroker_close(s);
	rdmabroker_close(c);
	rdmabroker_close(helper);
}
END_TEST

START_TEST(listeners_and_ids_that_end_meanwhile)
{
	struct rdmabroker *helper, *s, *c;
	struct rdmabroker_id *listener, *id;
	struct rdmabroker_notice *question;
	struct rdmabroker_event *event;
	struct rdmabroker_list *list;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	listener = start_listening(s, 7471);
	/* The listener ends. */
	connect_to(c, 7471);
	question = expect_question(helper, "accept");
	rdmabroker_destroy_id(listener);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_REJECTED));
	ck_assert_uint_eq(count_inquiries(), 0);
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, &somebody, NULL),
			 -EBADF);
	rdmabroker_free(question);
	/* An admin ends the listener. */
	listener = start_listening(s, 7473);
	connect_to(c, 7473);
	question = expect_question(helper, "accept");
	ck_assert_int_eq(rdmabroker_get_list(c, 0, &list), 0);
	ck_assert_uint_eq(list->ids[0].session->number, number_of(c, 1));
	ck_assert_int_eq(rdmabroker_kick(c, list->ids[0].session->number, list->ids[0].id), 0);
	rdmabroker_free(list);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DEVICE_REMOVAL));
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, &somebody, NULL), 0);
	rdmabroker_free(question);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_REJECTED));
	ck_assert_int_eq(rdmabroker_get_event(s, 0, &event), -EAGAIN);
	rdmabroker_destroy_id(listener);
	/* The peer gives up. */
	start_listening(s, 7472);
	id = connect_to(c, 7472);
	question = expect_question(helper, "accept");
	rdmabroker_destroy_id(id);
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, &somebody, NULL), 0);
	rdmabroker_free(question);
	ck_assert_uint_eq(count_inquiries(), 0);
	rdmabroker_close(s);
	rdmabroker_close(c);
	await_counts(1, 0);
	rdmabroker_close(helper);
}
END_TEST

static struct rdmabroker_id *begin_to_resolve(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(port), T), 0);
	return id;
}

START_TEST(the_listener_of_an_outgoing_connection)
{
	struct rdmabroker_who other = somebody;
	struct rdmabroker *helper, *c;
	struct rdmabroker_notice *question;
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	set_policy("allow session\nallow connect peer-user 1234\n");
	helper = open_helper();
	c = open_session(0);
	id = begin_to_resolve(c, 7471);
	question = expect_question(helper, "connect");
	ck_assert_uint_eq(addr_port((struct sockaddr *)&question->peer), 7471);
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, &somebody, NULL), 0);
	rdmabroker_free(question);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ADDR_RESOLVED));
	/* The answer is kept. */
	ck_assert_int_eq(rdmabroker_resolve_route(id, T), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ROUTE_RESOLVED));
	expect_no_question(helper);
	rdmabroker_destroy_id(id);

	other.uid = 1;
	id = begin_to_resolve(c, 7471);
	answer_question(helper, "connect", &other);
	event = expect(c, RDMABROKER_EVENT_ADDR_ERROR);
	ck_assert_int_eq(event->status, -EACCES);
	rdmabroker_free_event(event);
	/* The answer about one peer is not used for another one. */
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(7472), T), 0);
	answer_question(helper, "connect", &somebody);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ADDR_RESOLVED));
	begin_to_resolve(c, 7471);
	answer_question(helper, "connect", NULL);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ADDR_ERROR));
	/* The id ends meanwhile. */
	id = begin_to_resolve(c, 7471);
	rdmabroker_free(expect_question(helper, "connect"));
	rdmabroker_destroy_id(id);
	expect_no_question(helper);
	ck_assert_uint_eq(count_inquiries(), 0);
	rdmabroker_close(helper);
	begin_to_resolve(c, 7471);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ADDR_ERROR));
	rdmabroker_close(c);
}
END_TEST

/* S accepts the request of ACTIVE, which is C's. */
static void accept_one(struct rdmabroker *s, struct rdmabroker *c, struct rdmabroker_id *active)
{
	ck_assert_int_eq(rdmabroker_accept(expect_request(s), new_param()), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(rdmabroker_establish(active), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
}

static void do_enforce(void *arg)
{
	enforce_start(harness.core);
}

START_TEST(a_new_policy_keeps_connections_whose_peer_was_never_asked)
{
	struct rdmabroker *helper, *s, *c;
	struct rdmabroker_id *id;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	start_listening(s, 7479);
	accept_one(s, c, connect_to(c, 7479));
	id = connect_to(c, 7471);
	answer_question(helper, "accept", &somebody);
	accept_one(s, c, id);

	set_policy("allow session\nallow listen\nallow connect\nallow accept peer-user 1234\n");
	in_server(do_enforce, NULL);
	expect_no_question(helper);
	/* The peer of this one is known. */
	set_policy("allow session\nallow listen\nallow connect\nallow accept peer-user 99\n");
	in_server(do_enforce, NULL);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_DISCONNECTED));
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_DISCONNECTED));
	await_counts(3, 6);
	rdmabroker_close(s);
	rdmabroker_close(c);
	rdmabroker_close(helper);
}
END_TEST

UNIT_MAIN("peers", set_up, tear_down, rules_that_name_the_peer, what_no_rule_needs_is_not_asked,
	  a_user_at_the_limit, one_address_has_half_of_a_backlog,
	  listeners_and_ids_that_end_meanwhile, the_listener_of_an_outgoing_connection,
	  a_new_policy_keeps_connections_whose_peer_was_never_asked)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/asking.h"

/* What rdmabroker-peerd asks, and what it makes of the answers. */

START_TEST(a_peer_of_this_host)
{
	struct rdmabroker_id *id;

	start_listening(server, 7471);
	start_listening(server, 7472);
	id = connect_from(HOST, 7471);
	expect_request();
	expect_allowed("accept", geteuid());
	rdmabroker_destroy_id(id);
	connect_from(HOST, 7472);
	expect_reject();
}
END_TEST

START_TEST(a_peer_of_another_host)
{
	int listening = listen_as(OTHER), fd;
	struct question questions[QUESTIONS_MAX];
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	struct rdmabroker_id *id;
	struct message_head head;
	char error[MESSAGE_ERROR_MAX], *text, here[64];
	size_t n;

	start_listening(server, 7472);
	id = connect_from(OTHER, 7472);
	fd = accept_questions(listening, &text);
	ck_assert(message_read_questions(text, &head, questions, &n, error));
	ck_assert_str_eq(head.from, HOST);
	ck_assert_str_eq(head.to, OTHER);
	ck_assert_uint_eq(n, 1);
	ck_assert(!questions[0].listens);
	ck_assert_int_eq(questions[0].ps, RDMABROKER_PS_TCP);
	ck_assert_uint_eq(questions[0].port, rdmabroker_get_local_port(id));
	ck_assert_uint_eq(questions[0].peer_port, 7472);
	ck_assert_uint_ne(questions[0].qpn, 0);
	/* It comes from the address that the RDMA connection has. */
	ck_assert_int_eq(getpeername(fd, (struct sockaddr *)&from, &len), 0);
	ck_assert_str_eq(message_address((struct sockaddr *)&from, here), HOST);
	reply(fd, text, "[{\"uid\": 1234, \"gids\": [5], \"unit\": \"a.service\"}]");
	close(fd);
	free(text);
	expect_request();
	expect_allowed("accept", 1234);

	connect_from(OTHER, 7472);
	answer(listening, "[{\"uid\": 1235, \"gids\": [], \"unit\": null}]");
	expect_reject();
	connect_from(OTHER, 7472);
	answer(listening, "[{\"unknown\": \"it is not there\"}]");
	expect_reject();
	rdmabroker_free(expect_decision("accept"));
	expect_unknown("accept", "10.9.0.7 says: it is not there");

	/* Who listens? */
	connect_to(8000);
	fd = accept_questions(listening, &text);
	ck_assert(message_read_questions(text, &head, questions, &n, error));
	ck_assert(questions[0].listens);
	ck_assert_uint_eq(questions[0].port, 8000);
	reply(fd, text, "[{\"uid\": 1234, \"gids\": [], \"unit\": null}]");
	free(text);
	close(fd);
	rdmabroker_free_event(expect(client, RDMABROKER_EVENT_ADDR_RESOLVED));
	close(listening);
}
END_TEST

/* The next questions come through FD, and not through a new connection. */
static void answer_again(int fd, const char *answers)
{
	char *sealed = receive_text(fd), error[SEAL_ERROR_MAX], *text;

	ck_assert_ptr_nonnull(sealed);
	text = seal_open(&peerd_test.seal, sealed, error);
	ck_assert_msg(text != NULL, "%s", error);
	reply(fd, text, answers);
	free(sealed);
	free(text);
}

/* Without a connection that is kept, each question would take two round trips. */
START_TEST(a_connection_is_kept)
{
	static const char answers[] = "[{\"uid\": 1234, \"gids\": [], \"unit\": null}]";
	int listening = listen_as(OTHER), fd;
	char *text, *sealed, error[SEAL_ERROR_MAX];

	start_listening(server, 7472);
	connect_from(OTHER, 7472);
	fd = accept_questions(listening, &text);
	reply(fd, text, answers);
	free(text);
	expect_request();
	for (int i = 0; i < 3; i++) {
		connect_from(OTHER, 7472);
		answer_again(fd, answers);
		expect_request();
	}
	/* The other host ends when it has a question, which then is sent again, with another seal. */
	connect_from(OTHER, 7472);
	sealed = receive_text(fd);
	text = seal_open(&peerd_test.seal, sealed, error);
	ck_assert_msg(text != NULL, "%s", error);
	free(sealed);
	free(text);
	close(fd);
	fd = accept_questions(listening, &text);
	reply(fd, text, answers);
	free(text);
	expect_request();
	/* What comes without a question ends the connection. */
	send_text(fd, "more");
	ck_assert_ptr_null(receive_text(fd));
	close(fd);
	/* A connection that the other host has closed is not used. */
	connect_from(OTHER, 7472);
	answer(listening, answers);
	expect_request();
	connect_from(OTHER, 7472);
	answer(listening, answers);
	expect_request();
	close(listening);
}
END_TEST

/* Nobody listens there, or munged has ended. */
START_TEST(what_cannot_be_asked)
{
	start_listening(server, 7472);
	connect_from(OTHER, 7472);
	expect_reject();
	expect_unknown("accept", "cannot reach rdmabroker-peerd of 10.9.0.7: Connection refused");
	stop_munged(0);
	close(listen_as("10.9.0.8"));
	connect_from(HOST, 7472);
	expect_reject();
	expect_unknown("accept", "MUNGE cannot seal: ");
	start_munged(0);
	connect_from(HOST, 7472);
	expect_reject();
	rdmabroker_free(expect_decision("accept"));
	kill(peerd_test.munged[0], SIGSTOP);
	connect_from(HOST, 7472);
	expect_reject();
	expect_unknown("accept", "munged has not sealed the question in time");
	kill(peerd_test.munged[0], SIGCONT);
	/* The helper ends, and another one begins. */
	stop_peerd();
	await_counts(3, 5);
	connect_from(HOST, 7472);
	expect_reject();
	expect_unknown("accept", "rdmabroker-peerd is not there");
	start_peerd();
	start_listening(server, 7471);
	connect_from(HOST, 7471);
	expect_request();
}
END_TEST

PEERD_MAIN("peerd", set_up_asking, tear_down_asking, a_peer_of_this_host, a_peer_of_another_host,
	   a_connection_is_kept, what_cannot_be_asked)

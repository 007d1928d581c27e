/* SPDX-License-Identifier: BSD-2-Clause */
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/object/inquiry.h"
#include "core/object/session.h"
#include "tests/unit/asking.h"
#include "tests/unit/be_user.h"
#include "util/util.h"

/* Many questions at once. */

/* Says of all programs in the questions TEXT that they are uid 1234's. Returns the number of QUESTIONS, which are in TEXT. */
static size_t answer_all_in(int fd, const char *text, struct question questions[QUESTIONS_MAX])
{
	char error[MESSAGE_ERROR_MAX], *message, *sealed;
	json_t *answers = json_array();
	struct message_head head;
	size_t n;

	ck_assert(message_read_questions(text, &head, questions, &n, error));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(answers,
				      json_pack("{s:i, s:[], s:n}", "uid", 1234, "gids", "unit"));
	message = message_answer(&head, answers);
	sealed = seal_text(message);
	send_text(fd, sealed);
	free(sealed);
	free(message);
	return n;
}

/* The same, for the next message. */
static size_t answer_all(int listening)
{
	struct question questions[QUESTIONS_MAX];
	char *text;
	int fd = accept_questions(listening, &text);
	size_t n = answer_all_in(fd, text, questions);

	free(text);
	close(fd);
	return n;
}

#define THIRD "10.9.0.8"

/*
 * Returns when the helper has all questions so far: it gets them in order, and asks another host at once. Makes one
 * more connection request to PORT, which is allowed.
 */
static void await_helper(uint16_t port)
{
	int listening = listen_as(THIRD);

	connect_from(THIRD, port);
	ck_assert_uint_eq(answer_all(listening), 1);
	close(listening);
}

#define SOME 100

/* Questions about one host share messages, and those of others do not wait for them. */
START_TEST(questions_share_messages)
{
	int listening = listen_as(OTHER);
	unsigned n_messages = 0;

	start_listening(server, 7472);
	start_listening(server, 7479);
	for (unsigned i = 0; i < SOME; i++)
		connect_from(OTHER, 7472);
	/* This one needs no answer. */
	connect_from(HOST, 7479);
	expect_request();
	await_helper(7472);
	expect_request();
	for (size_t n = 0; n < SOME; n_messages++)
		n += answer_all(listening);
	for (unsigned i = 0; i < SOME; i++)
		expect_request();
	printf("%u questions in %u messages\n", SOME, n_messages);
	/* Two go on at once; the others are full. */
	ck_assert_uint_le(n_messages, 2 + (SOME + QUESTIONS_MAX - 1) / QUESTIONS_MAX);
	close(listening);
}
END_TEST

static void do_become_somebody(void *arg)
{
	be_user(container_of(harness.core->sessions.prev, struct session, link), 65533);
}

/* Whether TEXT asks about the peer of PORT. */
static bool asks_about(const char *text, uint16_t port)
{
	struct question questions[QUESTIONS_MAX];
	char error[MESSAGE_ERROR_MAX];
	struct message_head head;
	size_t n;

	ck_assert(message_read_questions(text, &head, questions, &n, error));
	for (size_t i = 0; i < n; i++)
		if (questions[i].peer_port == port)
			return true;
	return false;
}

/* Users take turns: the one question of a user is in the next message, and not behind all those of another user. */
START_TEST(users_take_turns)
{
	struct rdmabroker *other = open_session(0);
	int listening = listen_as(OTHER), fds[3];
	struct question questions[QUESTIONS_MAX];
	char *texts[3];

	in_server(do_become_somebody, NULL);
	start_listening(server, 7472);
	start_listening(other, 7473);
	for (unsigned i = 0; i < 5 * QUESTIONS_MAX; i++)
		connect_from(OTHER, 7472);
	connect_from(OTHER, 7473);
	await_helper(7473);
	/*
	 * Two messages are on their way. Only one of them is answered: of two new ones, either can come first, because
	 * the helper may send one through a connection that close() ends, and has to send it once more.
	 */
	fds[0] = accept_questions(listening, &texts[0]);
	fds[1] = accept_questions(listening, &texts[1]);
	ck_assert(!asks_about(texts[0], 7473));
	ck_assert(!asks_about(texts[1], 7473));
	answer_all_in(fds[0], texts[0], questions);
	close(fds[0]);
	fds[2] = accept_questions(listening, &texts[2]);
	ck_assert(asks_about(texts[2], 7473));
	for (int i = 0; i < 3; i++)
		free(texts[i]);
	close(fds[1]);
	close(fds[2]);
	rdmabroker_close(other);
	close(listening);
}
END_TEST

/*
 * A broker that hangs does not take the answers. The helper does not wait for each of them: systemd would kill it, and
 * it could not answer other hosts.
 */
START_TEST(a_broker_that_hangs)
{
	const struct question question = { .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7472 };
	const struct message_head head = make_head(OTHER, HOST);
	int listening = listen_as(OTHER), fds[3], fd;
	struct question questions[QUESTIONS_MAX];
	char *texts[3], *sealed, *answer, *text;
	char error[SEAL_ERROR_MAX];
	size_t n;

	start_listening(server, 7472);
	for (unsigned i = 0; i < QUESTIONS_MAX + 2; i++)
		connect_from(OTHER, 7472);
	await_helper(7472);
	fds[0] = accept_questions(listening, &texts[0]);
	fds[1] = accept_questions(listening, &texts[1]);
	answer_all_in(fds[0], texts[0], questions);
	close(fds[0]);
	fds[2] = accept_questions(listening, &texts[2]);
	hang_server();
	n = answer_all_in(fds[2], texts[2], questions);
	ck_assert_uint_ge(n, 8);

	text = message_ask(&head, &question, 1);
	sealed = seal_text(text);
	fd = dial_peerd(OTHER);
	send_text(fd, sealed);
	answer = receive_text(fd);
	ck_assert_ptr_nonnull(answer);
	free(text);
	text = seal_open(&peerd_test.seal, answer, error);
	ck_assert_msg(text && strstr(text, "rdmabrokerd does not answer there"), "%s", text);
	resume_server();
	free(text);
	free(answer);
	free(sealed);
	close(fd);
	for (int i = 0; i < 3; i++)
		free(texts[i]);
	close(fds[1]);
	close(fds[2]);
	close(listening);
}
END_TEST

#define MANY 1000

static void *answer_many(void *arg)
{
	size_t n = 0;

	while (n < MANY)
		n += answer_all(*(int *)arg);
	return NULL;
}

static void do_be_patient(void *unused)
{
	harness.core->inquiries->wait_ms = T;
}

/* While many are asked about, others are served, and all are decided about. */
START_TEST(many_questions)
{
	int listening = listen_as(OTHER);
	struct rdmabroker_status *status;
	pthread_t thread;

	in_server(do_be_patient, NULL);
	/* One address can have half of the backlog. */
	start_listening_with(server, 7472, 2 * MANY);
	start_listening(server, 7479);
	ck_assert_int_eq(pthread_create(&thread, NULL, answer_many, &listening), 0);
	for (unsigned i = 0; i < MANY; i++)
		connect_from(OTHER, 7472);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	/* The broker carries out the rejects as fast as the server reads what the broker sends. */
	for (unsigned i = 0; i < MANY; i++)
		reject_request();
	ck_assert_int_eq(rdmabroker_get_status(server, &status), 0);
	rdmabroker_free(status);
	for (unsigned i = 0; i < MANY; i++)
		expect_reject();
	connect_from(HOST, 7479);
	expect_request();
	close(listening);
}
END_TEST

PEERD_MAIN("peerd_crowd", set_up_asking, tear_down_asking, questions_share_messages,
	   users_take_turns, a_broker_that_hangs, many_questions)

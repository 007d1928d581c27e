/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/asking.h"

/* Another host lies, or is slow. */

/* What another host does with the questions TEXT. */
typedef void misbehave(int fd, const char *text);

/* Replies to the questions with OTHER_TEXT, sealed. */
static void send_sealed(int fd, const char *other_text)
{
	char *sealed = seal_text(other_text);

	send_text(fd, sealed);
	free(sealed);
}

static void send_with_head(int fd, const struct message_head *head)
{
	char *message = message_answer(
		head, json_loads("[{\"uid\": 1234, \"gids\": [], \"unit\": null}]", 0, NULL));

	send_sealed(fd, message);
	free(message);
}

static struct message_head head_of(const char *text)
{
	struct question questions[QUESTIONS_MAX];
	char error[MESSAGE_ERROR_MAX];
	struct message_head head;
	size_t n;

	ck_assert(message_read_questions(text, &head, questions, &n, error));
	return head;
}

static void with_another_nonce(int fd, const char *text)
{
	struct message_head head = head_of(text);

	ck_assert(message_set_nonce(&head));
	send_with_head(fd, &head);
}

static void from_another_host(int fd, const char *text)
{
	struct message_head head = head_of(text);

	strcpy(head.to, "10.9.0.8");
	send_with_head(fd, &head);
}

static void for_another_host(int fd, const char *text)
{
	struct message_head head = head_of(text);

	strcpy(head.from, "10.9.0.2");
	send_with_head(fd, &head);
}

static void reflect(int fd, const char *text)
{
	send_sealed(fd, text);
}

static void without_a_seal(int fd, const char *text)
{
	struct message_head head = head_of(text);
	char *message = message_answer(
		&head, json_loads("[{\"uid\": 1234, \"gids\": [], \"unit\": null}]", 0, NULL));

	send_text(fd, message);
	free(message);
}

static void with_another_key(int fd, const char *text)
{
	struct message_head head = head_of(text);
	char *message = message_answer(
		&head, json_loads("[{\"uid\": 1234, \"gids\": [], \"unit\": null}]", 0, NULL));
	char error[SEAL_ERROR_MAX], *sealed;

	if (!peerd_test.munged[1])
		start_munged(1);
	sealed = seal_close(&peerd_test.stranger, message, error);
	ck_assert_ptr_nonnull(sealed);
	send_text(fd, sealed);
	free(sealed);
	free(message);
}

static void two_answers(int fd, const char *text)
{
	reply(fd, text, "[{\"uid\": 1234, \"gids\": [], \"unit\": null}, {\"unknown\": \"\"}]");
}

static void no_answers(int fd, const char *text)
{
	reply(fd, text, "[]");
}

static void an_uid_that_is_none(int fd, const char *text)
{
	reply(fd, text, "[{\"uid\": 4294967295, \"gids\": [], \"unit\": null}]");
}

static void a_negative_uid(int fd, const char *text)
{
	reply(fd, text, "[{\"uid\": -1, \"gids\": [], \"unit\": null}]");
}

static void a_gid_that_is_none(int fd, const char *text)
{
	reply(fd, text, "[{\"uid\": 1234, \"gids\": [1, \"2\"], \"unit\": null}]");
}

static void too_many_gids(int fd, const char *text)
{
	static char answers[16384];
	size_t n = (size_t)sprintf(answers, "[{\"uid\": 1234, \"unit\": null, \"gids\": [0");

	for (int i = 0; i < 1024; i++)
		n += (size_t)sprintf(answers + n, ",%d", i);
	strcpy(answers + n, "]}]");
	reply(fd, text, answers);
}

static void a_unit_with_control_characters(int fd, const char *text)
{
	reply(fd, text, "[{\"uid\": 1234, \"gids\": [], \"unit\": \"a\\u001b[2J\"}]");
}

static void a_reason_with_control_characters(int fd, const char *text)
{
	reply(fd, text, "[{\"unknown\": \"a\\nb\"}]");
}

static void a_unit_that_is_too_long(int fd, const char *text)
{
	char answers[512];

	snprintf(answers, sizeof(answers), "[{\"uid\": 1234, \"gids\": [], \"unit\": \"%0256d\"}]",
		 0);
	reply(fd, text, answers);
}

static void nothing(int fd, const char *text)
{
	shutdown(fd, SHUT_RDWR);
}

static void garbage(int fd, const char *text)
{
	send_text(fd, "MUNGE:AwQFAAB2aGFja2Vk:");
}

static void too_long(int fd, const char *text)
{
	const uint32_t len = htonl(1 << 30);

	send_all(fd, &len, sizeof(len));
}

static void an_empty_text(int fd, const char *text)
{
	send_text(fd, "");
}

static void half_of_it(int fd, const char *text)
{
	const uint32_t len = htonl(1000);

	send_all(fd, &len, sizeof(len));
	send_all(fd, "MUNGE:", 6);
	shutdown(fd, SHUT_RDWR);
}

/* Stays open. */
static void silence(int fd, const char *text)
{
}

static void a_byte_and_silence(int fd, const char *text)
{
	send_all(fd, "", 1);
}

static const struct {
	const char *name, *why;
	misbehave *misbehave;
} lies[] = {
	{ "another nonce", "it answers other questions", with_another_nonce },
	{ "the answer of another host", "it is about other hosts", from_another_host },
	{ "the answer for another host", "it is about other hosts", for_another_host },
	{ "the questions themselves", "its kind is not answers", reflect },
	{ "no seal", "was refused: ", without_a_seal },
	{ "another key", "was refused: ", with_another_key },
	{ "two answers", "it has 2 answers to 1 questions", two_answers },
	{ "no answers", "it has 0 answers to 1 questions", no_answers },
	{ "uid 2^32-1", "says: something that is not valid", an_uid_that_is_none },
	{ "uid -1", "says: something that is not valid", a_negative_uid },
	{ "a gid that is a text", "says: something that is not valid", a_gid_that_is_none },
	{ "1025 gids", "says: something that is not valid", too_many_gids },
	{ "control characters", "says: something that is not valid",
	  a_unit_with_control_characters },
	{ "a line break", "says: something that is not valid", a_reason_with_control_characters },
	{ "a long unit", "says: something that is not valid", a_unit_that_is_too_long },
	{ "nothing", "does not answer", nothing },
	{ "garbage", "was refused: ", garbage },
	{ "a length of 1 GiB", "it is too long or empty", too_long },
	{ "an empty text", "it is too long or empty", an_empty_text },
	{ "half of it", "does not answer", half_of_it },
	/* On a busy machine the broker's own limit of 2 s can be first. */
	{ "silence", "has not answered", silence },
	{ "a byte and silence", "has not answered", a_byte_and_silence },
};

START_TEST(answers_that_are_refused)
{
	int listening = listen_as(OTHER);

	start_listening(server, 7472);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		char *text;
		int fd;

		connect_from(OTHER, 7472);
		fd = accept_questions(listening, &text);
		lies[i].misbehave(fd, text);
		printf("%s: %s\n", lies[i].name, lies[i].why);
		expect_reject();
		expect_unknown("accept", lies[i].why);
		close(fd);
		free(text);
	}
	/* It goes on. */
	connect_from(OTHER, 7472);
	answer(listening, "[{\"uid\": 1234, \"gids\": [], \"unit\": null}]");
	expect_request();
	close(listening);
}
END_TEST

/* The answer to a question that was asked before, with its seal. */
START_TEST(an_answer_is_not_used_again)
{
	int listening = listen_as(OTHER), fd;
	struct message_head head;
	char *text, *message, *sealed;

	start_listening(server, 7472);
	connect_from(OTHER, 7472);
	fd = accept_questions(listening, &text);
	head = head_of(text);
	message = message_answer(
		&head, json_loads("[{\"uid\": 1234, \"gids\": [], \"unit\": null}]", 0, NULL));
	sealed = seal_text(message);
	send_text(fd, sealed);
	expect_request();
	close(fd);
	free(text);
	rdmabroker_free(expect_decision("accept"));

	connect_from(OTHER, 7472);
	fd = accept_questions(listening, &text);
	send_text(fd, sealed);
	expect_reject();
	expect_unknown("accept", "its seal was used before");
	close(fd);
	free(text);
	free(sealed);
	free(message);
	close(listening);
}
END_TEST

PEERD_MAIN("peerd_answers", set_up_asking, tear_down_asking, answers_that_are_refused,
	   an_answer_is_not_used_again)

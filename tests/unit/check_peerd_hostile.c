/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <grp.h>
#include <munge.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/answering.h"

#define NOBODY 65534

/* Other hosts ask rdmabroker-peerd, and attack it. After each attack a right question is answered. */

/* ---- right questions ---- */

START_TEST(who_connects_and_who_listens)
{
	struct question question = question_about_client();

	expect_answer(HOST, &question, my_uid());
	question.qpn = 0; /* not known */
	expect_answer(HOST, &question, my_uid());
	question.qpn = 18;
	expect_answer(HOST, &question, "\"unknown\":\"no program of rdmabrokerd");
	question = question_about_client();
	question.ps = RDMABROKER_PS_UDP;
	expect_answer(HOST, &question, "\"unknown\"");
	question = question_about_client();
	question.port++;
	expect_answer(HOST, &question, "\"unknown\"");
	question = question_about_client();
	question.peer_port++;
	expect_answer(HOST, &question, "\"unknown\"");
	/* A host is told about its own connections only. */
	question = question_about_client();
	expect_answer(OTHER, &question, "\"unknown\"");
	/* Whoever may connect here may know who listens. */
	question = (struct question){ .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 };
	expect_answer(OTHER, &question, my_uid());
	question.port = 7480;
	expect_answer(OTHER, &question, "\"unknown\"");
}
END_TEST

/* The number of the helper's session WHICH. */
static uint64_t number_of_helper(struct rdmabroker *admin, int which)
{
	struct rdmabroker_list *list;
	uint64_t number = 0;

	ck_assert_int_eq(rdmabroker_get_list(admin, 0, &list), 0);
	for (size_t i = 0; i < list->n_sessions; i++)
		if (list->sessions[i].who.pid == peerd_test.peerd && which-- == 0)
			number = list->sessions[i].number;
	rdmabroker_free(list);
	ck_assert_uint_ne(number, 0);
	return number;
}

/* The helper has two sessions. If one of them ends, both are opened again. */
START_TEST(sessions_that_end)
{
	struct rdmabroker *admin = open_session(0);

	for (int which = 0; which < 2; which++) {
		unsigned before = n_logged("gives its questions");

		ck_assert_int_eq(rdmabroker_kick(admin, number_of_helper(admin, which), 0), 0);
		AWAIT(n_logged("gives its questions") != before, "the sessions of the helper");
		expect_right_answer();
	}
	rdmabroker_close(admin);
}
END_TEST

/* ---- attacks with one message ---- */

/* FD is a connection from OTHER, which RIGHT would be a right message for. */
typedef void attack(int fd, const char *right);

static void send_unsealed(int fd, const char *right)
{
	send_text(fd, right);
}

static void send_garbage(int fd, const char *right)
{
	send_text(fd, "GET / HTTP/1.1\r\n\r\n");
}

static void send_empty(int fd, const char *right)
{
	send_text(fd, "");
}

static void send_long(int fd, const char *right)
{
	const uint32_t len = htonl(UINT32_MAX);

	send_all(fd, &len, sizeof(len));
}

static void send_zero_bytes(int fd, const char *right)
{
	static const char zero[1000];
	const uint32_t len = htonl(sizeof(zero));

	send_all(fd, &len, sizeof(len));
	send_all(fd, zero, sizeof(zero));
}

/* Seals RIGHT with these options of MUNGE; -1: the default. */
static char *munge(const char *socket, const char *right, int cipher, int ttl, int uid)
{
	munge_ctx_t context = munge_ctx_create();
	char *sealed = NULL;

	munge_ctx_set(context, MUNGE_OPT_SOCKET, socket);
	if (cipher >= 0)
		munge_ctx_set(context, MUNGE_OPT_CIPHER_TYPE, cipher);
	if (ttl >= 0)
		munge_ctx_set(context, MUNGE_OPT_TTL, ttl);
	if (uid >= 0)
		munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, uid);
	ck_assert_int_eq(munge_encode(&sealed, context, right, (int)strlen(right)), EMUNGE_SUCCESS);
	munge_ctx_destroy(context);
	return sealed;
}

static void send_and_free(int fd, char *sealed)
{
	send_text(fd, sealed);
	free(sealed);
}

static void send_with_another_key(int fd, const char *right)
{
	if (!peerd_test.munged[1])
		start_munged(1);
	send_and_free(fd, munge(peerd_test.stranger.socket, right, -1, -1, -1));
}

static void send_without_encryption(int fd, const char *right)
{
	send_and_free(fd, munge(peerd_test.seal.socket, right, MUNGE_CIPHER_NONE, -1, -1));
}

static void send_for_another_user(int fd, const char *right)
{
	send_and_free(fd, munge(peerd_test.seal.socket, right, -1, -1, NOBODY));
}

/* As any user of any host of the cluster can. */
static void send_from_another_user(int fd, const char *right)
{
	int pipes[2], status;
	char sealed[8192] = "";
	size_t n = 0;
	ssize_t more;
	pid_t pid;

	ck_assert_int_eq(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		char *text;

		if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
			_exit(1);
		text = munge(peerd_test.seal.socket, right, -1, -1, 0);
		_exit(write(pipes[1], text, strlen(text)) < 0);
	}
	close(pipes[1]);
	while ((more = read(pipes[0], sealed + n, sizeof(sealed) - 1 - n)) > 0)
		n += (size_t)more;
	close(pipes[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	send_text(fd, sealed);
}

/* Waits until a second of the clock that MUNGE uses has passed. */
static void send_too_late(int fd, const char *right)
{
	char *sealed = munge(peerd_test.seal.socket, right, -1, /* ttl= */ 1, -1);
	const struct timespec until = { .tv_sec = time(NULL) + 3 };
	int other;

	clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
	/* The connection that has waited was closed. */
	other = dial_peerd(OTHER);
	dup2(other, fd);
	close(other);
	send_and_free(fd, sealed);
}

static void send_json(int fd, const char *json)
{
	send_and_free(fd, seal_text(json));
}

static void send_no_json(int fd, const char *right)
{
	send_json(fd, "{\"version\": 1");
}

static void send_an_array(int fd, const char *right)
{
	send_json(fd, "[]");
}

static void send_another_version(int fd, const char *right)
{
	send_json(fd, "{\"version\": 2, \"kind\": \"questions\"}");
}

static void send_answers(int fd, const char *right)
{
	const struct message_head head = make_head(OTHER, HOST);
	char *text = message_answer(&head, json_array());

	send_json(fd, text);
	free(text);
}

static void send_duplicates(int fd, const char *right)
{
	send_json(fd, "{\"version\": 1, \"kind\": \"answers\", \"kind\": \"questions\"}");
}

static void send_deep(int fd, const char *right)
{
	char text[8000];

	memset(text, '[', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	send_json(fd, text);
}

static void send_head(int fd, const char *from, const char *to)
{
	const struct question question = { .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 };
	char *text = make_question(from, to, &question);

	send_json(fd, text);
	free(text);
}

static void send_as_another_host(int fd, const char *right)
{
	send_head(fd, HOST, HOST);
}

static void send_for_another_host(int fd, const char *right)
{
	send_head(fd, OTHER, "10.9.0.8");
}

static void send_no_addresses(int fd, const char *right)
{
	send_head(fd, "", "");
}

static void send_too_many(int fd, const char *right)
{
	struct question questions[QUESTIONS_MAX + 1];
	const struct message_head head = make_head(OTHER, HOST);
	char *text;

	for (size_t i = 0; i < QUESTIONS_MAX + 1; i++)
		questions[i] =
			(struct question){ .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 };
	text = message_ask(&head, questions, QUESTIONS_MAX + 1);
	send_json(fd, text);
	free(text);
}

/* Sends one question with these members. */
static void send_members(int fd, const char *members)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "{\"version\": 1, \"kind\": \"questions\", \"nonce\": \"0\", \"from\": \"" OTHER
		 "\", \"to\": \"" HOST "\", \"questions\": [{%s}]}",
		 members);
	send_json(fd, text);
}

static void send_no_members(int fd, const char *right)
{
	send_members(fd, "");
}

static void send_a_large_port(int fd, const char *right)
{
	send_members(fd, "\"who\": \"listens\", \"ps\": 262, \"port\": 65536, \"peer_port\": 0, "
			 "\"qpn\": 0");
}

static void send_a_negative_ps(int fd, const char *right)
{
	send_members(fd, "\"who\": \"listens\", \"ps\": -262, \"port\": 7479, \"peer_port\": 0, "
			 "\"qpn\": 0");
}

static void send_a_real_number(int fd, const char *right)
{
	send_members(fd, "\"who\": \"listens\", \"ps\": 262, \"port\": 7479.0, \"peer_port\": 0, "
			 "\"qpn\": 0");
}

static void send_another_who(int fd, const char *right)
{
	send_members(fd, "\"who\": \"both\", \"ps\": 262, \"port\": 7479, \"peer_port\": 0, "
			 "\"qpn\": 0");
}

static void send_a_long_nonce(int fd, const char *right)
{
	char text[1024];

	snprintf(
		text, sizeof(text),
		"{\"version\": 1, \"kind\": \"questions\", \"nonce\": \"%033d\", \"from\": \"" OTHER
		"\", \"to\": \"" HOST "\", \"questions\": []}",
		0);
	send_json(fd, text);
}

static void send_a_piece(int fd, const char *right)
{
	char *sealed = seal_text(right);
	const uint32_t len = htonl((uint32_t)strlen(sealed));

	send_all(fd, &len, sizeof(len));
	send_all(fd, sealed, strlen(sealed) / 2);
	free(sealed);
}

static void send_a_byte(int fd, const char *right)
{
	send_all(fd, "", 1);
}

static void send_nothing(int fd, const char *right)
{
}

static const struct {
	const char *name;
	const char *why; /* a part of the line in the log */
	attack *attack;
	bool needs_root;
} attacks[] = {
	{ "no seal", "Refused the questions of 10.9.0.7: ", send_unsealed, false },
	{ "garbage", "Refused the questions of 10.9.0.7: ", send_garbage, false },
	{ "an empty message", "it is too long or empty", send_empty, false },
	{ "a length of 4 GiB", "it is too long or empty", send_long, false },
	{ "zero bytes", "Refused the questions of 10.9.0.7: ", send_zero_bytes, false },
	{ "another key", "Refused the questions of 10.9.0.7: ", send_with_another_key, false },
	{ "no encryption", "its seal is not encrypted", send_without_encryption, false },
	{ "a seal for another user", "its seal is for another uid", send_for_another_user, false },
	{ "a seal of another user", "its seal is from another uid", send_from_another_user, true },
	{ "an old seal", "its seal is too old", send_too_late, false },
	{ "half a JSON text", "it is no JSON object", send_no_json, false },
	{ "an array", "it is no JSON object", send_an_array, false },
	{ "another version", "its version is not 1", send_another_version, false },
	{ "answers", "its kind is not questions", send_answers, false },
	{ "two kinds", "it is no JSON object", send_duplicates, false },
	{ "7,999 brackets", "it is no JSON object", send_deep, false },
	{ "another host's address", "its sender is not the host that has sent it",
	  send_as_another_host, false },
	{ "for another host", "it is for another host or another address", send_for_another_host,
	  false },
	{ "no addresses", "its sender is not the host that has sent it", send_no_addresses, false },
	{ "33 questions", "it has no list of at most 32 questions", send_too_many, false },
	{ "a question without members", "question 1 is not valid", send_no_members, false },
	{ "port 65536", "question 1 is not valid", send_a_large_port, false },
	{ "a negative port space", "question 1 is not valid", send_a_negative_ps, false },
	{ "port 7479.0", "question 1 is not valid", send_a_real_number, false },
	{ "who: both", "question 1 is not valid", send_another_who, false },
	{ "a nonce of 33 digits", "it has no nonce, from and to", send_a_long_nonce, false },
	{ "half a message", "it did not come in time", send_a_piece, false },
	{ "a byte", "it did not come in time", send_a_byte, false },
	{ "nothing", "it did not come in time", send_nothing, false },
};

/* Each attack has a program of its own, because the lines of the log are limited. */
START_TEST(messages_that_are_refused)
{
	const struct question question = { .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 };

	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		char *right = make_question(OTHER, HOST, &question), *answer;
		int fd;

		if (attacks[i].needs_root && !peerd_test.is_root) {
			printf("%s: skipped, because only root can become another user\n",
			       attacks[i].name);
			continue;
		}
		stop_peerd();
		unlink(peerd_test.log);
		start_peerd();
		fd = dial_peerd(OTHER);
		attacks[i].attack(fd, right);
		answer = receive_text(fd);
		ck_assert_msg(!answer, "%s is answered", attacks[i].name);
		close(fd);
		assert_logged(attacks[i].why);
		expect_right_answer();
		printf("%s: refused, %s\n", attacks[i].name, attacks[i].why);
		free(right);
	}
}
END_TEST

START_TEST(a_replay)
{
	const struct question question = { .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 };
	char *right = make_question(OTHER, HOST, &question), *sealed = seal_text(right), *answer;
	int fd = dial_peerd(OTHER);

	send_text(fd, sealed);
	answer = receive_text(fd);
	ck_assert_ptr_nonnull(answer);
	free(answer);
	close(fd);
	fd = dial_peerd(OTHER);
	send_text(fd, sealed);
	ck_assert_ptr_null(receive_text(fd));
	close(fd);
	assert_logged("its seal was used before");
	free(sealed);
	free(right);
	expect_right_answer();
}
END_TEST

/* A connection that is kept proves nothing about what comes through it later. */
START_TEST(a_connection_that_is_kept)
{
	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		const struct question question = question_about_client();
		char *right = make_question(OTHER, HOST, &question), *text;
		int fd = dial_peerd(OTHER);

		ck_assert(is_answered(fd));
		ck_assert(is_answered(fd));
		/* It may be silent for longer than one that is new. */
		if (!strstr(attacks[i].why, "in time") &&
		    (!attacks[i].needs_root || peerd_test.is_root)) {
			attacks[i].attack(fd, right);
			text = receive_text(fd);
			ck_assert_msg(!text, "%s is answered", attacks[i].name);
		}
		close(fd);
		free(right);
	}
	expect_right_answer();
}
END_TEST

/* ---- users who choose names ---- */

/* A user chooses the names of his control groups. They concern only the answers about him. */
START_TEST(names_that_are_not_printable)
{
	static const char *const names[] = { "a\x01", "a\nb", "\xff\xfe", "a\x1b[2J" };
	const struct message_head head = make_head(HOST, OTHER);
	struct rdmabroker_who who = { .uid = 1000, .knows_workload = true, .unit = "a.service" };
	char error[MESSAGE_ERROR_MAX], *text;
	struct answers answers;
	json_t *list;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		list = json_array();
		json_array_append_new(list, message_new_answer(&who));
		who.job = who.cgroup = names[i];
		json_array_append_new(list, message_new_answer(&who));
		who.job = NULL;
		json_array_append_new(list, message_new_answer(&who));
		who.cgroup = NULL;
		json_array_append_new(list, json_pack("{s:i}", "uid", 1));
		text = message_answer(&head, list);
		ck_assert_msg(message_read_answers(text, &head, 4, &answers, error), "%s", error);
		ck_assert_str_eq(answers.list[0].who.unit, "a.service");
		ck_assert(!answers.list[1].unknown && !answers.list[1].who.knows_workload);
		ck_assert_str_eq(answers.list[2].who.unit, "a.service");
		ck_assert_str_eq(answers.list[3].unknown, "something that is not valid");
		answers_done(&answers);
		free(text);
	}
}
END_TEST

PEERD_MAIN("peerd_hostile", set_up_answering, tear_down_answering, who_connects_and_who_listens,
	   sessions_that_end, messages_that_are_refused, a_replay, a_connection_that_is_kept,
	   names_that_are_not_printable)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/answering.h"

struct rdmabroker *server, *client;
struct rdmabroker_id *connecting;

void set_up_answering(void)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };

	set_up_peerd();
	start_peerd();
	server = open_session(0);
	client = open_session(0);
	start_listening(server, 7479);
	connecting = resolve(client, 7479);
	ck_assert_int_eq(rdmabroker_connect(connecting, &param), 0);
	rdmabroker_free_event(expect(server, RDMABROKER_EVENT_CONNECT_REQUEST));
}

void tear_down_answering(void)
{
	rdmabroker_close(server);
	rdmabroker_close(client);
	tear_down_peerd();
}

struct question question_about_client(void)
{
	return (struct question){ .ps = RDMABROKER_PS_TCP,
				  .port = rdmabroker_get_local_port(connecting),
				  .peer_port = 7479,
				  .qpn = 17 };
}

char *make_question(const char *from, const char *to, const struct question *question)
{
	const struct message_head head = make_head(from, to);

	return message_ask(&head, question, 1);
}

char *ask_through(int fd, const char *questions)
{
	char *sealed = seal_text(questions), error[SEAL_ERROR_MAX], *answer, *text = NULL;

	send_text(fd, sealed);
	answer = receive_text(fd);
	if (answer) {
		text = seal_open(&peerd_test.seal, answer, error);
		ck_assert_msg(text != NULL, "%s", error);
	}
	free(answer);
	free(sealed);
	return text;
}

char *ask(const char *from, const char *questions)
{
	int fd = dial_peerd(from);
	char *text = ask_through(fd, questions);

	close(fd);
	return text;
}

void expect_answer(const char *from, const struct question *question, const char *part)
{
	char *questions = make_question(from, HOST, question);
	char *text = ask(from, questions);

	ck_assert_msg(text && strstr(text, part), "no '%s' in '%s'", part, text ?: "nothing");
	free(text);
	free(questions);
}

const char *my_uid(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "\"uid\":%u", geteuid());
	return text;
}

void expect_right_answer(void)
{
	const struct question question = question_about_client();

	expect_answer(HOST, &question, my_uid());
}

bool is_answered(int fd)
{
	const struct question question = { .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 };
	char *right = make_question(OTHER, HOST, &question), *text = ask_through(fd, right);

	free(right);
	free(text);
	return text;
}

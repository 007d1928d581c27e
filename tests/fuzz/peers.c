/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "peerd/message.h"
#include "tests/fuzz/fuzz.h"

/*
 * The input is a message of another host's rdmabroker-peerd, after its seal was opened: questions to this host, or the
 * answers to one question. What is accepted must be within the limits of message.h.
 */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

static bool is_clean(const char *text)
{
	for (; text && *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

static void check_name(const char *name)
{
	must(!name || (strlen(name) <= 255 && is_clean(name)));
}

static void try_questions(const char *text)
{
	struct question questions[QUESTIONS_MAX];
	char error[MESSAGE_ERROR_MAX] = "";
	struct message_head head;
	size_t n;

	if (!message_read_questions(text, &head, questions, &n, error)) {
		must(*error && is_clean(error));
		return;
	}
	must(n <= QUESTIONS_MAX);
	must(strlen(head.nonce) < NONCE_MAX && strlen(head.from) < 64 && strlen(head.to) < 64);
	for (size_t i = 0; i < n; i++)
		must(questions[i].ps >= 0);
}

static void try_answers(const char *text)
{
	static const struct message_head head = { .nonce = "0",
						  .from = "10.0.0.1",
						  .to = "10.0.0.2" };
	char error[MESSAGE_ERROR_MAX] = "";
	struct answers answers;

	if (message_read_answers(text, &head, 1, &answers, error)) {
		const struct answer *one = &answers.list[0];

		must(answers.n == 1);
		must(one->unknown || one->who.uid != UINT32_MAX);
		must(one->unknown || one->who.n_gids <= 1024);
		must(is_clean(one->unknown));
		check_name(one->who.unit);
		check_name(one->who.container);
		check_name(one->who.pod);
		check_name(one->who.job);
		check_name(one->who.cgroup);
	} else {
		must(*error && is_clean(error));
	}
	answers_done(&answers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	/* seal_open() refuses zero bytes. */
	if (size > 65536 || memchr(data, 0, size))
		return 0;
	text = calloc(1, size + 1);
	must(text != NULL);
	memcpy(text, data, size);
	try_questions(text);
	try_answers(text);
	free(text);
	return 0;
}

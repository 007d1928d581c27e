/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/answering.h"

/* How rdmabroker-peerd starts, and what it does without munged and without a broker. */

START_TEST(without_munged_and_without_a_broker)
{
	const struct question question = question_about_client();
	char *right, *sealed;
	int fd;

	right = make_question(HOST, HOST, &question);
	sealed = seal_text(right);
	stop_munged(0);
	fd = dial_peerd(HOST);
	send_text(fd, sealed);
	ck_assert_ptr_null(receive_text(fd));
	close(fd);
	free(sealed);
	free(right);
	start_munged(0);
	expect_right_answer();
	stop_server();
	expect_answer(HOST, &question, "\"unknown\":\"rdmabrokerd does not answer there\"");
}
END_TEST

/* The answer that comes too late does not end the session. */
START_TEST(a_broker_that_hangs)
{
	const struct question question = question_about_client();

	hang_server();
	expect_answer(HOST, &question, "\"unknown\":\"rdmabrokerd does not answer there\"");
	resume_server();
	expect_right_answer();
	ck_assert_uint_eq(n_logged("has ended"), 0);
	ck_assert_uint_eq(n_logged("gives its questions to this process"), 1);
}
END_TEST

#define RUN(...) run_peerd((const char *const[]){ __VA_ARGS__, NULL })

START_TEST(options_and_configuration)
{
	char path[160];
	FILE *f;
	int taken;

	ck_assert_int_eq(RUN("--help"), 0);
	assert_logged("rdmabroker-peerd [OPTION ...]\n");
	ck_assert_int_eq(RUN("--version"), 0);
	assert_logged("rdmabroker-peerd 0.");
	ck_assert_int_eq(RUN("--no-such"), 2);
	assert_logged("see rdmabroker-peerd --help");
	ck_assert_int_eq(RUN("extra"), 2);
	assert_logged("unexpected argument 'extra'");
	ck_assert_int_eq(RUN("--config", "/dev/null", "--socket", "relative"), 2);
	assert_logged("--socket takes an absolute path of at most 107 bytes");
	ck_assert_int_eq(RUN("--config", "/dev/null", "--listen", "localhost:1"), 2);
	assert_logged(
		"--listen takes HOST:PORT, [HOST]:PORT or :PORT (every address of this host), not "
		"\"localhost:1\"");
	ck_assert_int_eq(RUN("--config", "/dev/null", "--listen", "/run/peerd.sock"), 2);
	assert_logged("(every address of this host), not \"/run/peerd.sock\"");
	ck_assert_int_eq(RUN("--config", "/no/such/file"), 78);
	assert_logged("Cannot read /no/such/file");
	snprintf(path, sizeof(path), "%s/peerd.conf", harness.dir);
	f = fopen(path, "we");
	fputs("[Peers]\nPort=0\nSocket=here\nUser=me\n", f);
	fclose(f);
	ck_assert_int_eq(RUN("--config", path), 78);
	assert_logged("peerd.conf:2:6: Port= takes a number from 1 to 65535");
	assert_logged("peerd.conf:3:8: Socket= takes an absolute path of at most 107 bytes");
	assert_logged("peerd.conf:4:1: unknown key 'User' in section [Peers]");
	/* The port is taken. */
	stop_peerd();
	taken = listen_as(HOST);
	ck_assert_int_eq(RUN("--config", "/dev/null", "--listen", HOST ":9472"), 1);
	assert_logged("Cannot listen on 10.9.0.1:9472: Address already in use");
	close(taken);
	start_peerd();
}
END_TEST

/* systemd keeps the socket while the program is restarted: who connects meanwhile is answered. */
START_TEST(a_socket_of_systemd)
{
	const struct question question = question_about_client();
	char *right, *sealed, *answer;
	int listening, fd;

	stop_peerd();
	listening = listen_as(HOST);
	start_peerd_with_socket(listening);
	expect_answer(HOST, &question, my_uid());
	stop_peerd();
	right = make_question(HOST, HOST, &question);
	sealed = seal_text(right);
	fd = dial_peerd(HOST);
	send_text(fd, sealed);
	start_peerd_with_socket(listening);
	answer = receive_text(fd);
	ck_assert_ptr_nonnull(answer);
	free(answer);
	free(sealed);
	free(right);
	close(fd);
	close(listening);
}
END_TEST

PEERD_MAIN("peerd_life", set_up_answering, tear_down_answering, without_munged_and_without_a_broker,
	   a_broker_that_hangs, options_and_configuration, a_socket_of_systemd)

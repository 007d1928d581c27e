/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/answering.h"

/* More connections than rdmabroker-peerd serves, and connections that keep it waiting. */

static bool is_closed(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Connections of one address that send nothing: only 16 stay, and others are answered. */
START_TEST(silent_connections_of_one_address)
{
	int fds[100], kept = dial_peerd(OTHER);
	unsigned n_open;

	ck_assert(is_answered(kept));
	for (int i = 0; i < 100; i++)
		fds[i] = dial_peerd(OTHER);
	/* They do not drive out one that has proved who it is. */
	ck_assert(is_answered(kept));
	close(kept);
	/* The helper of that host sends its question at once, and is answered. */
	expect_answer(OTHER,
		      &(struct question){ .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 },
		      my_uid());
	expect_right_answer();
	n_open = 0;
	for (int i = 0; i < 100; i++)
		n_open += !is_closed(fds[i]);
	ck_assert_uint_le(n_open, 16);
	for (int i = 0; i < 100; i++) {
		ck_assert_ptr_null(receive_text(fds[i]));
		close(fds[i]);
	}
	/* When they are gone, this address can ask again. */
	expect_answer(OTHER,
		      &(struct question){ .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 },
		      my_uid());
	ck_assert_uint_le(n_logged("Refused"), 10);
}
END_TEST

/* Those of many addresses: the oldest is closed for the newest. */
START_TEST(silent_connections_of_many_addresses)
{
	int fds[600];
	char host[32];

	for (int i = 0; i < 600; i++) {
		snprintf(host, sizeof(host), "10.7.%d.1", i / 8);
		fds[i] = dial_peerd(host);
	}
	expect_right_answer();
	ck_assert(is_closed(fds[0]));
	for (int i = 0; i < 600; i++)
		close(fds[i]);
	expect_right_answer();
	assert_logged("this one had not sent its questions");
	ck_assert_uint_le(n_logged("Refused"), 20);
}
END_TEST

/* Connections that are kept leave room for new ones, of their own address and of others. */
START_TEST(many_connections_that_are_kept)
{
	const struct question question = { .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 };
	int kept[280], fds[8];
	char host[32];

	for (int i = 0; i < 280; i++) {
		char *right, *text;

		snprintf(host, sizeof(host), "10.%d.%d.1", 20 + i / 250, i % 250);
		if (i < 16)
			strcpy(host, OTHER);
		right = make_question(host, HOST, &question);
		kept[i] = dial_peerd(host);
		text = ask_through(kept[i], right);
		ck_assert_ptr_nonnull(text);
		free(text);
		free(right);
	}
	for (int i = 0; i < 8; i++)
		fds[i] = dial_peerd(OTHER);
	for (int i = 0; i < 8; i++) {
		ck_assert(is_answered(fds[i]));
		close(fds[i]);
	}
	ck_assert(!is_closed(kept[279]));
	for (int i = 0; i < 280; i++)
		close(kept[i]);
	ck_assert_uint_eq(n_logged("Refused"), 0);
}
END_TEST

START_TEST(a_flood_of_garbage)
{
	for (int i = 0; i < 1000; i++) {
		int fd = dial_peerd(OTHER);

		send_text(fd, "GET / HTTP/1.1\r\n\r\n");
		close(fd);
		if (i % 100 == 0)
			expect_right_answer();
	}
	expect_right_answer();
	ck_assert_uint_le(n_logged("Refused"), 30);
}
END_TEST

/* A host that reads its answers slowly, or not at all, keeps nobody from his. */
START_TEST(hosts_that_do_not_read)
{
	const struct question question = { .listens = true, .ps = RDMABROKER_PS_TCP, .port = 7479 };
	int fds[16];

	for (int i = 0; i < 16; i++) {
		char *right = make_question(OTHER, HOST, &question), *sealed = seal_text(right);

		fds[i] = dial_peerd(OTHER);
		send_text(fds[i], sealed);
		free(sealed);
		free(right);
	}
	expect_right_answer();
	for (int i = 0; i < 16; i++)
		close(fds[i]);
}
END_TEST

PEERD_MAIN("peerd_floods", set_up_answering, tear_down_answering, silent_connections_of_one_address,
	   silent_connections_of_many_addresses, many_connections_that_are_kept, a_flood_of_garbage,
	   hosts_that_do_not_read)

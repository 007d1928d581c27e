/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peerd/gate.h"
#include "proto/addr.h"
#include "proto/clock.h"
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

static unsigned count_munged_lines(void)
{
	char path[160];
	FILE *log;
	unsigned n = 0;
	int c;

	snprintf(path, sizeof(path), "%s/munged-err-0", harness.dir);
	log = fopen(path, "re");
	ck_assert_ptr_nonnull(log);
	while ((c = fgetc(log)) != EOF)
		n += c == '\n';
	fclose(log);
	return n;
}

/* Sends TEXT N times, from OTHER or in turn from N_HOSTS others. Returns how many lines munged has written meanwhile. */
static unsigned flood(unsigned n_hosts, const char *text, unsigned n)
{
	unsigned before = count_munged_lines();
	char host[32];

	for (unsigned i = 0; i < n; i++) {
		int fd;

		snprintf(host, sizeof(host), "10.6.0.%u", n_hosts ? i % n_hosts : 0);
		fd = dial_peerd(n_hosts ? host : OTHER);
		send_text(fd, text);
		ck_assert_ptr_null(receive_text(fd));
		close(fd);
	}
	return count_munged_lines() - before;
}

START_TEST(what_is_no_credential_is_not_for_munged)
{
	static const char *const texts[] = {
		"GET / HTTP/1.1\r\n\r\n", "MUNGE:",           "MUNGE::",     "MUNGE:AAA:",
		"MUNGE:AAA=====:",        "MUNGE:AA=A:",      "MUNGE:AAAA",  "MUNGE:AAAA:\n",
		" MUNGE:AAAA:",           "MUNGE:AAAA:BBBB:", "munge:AAAA:", "MUNGE:AA A:",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		ck_assert_uint_eq(flood(0, texts[i], 5), 0);
	assert_logged("it is no credential of MUNGE");
	expect_right_answer();
}
END_TEST

static bool is_new_one_answered(void)
{
	int fd = dial_peerd(OTHER);
	bool is = is_answered(fd);

	close(fd);
	return is;
}

/* Nobody can make munged write more, and those are answered who have asked before, and those of another address. */
START_TEST(a_flood_of_wrong_credentials)
{
	int64_t begin = now_ms();
	int kept = dial_peerd(OTHER);
	unsigned n, of_many;

	ck_assert(is_answered(kept));
	n = flood(0, "MUNGE:AwQDAAAA:", 1000);
	ck_assert(is_answered(kept));
	close(kept);
	expect_right_answer();
	ck_assert_uint_gt(n, 0);
	ck_assert_msg(n <= GATE_OF_ADDRESS_MAX * (2 + (now_ms() - begin) / GATE_MS),
		      "munged has written %u lines", n);

	begin = now_ms();
	of_many = flood(200, "MUNGE:AwQDAAAA:", 4000);
	ck_assert_msg(of_many <= GATE_MAX * (2 + (now_ms() - begin) / GATE_MS),
		      "munged has written %u lines", of_many);
	fprintf(stderr, "munged has written %u and %u lines.\n", n, of_many);
	AWAIT(is_new_one_answered(), "an answer after the flood");
}
END_TEST

static struct sockaddr_storage from_text(const char *host)
{
	struct sockaddr_storage addr;

	ck_assert(addr_parse(&addr, host, 1));
	return addr;
}

static const char *pass(struct gate *gate, const char *host, struct gate_text *text)
{
	struct sockaddr_storage from = from_text(host);

	return gate_check(gate, "MUNGE:AAAA:", (struct sockaddr *)&from, text);
}

START_TEST(which_addresses_are_one)
{
	struct gate gate;
	struct gate_text text;

	/* A period that does not end while the test runs. */
	gate = (struct gate){ .begin_ms = INT64_MAX / 2 };
	for (int i = 0; i < GATE_OF_ADDRESS_MAX; i++) {
		ck_assert_ptr_null(pass(&gate, i % 2 ? "fd00::1" : "fd00::2:0:0:1", &text));
		ck_assert_ptr_null(pass(&gate, i % 2 ? "127.0.0.1" : "::ffff:127.9.0.1", &text));
		ck_assert_ptr_null(pass(&gate, i % 2 ? "10.0.0.1" : "::ffff:10.0.0.1", &text));
	}
	ck_assert_ptr_nonnull(pass(&gate, "fd00::3", &text));
	ck_assert_ptr_nonnull(pass(&gate, "127.0.0.3", &text));
	ck_assert_str_eq(pass(&gate, "10.0.0.1", &text), "too many wrong messages of this address");
	ck_assert_ptr_null(pass(&gate, "10.0.0.2", &text));
	ck_assert_ptr_null(pass(&gate, "fd00:0:0:1::1", &text));
	/* A right one does not count, whichever address is the last one of the list. */
	for (int i = 0; i < 1000; i++) {
		ck_assert_ptr_null(pass(&gate, "10.0.0.3", &text));
		gate_was_right(&gate, &text);
	}
	gate_was_right(&gate, &(struct gate_text){ 0 });
	for (int i = 0; i < GATE_MAX - 3 * GATE_OF_ADDRESS_MAX - 2; i++)
		ck_assert_ptr_null(pass(&gate, i % 2 ? "10.0.0.4" : "10.0.0.5", &text));
	ck_assert_str_eq(pass(&gate, "10.0.0.6", &text), "too many wrong messages");
	ck_assert_ptr_null(gate_check(&gate, "MUNGE:AAAA:", NULL, &text));
	ck_assert_ptr_nonnull(gate_check(&gate, "MUNGE:AAAA", NULL, &text));
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
	   what_is_no_credential_is_not_for_munged, a_flood_of_wrong_credentials,
	   which_addresses_are_one, hosts_that_do_not_read)

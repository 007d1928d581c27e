/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/fds.h"
#include "tests/unit/unit.h"
#include "proto/packet.h"

static int pair[2];

static void set_up(void)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void tear_down(void)
{
	close(pair[0]);
	close(pair[1]);
}

/* Sends a packet that can be larger, and have more descriptors, than packet_send() allows. */
static void send_raw(const void *data, size_t len, unsigned n_fds)
{
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = { 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		for (unsigned i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &pair[0], sizeof(int));
	}
	ck_assert_int_eq(sendmsg(pair[0], &msg, 0), (ssize_t)len);
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

START_TEST(send_and_receive)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS], out[2] = { pair[0], pair[1] };
	size_t n;

	ck_assert_int_eq(packet_recv(pair[1], buf, fds, PACKET_MAX_FDS, &n), -EAGAIN);
	ck_assert_int_eq(packet_send(pair[0], "hello", 5, out, 2), 0);
	ck_assert_int_eq(packet_recv(pair[1], buf, fds, PACKET_MAX_FDS, &n), 5);
	ck_assert_mem_eq(buf, "hello", 5);
	ck_assert_uint_eq(n, 2);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_ne(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, 0);
		close(fds[i]);
	}
}
END_TEST

START_TEST(the_peer_closes)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS];
	size_t n;

	shutdown(pair[0], SHUT_RDWR);
	ck_assert_int_eq(packet_recv(pair[1], buf, fds, PACKET_MAX_FDS, &n), -ECONNRESET);
	ck_assert_int_eq(packet_send(pair[1], "x", 1, NULL, 0), -ECONNRESET);
}
END_TEST

START_TEST(a_packet_that_is_too_long)
{
	static uint8_t data[65536], buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS];
	size_t n;

	send_raw(data, PACKET_MAX, 0);
	ck_assert_int_eq(packet_recv(pair[1], buf, fds, PACKET_MAX_FDS, &n), PACKET_MAX);
	send_raw(data, PACKET_MAX + 1, 0);
	ck_assert_int_eq(packet_recv(pair[1], buf, fds, PACKET_MAX_FDS, &n), -EMSGSIZE);
	send_raw(data, sizeof(data), PACKET_MAX_FDS);
	ck_assert_int_eq(packet_recv(pair[1], buf, fds, PACKET_MAX_FDS, &n), -EMSGSIZE);
	ck_assert_uint_eq(n, PACKET_MAX_FDS);
	close_all(fds, n);
	ck_assert_int_eq(packet_send(pair[0], data, PACKET_MAX + 1, NULL, 0), -EINVAL);
}
END_TEST

/* The caller gets the descriptors that fit, and the kernel closes the rest. */
START_TEST(surplus_descriptors)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS];
	unsigned before = count_fds();
	size_t n;

	for (unsigned n_fds = PACKET_MAX_FDS + 1; n_fds <= 253; n_fds++) {
		send_raw("x", 1, n_fds);
		ck_assert_int_eq(packet_recv(pair[1], buf, fds, PACKET_MAX_FDS, &n), -EBADMSG);
		ck_assert_uint_eq(n, PACKET_MAX_FDS);
		ck_assert_uint_eq(count_fds(), before + PACKET_MAX_FDS);
		close_all(fds, n);
	}
}
END_TEST

/* A caller with room for the maximum that can be sent gets all descriptors. */
START_TEST(all_descriptors)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_ALL_FDS];
	unsigned before = count_fds();
	size_t n;

	for (unsigned n_fds = 1; n_fds <= 253; n_fds++) {
		send_raw("x", 1, n_fds);
		ck_assert_int_eq(packet_recv(pair[1], buf, fds, PACKET_ALL_FDS, &n), 1);
		ck_assert_uint_eq(n, n_fds);
		ck_assert_uint_eq(count_fds(), before + n_fds);
		close_all(fds, n);
	}
}
END_TEST

START_TEST(a_full_socket)
{
	static uint8_t data[PACKET_MAX];
	int r;

	do {
		r = packet_send(pair[0], data, sizeof(data), NULL, 0);
	} while (r == 0);
	ck_assert_int_eq(r, -EAGAIN);
}
END_TEST

UNIT_MAIN("packet", set_up, tear_down, send_and_receive, the_peer_closes, a_packet_that_is_too_long,
	  surplus_descriptors, all_descriptors, a_full_socket)

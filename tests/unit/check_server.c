/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "proto/status.h"
#include "tests/unit/harness.h"

/* The server against clients that do not use the library. */

static int raw_connect(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, harness.socket_path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

static size_t pack(Rdmabroker__Request *request, uint8_t *buf)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	return rdmabroker__frame__pack(&frame, buf);
}

static size_t pack_hello(uint8_t *buf, uint32_t version)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;

	hello.version = version;
	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	return pack(&request, buf);
}

static void expect_end(int fd)
{
	char buf[PACKET_MAX];

	do {
		AWAIT_INPUT(fd, "the end of a connection");
	} while (recv(fd, buf, sizeof(buf), 0) > 0);
	close(fd);
}

static Rdmabroker__Frame *receive(int fd)
{
	uint8_t buf[PACKET_MAX];
	Rdmabroker__Frame *frame;
	ssize_t n;

	AWAIT_INPUT(fd, "a frame");
	n = recv(fd, buf, sizeof(buf), 0);
	ck_assert_int_gt(n, 0);
	frame = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
	ck_assert_ptr_nonnull(frame);
	return frame;
}

static enum status get_failure(int fd)
{
	Rdmabroker__Frame *frame = receive(fd);
	enum status status;

	ck_assert_int_eq(frame->body_case, RDMABROKER__FRAME__BODY_REPLY);
	status = frame->reply->failure ? frame->reply->failure->status : STATUS_OK;
	rdmabroker__frame__free_unpacked(frame, NULL);
	return status;
}

static void expect_event(int fd, enum rdma_cm_event_type type)
{
	Rdmabroker__Frame *frame = receive(fd);

	ck_assert_int_eq(frame->body_case, RDMABROKER__FRAME__BODY_EVENT);
	ck_assert_uint_eq(frame->event->type, type);
	ck_assert_int_eq(frame->event->status, 0);
	rdmabroker__frame__free_unpacked(frame, NULL);
}

START_TEST(hello_comes_first)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__GetStatus get_status = RDMABROKER__GET_STATUS__INIT;
	uint8_t buf[PACKET_MAX];
	int fd = raw_connect();

	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_GET_STATUS;
	request.get_status = &get_status;
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_BAD_STATE);
	expect_end(fd);

	fd = raw_connect();
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 0), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_VERSION);
	expect_end(fd);

	fd = raw_connect();
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 7), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_OK);
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_BAD_STATE);
	close(fd);
}
END_TEST

/* A quiet request gets a reply only if it fails. This reply comes before the replies to later requests. */
START_TEST(quiet_requests)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__CreateId create = RDMABROKER__CREATE_ID__INIT;
	Rdmabroker__DestroyId destroy = RDMABROKER__DESTROY_ID__INIT;
	uint8_t buf[PACKET_MAX];
	int fd = raw_connect();

	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_OK);
	create.id = destroy.id = 1;
	create.port_space = RDMA_PS_TCP;
	request.quiet = true;
	request.serial = 2;
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &create;
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	/* The first request succeeds without a reply, so this is the reply to the second. */
	ck_assert_int_eq(get_failure(fd), STATUS_BAD_REQUEST);
	request.op_case = RDMABROKER__REQUEST__OP_DESTROY_ID;
	request.destroy_id = &destroy;
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	request.quiet = false;
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_NO_SUCH_ID);
	close(fd);
}
END_TEST

START_TEST(a_request_that_is_not_in_the_table)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	uint8_t buf[PACKET_MAX];
	int fd = raw_connect();

	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_OK);
	request.serial = 2;
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_UNKNOWN_OPERATION);
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_BAD_STATE);
	close(fd);
}
END_TEST

/*
 * In this request of an earlier version, the broker was to connect as well. The broker only resolves, and the client
 * then sends Connect itself.
 */
START_TEST(a_resolve_addr_of_an_earlier_version)
{
	/* The values of the fields connect (id 1, QP 17), device and port_num. */
	static uint8_t connect[] = "\x06\x08\x01\x12\x02\x40\x11",
		       device[] = "\x05"
				  "fake0",
		       port[] = "\x01";
	ProtobufCMessageUnknownField fields[] = {
		{ 6, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, sizeof(connect) - 1, connect },
		{ 7, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, sizeof(device) - 1, device },
		{ 8, PROTOBUF_C_WIRE_TYPE_VARINT, sizeof(port) - 1, port },
	};
	static uint8_t ip[] = { 10, 9, 0, 1 };
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__CreateId create = RDMABROKER__CREATE_ID__INIT;
	Rdmabroker__ResolveAddr resolve_addr = RDMABROKER__RESOLVE_ADDR__INIT;
	Rdmabroker__Address dst = RDMABROKER__ADDRESS__INIT;
	uint8_t buf[PACKET_MAX];
	int fd = raw_connect();

	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_OK);
	create.id = resolve_addr.id = 1;
	create.port_space = RDMA_PS_TCP;
	dst.addr = (ProtobufCBinaryData){ sizeof(ip), ip };
	dst.port = 7471;
	resolve_addr.dst = &dst;
	resolve_addr.route = true;
	resolve_addr.base.n_unknown_fields = 3;
	resolve_addr.base.unknown_fields = fields;
	request.serial = 2;
	request.first = &create;
	request.op_case = RDMABROKER__REQUEST__OP_RESOLVE_ADDR;
	request.resolve_addr = &resolve_addr;
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_OK);
	expect_event(fd, RDMA_CM_EVENT_ADDR_RESOLVED);
	expect_event(fd, RDMA_CM_EVENT_ROUTE_RESOLVED);
	close(fd);
}
END_TEST

/*
 * Packets cut at every length and packets with one changed bit get a reply or end the session. Other clients are not
 * affected.
 */
START_TEST(mutilated_packets)
{
	struct rdmabroker *s = open_session(0);
	uint8_t good[PACKET_MAX], buf[PACKET_MAX];
	size_t len = pack_hello(good, 1);
	unsigned n = 0;

	for (size_t i = 1; i < len; i++, n++) {
		int fd = raw_connect();

		ck_assert_int_eq(packet_send(fd, good, i, NULL, 0), 0);
		shutdown(fd, SHUT_WR);
		expect_end(fd);
	}
	for (size_t i = 0; i < len; i++)
		for (int bit = 0; bit < 8; bit++, n++) {
			int fd = raw_connect();

			memcpy(buf, good, len);
			buf[i] ^= (uint8_t)(1 << bit);
			ck_assert_int_eq(packet_send(fd, buf, len, NULL, 0), 0);
			shutdown(fd, SHUT_WR);
			expect_end(fd);
		}
	ck_assert_uint_gt(n, 50);
	rdmabroker_destroy_id(resolve(s, 1));
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

START_TEST(garbage_and_descriptors)
{
	static uint8_t big[65536];
	uint8_t buf[PACKET_MAX];
	int fd, fds[2] = { 0, 1 }, r;

	fd = raw_connect();
	ck_assert_int_eq(send(fd, big, sizeof(big), 0), sizeof(big));
	expect_end(fd);
	fd = raw_connect();
	ck_assert_int_eq(send(fd, big, 0, 0), 0);
	expect_end(fd);
	fd = raw_connect();
	memset(big, 0xff, sizeof(big));
	ck_assert_int_eq(send(fd, big, PACKET_MAX, 0), PACKET_MAX);
	expect_end(fd);
	fd = raw_connect();
	/* On Linux 6.16 and later, the client cannot send these descriptors. */
	r = packet_send(fd, buf, pack_hello(buf, 1), fds, 2);
	if (r == -EPERM)
		close(fd);
	else
		expect_end(fd);
	ck_assert(r == 0 || r == -EPERM);
	await_counts(0, 0);
}
END_TEST

/* If a client reads no replies, the server stops reading its requests, and serves other clients. */
START_TEST(a_client_that_does_not_read)
{
	struct rdmabroker *s = open_session(0);
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__CreateId create = RDMABROKER__CREATE_ID__INIT;
	uint8_t buf[PACKET_MAX];
	size_t len;
	int fd = raw_connect(), r = 0;

	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	request.serial = 2;
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &create;
	len = pack(&request, buf);
	/* The server stops reading when it cannot queue further replies, so the client's socket fills up. */
	for (int i = 0; i < 1000000 && r == 0; i++) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };

		r = packet_send(fd, buf, len, NULL, 0);
		if (r == -EAGAIN && poll(&p, 1, 200) == 1)
			r = 0;
	}
	ck_assert_int_eq(r, -EAGAIN);
	rdmabroker_destroy_id(resolve(s, 1));
	await_counts(2, 0);
	close(fd);
	await_counts(1, 0);
	rdmabroker_close(s);
}
END_TEST

UNIT_MAIN("server", set_up, tear_down, hello_comes_first, quiet_requests,
	  a_request_that_is_not_in_the_table, a_resolve_addr_of_an_earlier_version,
	  mutilated_packets, garbage_and_descriptors, a_client_that_does_not_read)

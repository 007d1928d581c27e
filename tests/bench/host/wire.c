/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/rdmabroker.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/bench/host/host.h"

static void pack(struct message *ret, Rdmabroker__Request *request)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	if (rdmabroker__frame__get_packed_size(&frame) > sizeof(ret->buf))
		die("a request does not fit");
	ret->len = rdmabroker__frame__pack(&frame, ret->buf);
}

void wire_send(int fd, const struct message *request)
{
	if (send(fd, request->buf, request->len, MSG_NOSIGNAL) != (ssize_t)request->len)
		die("send: %m");
}

void wire_receive(int fd, struct message *ret)
{
	ssize_t n = recv(fd, ret->buf, sizeof(ret->buf), 0);

	if (n <= 0)
		die("recv: %m");
	ret->len = (size_t)n;
}

void wire_exchange(int fd, const struct message *request, struct message *ret)
{
	wire_send(fd, request);
	wire_receive(fd, ret);
}

void wire_check_reply(const struct message *reply, uint32_t serial)
{
	Rdmabroker__Frame *frame = rdmabroker__frame__unpack(NULL, reply->len, reply->buf);

	if (!frame || frame->body_case != RDMABROKER__FRAME__BODY_REPLY ||
	    frame->reply->serial != serial)
		die("the daemon's answer is not one to what was asked");
	if (frame->reply->failure)
		die("the daemon refuses: %s", frame->reply->failure->text);
	rdmabroker__frame__free_unpacked(frame, NULL);
}

int wire_open(const char *socket_path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval deadline = { .tv_sec = DEADLINE_MS / 1000 };
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;
	struct message out, in;
	int fd;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", socket_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline)) < 0 ||
	    connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		die("%s: %m", socket_path);
	hello.version = 1;
	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	pack(&out, &request);
	wire_exchange(fd, &out, &in);
	wire_check_reply(&in, 1);
	return fd;
}

void wire_pack_get_option(struct message *ret, uint32_t serial, uint32_t id)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__GetOption m = RDMABROKER__GET_OPTION__INIT;

	m.id = id;
	m.option = RDMABROKER_OPTION_TOS;
	request.serial = serial;
	request.op_case = RDMABROKER__REQUEST__OP_GET_OPTION;
	request.get_option = &m;
	pack(ret, &request);
}

void wire_create_id(int fd, uint32_t id)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__CreateId m = RDMABROKER__CREATE_ID__INIT;
	struct message out, in;

	m.id = id;
	m.port_space = RDMABROKER_PS_TCP;
	request.serial = 2;
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &m;
	pack(&out, &request);
	wire_exchange(fd, &out, &in);
	wire_check_reply(&in, 2);
}

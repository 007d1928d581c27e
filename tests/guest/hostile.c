/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A client that does not keep to the protocol. Each attack is one connection (or a heap of them), and
 * ends with an answer or with the connection's end: silence is what fails. Whether the daemon lives on,
 * and what it tells others meanwhile, is for the suite to see.
 *
 *   hostile SOCKET [SEED]
 */

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"

#define DEADLINE_MS 20000
#define N_FUZZED 400
#define N_CROWD 600
#define N_UNREAD 20000

enum end {
	END_CLOSED, /* dropped */
	END_REFUSED, /* a reply with a failure */
	END_DONE, /* a reply without one */
	END_SILENCE,
	END_GARBAGE, /* not something that a daemon sends */
};

static const char *const end_names[] = {
	[END_CLOSED] = "dropped",  [END_REFUSED] = "refused", [END_DONE] = "answered",
	[END_SILENCE] = "SILENCE", [END_GARBAGE] = "GARBAGE",
};

static const char *socket_path;
static uint64_t random_state;
static unsigned n_failed;

static uint32_t random_next(void)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(random_state >> 33);
}

static void fill_random(uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)random_next();
}

static void die(const char *what)
{
	fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int try_connect(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock;

	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		die("socket");
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", socket_path);
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		close(sock);
		return -1;
	}
	return sock;
}

static int must_connect(void)
{
	int sock = try_connect();

	if (sock < 0)
		die("connect");
	return sock;
}

/* What the daemon does next. */
static enum end await_end(int sock, uint32_t serial)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	static uint8_t buf[PACKET_MAX];
	Rdmabroker__Frame *frame;
	enum end end;
	ssize_t n;

	if (poll(&p, 1, DEADLINE_MS) == 0)
		return END_SILENCE;
	n = recv(sock, buf, sizeof(buf), MSG_TRUNC);
	if (n <= 0)
		return END_CLOSED;
	frame = n <= PACKET_MAX ? rdmabroker__frame__unpack(NULL, (size_t)n, buf) : NULL;
	if (!frame)
		return END_GARBAGE;
	if (frame->body_case != RDMABROKER__FRAME__BODY_REPLY || frame->reply->serial != serial)
		end = END_GARBAGE;
	else
		end = frame->reply->failure ? END_REFUSED : END_DONE;
	rdmabroker__frame__free_unpacked(frame, NULL);
	return end;
}

#define ALLOW(end) (1u << (end))

static void judge(const char *attack, enum end end, unsigned allowed)
{
	bool ok = ALLOW(end) & allowed;

	printf("%s %s: %s\n", ok ? "ok" : "FAILED", attack, end_names[end]);
	if (!ok)
		n_failed++;
}

static void send_bytes(int sock, const void *buf, size_t len)
{
	if (send(sock, buf, len, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		die("send");
}

static size_t pack_request(uint8_t buf[PACKET_MAX], Rdmabroker__Request *request)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	if (rdmabroker__frame__get_packed_size(&frame) > PACKET_MAX) {
		fprintf(stderr, "hostile: a request does not fit into a packet\n");
		exit(2);
	}
	return rdmabroker__frame__pack(&frame, buf);
}

static size_t pack_hello(uint8_t buf[PACKET_MAX], uint32_t version)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;

	hello.version = version;
	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	return pack_request(buf, &request);
}

static int greeted_connect(void)
{
	uint8_t buf[PACKET_MAX];
	int sock = must_connect();

	send_bytes(sock, buf, pack_hello(buf, 1));
	if (await_end(sock, 1) != END_DONE) {
		fprintf(stderr, "hostile: the daemon does not answer an honest hello\n");
		exit(1);
	}
	return sock;
}

static void attack_bytes(const char *attack, const void *buf, size_t len, unsigned allowed)
{
	int sock = must_connect();

	send_bytes(sock, buf, len);
	judge(attack, await_end(sock, 0), allowed);
	close(sock);
}

static void attack_raw(void)
{
	static uint8_t buf[65536];
	size_t len;
	int sock;

	attack_bytes("an empty packet", buf, 0, ALLOW(END_CLOSED));
	fill_random(buf, sizeof(buf));
	attack_bytes("64 KiB of random bytes", buf, sizeof(buf), ALLOW(END_CLOSED));
	attack_bytes("16 KiB of random bytes", buf, PACKET_MAX, ALLOW(END_CLOSED));
	attack_bytes("one byte more than a packet", buf, PACKET_MAX + 1, ALLOW(END_CLOSED));
	memset(buf, 0, sizeof(buf));
	attack_bytes("16 KiB of zero bytes", buf, PACKET_MAX, ALLOW(END_CLOSED));
	/* Nested length-delimited fields, each as long as what is left. */
	memset(buf, 0x0a, sizeof(buf));
	attack_bytes("16 KiB of nesting", buf, PACKET_MAX, ALLOW(END_CLOSED));

	len = pack_hello(buf, 1);
	sock = must_connect();
	send_bytes(sock, buf, len / 2);
	close(sock);
	printf("ok half a hello, then gone\n");
	sock = must_connect();
	send_bytes(sock, buf, len);
	close(sock);
	printf("ok a hello, then gone before the answer\n");
	sock = must_connect();
	close(sock);
	printf("ok gone without a word\n");

	for (size_t cut = 1; cut < len; cut++) {
		char name[64];

		snprintf(name, sizeof(name), "a hello cut to %zu bytes", cut);
		sock = must_connect();
		send_bytes(sock, buf, cut);
		judge(name, await_end(sock, 0), ALLOW(END_CLOSED) | ALLOW(END_REFUSED));
		close(sock);
	}
}

static void send_fds(int sock, const void *buf, size_t len, size_t n_fds)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	union {
		char buf[CMSG_SPACE(253 * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = CMSG_SPACE(n_fds * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int *fds = (int *)CMSG_DATA(c);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = STDERR_FILENO;
	if (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0)
		die("sendmsg");
}

static void attack_fds(void)
{
	static const size_t counts[] = { 1, PACKET_MAX_FDS, PACKET_MAX_FDS + 1, 253 };
	uint8_t buf[PACKET_MAX];
	size_t len = pack_hello(buf, 1);

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		int sock = must_connect();
		char name[64];

		snprintf(name, sizeof(name), "a hello with %zu descriptors", counts[i]);
		send_fds(sock, buf, len, counts[i]);
		judge(name, await_end(sock, 1), ALLOW(END_CLOSED));
		close(sock);

		snprintf(name, sizeof(name), "%zu descriptors after the hello", counts[i]);
		sock = greeted_connect();
		send_fds(sock, buf, len, counts[i]);
		judge(name, await_end(sock, 1), ALLOW(END_CLOSED));
		close(sock);
	}
}

/* One request after an honest hello. It must be refused, and the session must go on. */
static void attack_request(const char *attack, Rdmabroker__Request *request)
{
	uint8_t buf[PACKET_MAX];
	int sock = greeted_connect();

	request->serial = 2;
	send_bytes(sock, buf, pack_request(buf, request));
	judge(attack, await_end(sock, 2), ALLOW(END_REFUSED));
	close(sock);
}

static void attack_protocol(void)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__GetStatus status = RDMABROKER__GET_STATUS__INIT;
	Rdmabroker__CreateId create = RDMABROKER__CREATE_ID__INIT;
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__Event event = RDMABROKER__EVENT__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;
	uint8_t buf[PACKET_MAX];
	int sock;

	sock = must_connect();
	send_bytes(sock, buf, pack_hello(buf, 0));
	judge("protocol version 0", await_end(sock, 1), ALLOW(END_REFUSED));
	judge("  and then", await_end(sock, 1), ALLOW(END_CLOSED));
	close(sock);

	sock = must_connect();
	request.serial = 7;
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &create;
	send_bytes(sock, buf, pack_request(buf, &request));
	judge("a request before the hello", await_end(sock, 7), ALLOW(END_REFUSED));
	judge("  and then", await_end(sock, 7), ALLOW(END_CLOSED));
	close(sock);

	hello.version = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	attack_request("a second hello", &request);
	request.op_case = RDMABROKER__REQUEST__OP__NOT_SET;
	attack_request("a request for nothing", &request);
	request.op_case = RDMABROKER__REQUEST__OP_GET_STATUS;
	request.get_status = &status;
	attack_request("status, as nobody special", &request);
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &create;
	create.id = 1;
	create.port_space = UINT32_MAX;
	attack_request("an id of port space 0xffffffff", &request);
	create.port_space = 0x0106;
	create.id = 0;
	attack_request("an id without a number", &request);
	create.id = 0x80000000;
	attack_request("an id with a number of the daemon's", &request);
	create.id = UINT32_MAX;
	attack_request("an id with number 0xffffffff", &request);

	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	sock = greeted_connect();
	send_bytes(sock, buf, rdmabroker__frame__pack(&frame, buf));
	judge("a reply to the daemon", await_end(sock, 0), ALLOW(END_CLOSED));
	close(sock);
	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = &event;
	sock = greeted_connect();
	send_bytes(sock, buf, rdmabroker__frame__pack(&frame, buf));
	judge("an event for the daemon", await_end(sock, 0), ALLOW(END_CLOSED));
	close(sock);
}

/* Fields out of range, on an id that exists or on one that does not. */
static void attack_fields(uint32_t id, const char *whose)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__CreateId create = RDMABROKER__CREATE_ID__INIT;
	Rdmabroker__DestroyId destroy = RDMABROKER__DESTROY_ID__INIT;
	Rdmabroker__SetOption option = RDMABROKER__SET_OPTION__INIT;
	Rdmabroker__BindAddr bind_addr = RDMABROKER__BIND_ADDR__INIT;
	Rdmabroker__ResolveAddr resolve = RDMABROKER__RESOLVE_ADDR__INIT;
	Rdmabroker__ResolveRoute route = RDMABROKER__RESOLVE_ROUTE__INIT;
	Rdmabroker__Listen listen_on = RDMABROKER__LISTEN__INIT;
	Rdmabroker__Connect connect_to = RDMABROKER__CONNECT__INIT;
	Rdmabroker__Accept accept_it = RDMABROKER__ACCEPT__INIT;
	Rdmabroker__Establish establish = RDMABROKER__ESTABLISH__INIT;
	Rdmabroker__Reject reject = RDMABROKER__REJECT__INIT;
	Rdmabroker__Disconnect disconnect = RDMABROKER__DISCONNECT__INIT;
	Rdmabroker__InitQpAttr qp_attr = RDMABROKER__INIT_QP_ATTR__INIT;
	Rdmabroker__OpenDevice open_device = RDMABROKER__OPEN_DEVICE__INIT;
	Rdmabroker__Address address = RDMABROKER__ADDRESS__INIT;
	Rdmabroker__ConnParam param = RDMABROKER__CONN_PARAM__INIT;
	static uint8_t junk[16000];
	static char name[16000];
	uint8_t buf[PACKET_MAX];
	uint32_t serial = 2;
	char what[128];
	int sock;

	memset(name, 'x', sizeof(name) - 1);
	fill_random(junk, sizeof(junk));
	param.private_data.data = junk;
	address.addr.data = junk;

	sock = greeted_connect();
	create.port_space = 0x0106;
	create.id = 1;
	request.serial = serial;
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &create;
	send_bytes(sock, buf, pack_request(buf, &request));
	if (await_end(sock, serial) != END_DONE) {
		fprintf(stderr, "hostile: the daemon makes no id\n");
		exit(1);
	}

	/* A second time. */
	request.serial = ++serial;
	send_bytes(sock, buf, pack_request(buf, &request));
	judge("an id that is there already", await_end(sock, serial), ALLOW(END_REFUSED));

#define ATTACK(NAME, field, message, text)                                \
	do {                                                              \
		request.serial = ++serial;                                \
		request.op_case = RDMABROKER__REQUEST__OP_##NAME;         \
		request.field = &(message);                               \
		(message).id = id;                                        \
		snprintf(what, sizeof(what), "%s, %s", text, whose);      \
		send_bytes(sock, buf, pack_request(buf, &request));       \
		judge(what, await_end(sock, serial), ALLOW(END_REFUSED)); \
	} while (0)

	option.option = 1000;
	ATTACK(SET_OPTION, set_option, option, "option 1000");
	option.option = 0;
	option.value = 256;
	ATTACK(SET_OPTION, set_option, option, "TOS 256");
	option.value = INT32_MIN;
	ATTACK(SET_OPTION, set_option, option, "TOS INT32_MIN");
	ATTACK(BIND_ADDR, bind_addr, bind_addr, "bind to nothing");
	bind_addr.addr = &address;
	ATTACK(BIND_ADDR, bind_addr, bind_addr, "bind to an empty address");
	address.addr.len = 5;
	ATTACK(BIND_ADDR, bind_addr, bind_addr, "bind to an address of 5 bytes");
	address.addr.len = sizeof(junk);
	ATTACK(BIND_ADDR, bind_addr, bind_addr, "bind to an address of 16000 bytes");
	address.addr.len = 4;
	address.port = 65536;
	ATTACK(BIND_ADDR, bind_addr, bind_addr, "bind to port 65536");
	ATTACK(RESOLVE_ADDR, resolve_addr, resolve, "resolve nothing");
	ATTACK(RESOLVE_ROUTE, resolve_route, route, "a route before an address");
	listen_on.backlog = UINT32_MAX;
	ATTACK(LISTEN, listen, listen_on, "listen before bind");
	ATTACK(CONNECT, connect, connect_to, "connect before the route, with nothing");
	connect_to.param = &param;
	param.private_data.len = 57;
	ATTACK(CONNECT, connect, connect_to, "connect with 57 bytes");
	param.private_data.len = 15900;
	ATTACK(CONNECT, connect, connect_to, "connect with 15900 bytes");
	ATTACK(ACCEPT, accept, accept_it, "accept where nobody asked, with nothing");
	accept_it.param = &param;
	ATTACK(ACCEPT, accept, accept_it, "accept with 15900 bytes");
	param.private_data.len = 0;
	param.qp_num = UINT32_MAX;
	param.retry_count = 8;
	ATTACK(ACCEPT, accept, accept_it, "accept with QP number 0xffffffff");
	ATTACK(ESTABLISH, establish, establish, "establish what is not connected");
	ATTACK(DISCONNECT, disconnect, disconnect, "disconnect what is not connected");
	reject.private_data.data = junk;
	reject.private_data.len = 149;
	ATTACK(REJECT, reject, reject, "reject with 149 bytes");
	qp_attr.qp_state = 1000;
	ATTACK(INIT_QP_ATTR, init_qp_attr, qp_attr, "attributes for QP state 1000");
#undef ATTACK

	request.op_case = RDMABROKER__REQUEST__OP_OPEN_DEVICE;
	request.open_device = &open_device;
	open_device.name = name;
	request.serial = ++serial;
	send_bytes(sock, buf, pack_request(buf, &request));
	judge("a device's name of 15999 bytes", await_end(sock, serial), ALLOW(END_REFUSED));

	request.op_case = RDMABROKER__REQUEST__OP_DESTROY_ID;
	request.destroy_id = &destroy;
	destroy.id = id == 1 ? UINT32_MAX : id;
	request.serial = ++serial;
	send_bytes(sock, buf, pack_request(buf, &request));
	judge("destroy an id that is not there", await_end(sock, serial), ALLOW(END_REFUSED));
	close(sock);
}

/* Requests that are nearly right. Whatever comes of each, the connection must not hang. */
static void attack_fuzzed(void)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__BindAddr bind_addr = RDMABROKER__BIND_ADDR__INIT;
	Rdmabroker__Address address = RDMABROKER__ADDRESS__INIT;
	static const uint8_t loopback[4] = { 127, 0, 0, 1 };
	uint8_t valid[PACKET_MAX], buf[PACKET_MAX];
	unsigned ends[END_GARBAGE + 1] = { 0 };
	size_t len;

	address.addr.data = (uint8_t *)loopback;
	address.addr.len = sizeof(loopback);
	address.port = 7000;
	bind_addr.id = 1;
	bind_addr.addr = &address;
	request.serial = 2;
	request.op_case = RDMABROKER__REQUEST__OP_BIND_ADDR;
	request.bind_addr = &bind_addr;
	len = pack_request(valid, &request);

	for (unsigned i = 0; i < N_FUZZED; i++) {
		int sock = greeted_connect();
		enum end end;

		memcpy(buf, valid, len);
		for (unsigned flips = 1 + random_next() % 4; flips > 0; flips--)
			buf[random_next() % len] ^= (uint8_t)(1u << random_next() % 8);
		send_bytes(sock, buf, len);
		/* The serial may be flipped too: then a good answer looks like garbage. */
		end = await_end(sock, 2);
		ends[end]++;
		close(sock);
	}
	printf("%s %d requests with flipped bits: %u dropped, %u answered, %u SILENCE\n",
	       ends[END_SILENCE] == 0 ? "ok" : "FAILED", N_FUZZED, ends[END_CLOSED],
	       ends[END_REFUSED] + ends[END_DONE] + ends[END_GARBAGE], ends[END_SILENCE]);
	if (ends[END_SILENCE] > 0)
		n_failed++;
}

/* Asks and asks, and never reads an answer: the daemon must not keep them all. */
static void attack_unread(void)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	int sock = greeted_connect();
	uint8_t buf[PACKET_MAX];
	size_t len;
	unsigned i;

	request.serial = 2;
	len = pack_request(buf, &request);
	for (i = 0; i < N_UNREAD; i++) {
		struct pollfd p = { .fd = sock, .events = POLLOUT };

		if (poll(&p, 1, 2000) == 0 || send(sock, buf, len, MSG_NOSIGNAL) < 0)
			break;
	}
	printf("ok %u requests whose answers nobody reads: %s\n", i,
	       i < N_UNREAD ? "no more are taken" : "all are taken");
	close(sock);
}

/* Everybody else must still get in, once they are gone. */
static void attack_crowd(void)
{
	static int socks[N_CROWD];
	unsigned n;

	for (n = 0; n < N_CROWD; n++) {
		socks[n] = try_connect();
		if (socks[n] < 0)
			break;
	}
	printf("ok a crowd of %u that says nothing\n", n);
	while (n > 0)
		close(socks[--n]);
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "hostile SOCKET [SEED]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	socket_path = argv[1];
	random_state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	alarm(300);
	attack_raw();
	attack_fds();
	attack_protocol();
	attack_fields(1, "own id");
	attack_fields(12345, "id of nobody");
	attack_fuzzed();
	attack_unread();
	attack_crowd();
	printf("%u attacks went through\n", n_failed);
	return n_failed > 0;
}

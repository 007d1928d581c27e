/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/status.h"
#include "tests/guest/hostile.h"
#include "tests/wire/requests.h"
#include "util/clock.h"

#define N_FLIPPED 400

static void attack_bytes(const char *attack, const void *buf, size_t len, unsigned allowed)
{
	int sock = must_connect();

	send_bytes(sock, buf, len);
	judge(attack, await_end(sock, 0), allowed);
	close(sock);
}

void attack_raw(char **argv)
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
	/* Length-delimited fields of 10 bytes, whose contents look like such fields. */
	memset(buf, 0x0a, sizeof(buf));
	attack_bytes("16 KiB of nesting", buf, PACKET_MAX, ALLOW(END_CLOSED));

	/* Connections that end after half a hello, after a whole hello, and after nothing. */
	len = pack_hello(buf, 1);
	sock = must_connect();
	send_bytes(sock, buf, len / 2);
	close(sock);
	sock = must_connect();
	send_bytes(sock, buf, len);
	close(sock);
	sock = must_connect();
	close(sock);

	for (size_t cut = 1; cut < len; cut++) {
		char name[64];

		snprintf(name, sizeof(name), "a hello cut to %zu bytes", cut);
		sock = must_connect();
		send_bytes(sock, buf, cut);
		judge(name, await_end(sock, 0), ALLOW(END_CLOSED) | ALLOW(END_REFUSED));
		close(sock);
	}
}

static void send_copies(int sock, const void *buf, size_t len, int fd, size_t n_fds)
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
		fds[i] = fd;
	/* EPIPE: the daemon has already closed the connection. */
	if (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 && errno != EPIPE)
		die("sendmsg: %s", strerror(errno));
}

static void send_fds(int sock, const void *buf, size_t len, size_t n_fds)
{
	send_copies(sock, buf, len, STDERR_FILENO, n_fds);
}

/* Only an import takes a descriptor, and only one. Any others must end the session. */
static void attack_request_fds(int op, size_t n_fds)
{
	bool takes = op == OP(IMPORT_ID) && n_fds == 1;
	int sock = greeted_connect();
	uint8_t buf[PACKET_MAX];
	char what[64];

	send_bytes(sock, buf, request_make(2, OP(CREATE_ID), 1, NULL, 0, buf));
	if (await_end(sock, 2) != END_DONE)
		die("the daemon makes no id");
	snprintf(what, sizeof(what), "%s with %zu descriptors", request_name(op), n_fds);
	send_fds(sock, buf, request_make(3, op, 1, NULL, 0, buf), n_fds);
	judge(what, await_end(sock, 3), takes ? ALLOW(END_REFUSED) : ALLOW(END_CLOSED));
	close(sock);
}

void attack_fds(char **argv)
{
	static const size_t counts[] = { 1, PACKET_MAX_FDS, PACKET_MAX_FDS + 1, 253 };
	uint8_t buf[PACKET_MAX];
	size_t len = pack_hello(buf, 1);

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		int sock = must_connect();

		send_fds(sock, buf, len, counts[i]);
		judge("the first hello with descriptors", await_end(sock, 1), ALLOW(END_CLOSED));
		close(sock);
		for (int op = REQUEST_FIRST; op <= REQUEST_LAST; op++)
			attack_request_fds(op, counts[i]);
	}
}

/* Sends REQUEST after a valid hello. A reply must refuse it. */
static void attack_request(const char *attack, Rdmabroker__Request *request)
{
	uint8_t buf[PACKET_MAX];
	int sock = greeted_connect();

	request->serial = 2;
	send_bytes(sock, buf, pack_request(buf, request));
	judge(attack, await_end(sock, 2), ALLOW(END_REFUSED));
	close(sock);
}

void attack_protocol(char **argv)
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
	judge("protocol version 0, afterwards", await_end(sock, 1), ALLOW(END_CLOSED));
	close(sock);

	sock = must_connect();
	request.serial = 7;
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &create;
	send_bytes(sock, buf, pack_request(buf, &request));
	judge("a request before the hello", await_end(sock, 7), ALLOW(END_REFUSED));
	judge("a request before the hello, afterwards", await_end(sock, 7), ALLOW(END_CLOSED));
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

/* Sends requests about ID with fields out of range. Only id 1 exists. WHOSE describes ID. */
static void attack_fields_of(uint32_t id, const char *whose)
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
	if (await_end(sock, serial) != END_DONE)
		die("the daemon makes no id");

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

void attack_fields(char **argv)
{
	attack_fields_of(1, "own id");
	attack_fields_of(12345, "id of nobody");
}

/* Sends a valid request with flipped bits. The daemon must reply or close the connection. */
void attack_flipped(char **argv)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__BindAddr bind_addr = RDMABROKER__BIND_ADDR__INIT;
	Rdmabroker__Address address = RDMABROKER__ADDRESS__INIT;
	static const uint8_t loopback[4] = { 127, 0, 0, 1 };
	uint8_t valid[PACKET_MAX], buf[PACKET_MAX];
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

	for (unsigned i = 0; i < N_FLIPPED; i++) {
		int sock = greeted_connect();
		enum end end;

		memcpy(buf, valid, len);
		for (unsigned flips = 1 + random_next() % 4; flips > 0; flips--)
			buf[random_next() % len] ^= (uint8_t)(1u << random_next() % 8);
		send_bytes(sock, buf, len);
		/* The serial may be flipped, too: a reply with any serial is allowed. */
		end = await_end(sock, 2);
		judge("flipped bits", end == END_GARBAGE ? END_DONE : end,
		      ALLOW(END_CLOSED) | ALLOW(END_REFUSED) | ALLOW(END_DONE));
		close(sock);
	}
}

/* A prober sends many requests, most of them about id 1. When its session ends, it begins another. */

struct prober {
	int sock;
	uint32_t serial; /* the last serial in use */
	unsigned allowed;
	unsigned step, n; /* only every STEPth request is sent; N counts all requests */
};

static void prober_ask(struct prober *p, int op, const char *what, unsigned allowed)
{
	uint8_t buf[PACKET_MAX];
	enum end end;

	send_bytes(p->sock, buf, request_make(++p->serial, op, 1, NULL, 0, buf));
	end = await_end(p->sock, p->serial);
	if (!(ALLOW(end) & allowed))
		die("%s after %s", request_name(op), what);
}

static void prober_connect(struct prober *p)
{
	p->sock = greeted_connect();
	prober_ask(p, OP(CREATE_ID), "hello", ALLOW(END_DONE));
}

static void try_request(void *userdata, const uint8_t *buf, size_t len, const char *what)
{
	struct prober *p = userdata;
	enum end end;

	if (p->n++ % p->step != 0)
		return;
	send_bytes(p->sock, buf, len);
	end = await_end(p->sock, p->serial);
	judge(what, end, p->allowed);
	if (end != END_REFUSED && end != END_DONE) {
		close(p->sock);
		prober_connect(p);
		return;
	}
	if (end == END_REFUSED)
		return; /* a refused request changes nothing */
	/* The request may have changed or destroyed the id: create it anew. */
	prober_ask(p, OP(DESTROY_ID), what, ALLOW(END_DONE) | ALLOW(END_REFUSED));
	prober_ask(p, OP(CREATE_ID), what, ALLOW(END_DONE));
}

static void probe(void (*each)(const struct request_trial *trial), unsigned allowed, unsigned step)
{
	struct prober p = { .serial = 1, .allowed = allowed, .step = step };
	struct request_trial trial = {
		.serial = &p.serial,
		.try = try_request,
		.userdata = &p,
	};

	prober_connect(&p);
	each(&trial);
	close(p.sock);
}

void attack_cut(char **argv)
{
	probe(request_each_cut, ALLOW(END_CLOSED), 1);
}

/* limits STEP: sends every STEPth request with an extreme value in one field. */
void attack_limits(char **argv)
{
	unsigned step = number(argv[0]);

	if (step == 0)
		die("a step of 0");
	probe(request_each_field, ALLOW(END_CLOSED) | ALLOW(END_REFUSED) | ALLOW(END_DONE), step);
}

/* Requests about ids of other sessions, by their handles there. This session has no ids. */

static bool is_about_an_id(int op)
{
	switch (op) {
	case OP(DESTROY_ID):
	case OP(SET_OPTION):
	case OP(BIND_ADDR):
	case OP(LISTEN):
	case OP(RESOLVE_ADDR):
	case OP(RESOLVE_ROUTE):
	case OP(CONNECT):
	case OP(ACCEPT):
	case OP(ESTABLISH):
	case OP(REJECT):
	case OP(DISCONNECT):
	case OP(INIT_QP_ATTR):
	case OP(GET_OPTION):
	case OP(NOTIFY):
	case OP(JOIN_MULTICAST):
	case OP(LEAVE_MULTICAST):
	case OP(EXPORT_ID):
		return true;
	default:
		return false;
	}
}

static void judge_stranger(int sock, uint32_t serial, const char *what, uint32_t status)
{
	struct answer answer = await_answer(sock, DEADLINE_MS);

	if (answer.serial != serial)
		answer.end = END_GARBAGE;
	judge(what, answer.end, ALLOW(END_REFUSED));
	if (answer.end == END_REFUSED && answer.status != status)
		failed("%s: status %u", what, answer.status);
}

/*
 * strangers N: tries the first N handles that clients choose, and the first N that the daemon chooses. Then tries to
 * kick the first N sessions.
 */
void attack_strangers(char **argv)
{
	unsigned n = number(argv[0]);
	int sock = greeted_connect();
	uint8_t buf[PACKET_MAX];
	uint32_t serial = 1;

	for (int op = REQUEST_FIRST; op <= REQUEST_LAST; op++)
		for (uint32_t i = 0; is_about_an_id(op) && i < 2 * n; i++) {
			uint32_t id = i < n ? 1 + i : 0x80000000 + i - n;
			char what[64];

			snprintf(what, sizeof(what), "%s of id %u", request_name(op), id);
			send_bytes(sock, buf, request_make(++serial, op, id, NULL, 0, buf));
			judge_stranger(sock, serial, what, STATUS_NO_SUCH_ID);
		}
	for (uint32_t session = 1; session <= n; session++) {
		Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
		Rdmabroker__Kick kick = RDMABROKER__KICK__INIT;

		kick.session = session;
		request.serial = ++serial;
		request.op_case = OP(KICK);
		request.kick = &kick;
		send_bytes(sock, buf, pack_request(buf, &request));
		judge_stranger(sock, serial, "kick of a session", STATUS_NOT_PERMITTED);
	}
	close(sock);
}

/* Fills SOCK, whose peer does not read. Closing its last descriptor blocks for a minute. */
static void make_linger(int sock)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 60 };
	static char data[65536];

	while (send(sock, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	if (setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) < 0)
		die("SO_LINGER: %s", strerror(errno));
}

/*
 * Sends LEN bytes with N_FDS copies of a lingering socket. A process that closes the last copy blocks. Therefore a
 * child makes the socket and sends the copies: a process that exits does not linger.
 */
static void send_lingering(int to, const void *buf, size_t len, size_t n_fds)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), sock, status;
	socklen_t in_len = sizeof(in);
	pid_t pid;

	if (bind(listener, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&in, &in_len) < 0)
		die("listening on loopback: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		sock = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(sock, (struct sockaddr *)&in, sizeof(in)) < 0)
			die("a connection over loopback: %s", strerror(errno));
		make_linger(sock);
		send_copies(to, buf, len, sock, n_fds);
		_exit(0);
	}
	/* The connection stays open, and is never read. */
	if (pid < 0 || accept(listener, NULL, NULL) < 0 || waitpid(pid, &status, 0) < 0)
		die("a sender: %s", strerror(errno));
	close(listener);
}

/*
 * linger [stranger]: makes the daemon close descriptors that linger for a minute, until stdin ends. They are sent
 * with a request that takes one, with the first hello, and in packets that the daemon will not read. stranger: policy
 * allows this user no session, so no request is sent.
 */
void attack_linger(char **argv)
{
	bool may_greet = !argv[0] || strcmp(argv[0], "stranger") != 0;
	uint8_t hello[PACKET_MAX], buf[PACKET_MAX];
	size_t len = pack_hello(hello, 1);
	int sock;
	char c;

	/* These requests come first, because the daemon does not read from a user with many descriptors to close. */
	for (int i = 0; i < 8 && may_greet; i++) {
		sock = greeted_connect();
		send_lingering(sock, buf, request_make(2, OP(IMPORT_ID), 1, NULL, 0, buf), 1);
	}
	for (int i = 0; i < 8; i++) {
		sock = must_connect();
		send_lingering(sock, hello, len, i % 2 == 0 ? 1 : 253);
		close(sock);
		sock = must_connect();
		send_bytes(sock, "\xff\xff", 2);
		send_lingering(sock, hello, len, 1);
		close(sock);
	}
	printf("armed\n");
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
}

/* keep N: keeps N ids that are bound to a device, and does not read their events, until stdin ends. */
void attack_keep(char **argv)
{
	unsigned n = number(argv[0]);
	int sock = greeted_connect();
	uint8_t buf[PACKET_MAX];
	uint32_t serial = 1;
	char c;

	for (uint32_t id = 1; id <= n; id++) {
		send_bytes(sock, buf, request_make(++serial, OP(CREATE_ID), id, NULL, 0, buf));
		judge("an id", await_end(sock, serial), ALLOW(END_DONE));
		send_bytes(sock, buf, request_make(++serial, OP(BIND_ADDR), id, NULL, 0, buf));
		judge("a bind", await_end(sock, serial), ALLOW(END_DONE));
	}
	printf("kept\n");
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	close(sock);
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* requests N: no attack; sends N valid requests one after the other, and prints how long they took. */
void attack_requests(char **argv)
{
	unsigned n = number(argv[0]);
	uint64_t *took = calloc(n, sizeof(*took));
	int sock = greeted_connect();
	uint8_t buf[PACKET_MAX];

	if (!took || n == 0)
		die("%u requests: no memory for that", n);
	for (unsigned i = 0; i < n; i++) {
		uint64_t begin = clock_ns();

		send_bytes(sock, buf, request_make(2 + i, OP(LIST_DEVICES), 0, NULL, 0, buf));
		judge("an honest request", await_end(sock, 2 + i), ALLOW(END_DONE));
		took[i] = clock_ns() - begin;
	}
	close(sock);
	qsort(took, n, sizeof(took[0]), compare_times);
	printf("requests: p50 %.2f ms, p99 %.2f ms, at most %.2f ms\n", (double)took[n / 2] / 1e6,
	       (double)took[n * 99 / 100] / 1e6, (double)took[n - 1] / 1e6);
	free(took);
}

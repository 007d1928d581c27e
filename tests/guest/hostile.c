/* SPDX-License-Identifier: BSD-2-Clause */

/*
 *   hostile SOCKET ATTACK [ARG...]
 *
 * Attacks the daemon at SOCKET. Ends with status 1 if the daemon misbehaves, for example if it neither replies to an
 * attempt nor closes the connection.
 */

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/guest/hostile.h"

/* The program ends after this number of failures. */
#define FAILURES_MAX 20

static const char *const end_names[N_ENDS] = {
	[END_CLOSED] = "dropped",  [END_REFUSED] = "refused", [END_DONE] = "answered",
	[END_SILENCE] = "SILENCE", [END_GARBAGE] = "GARBAGE",
};

static const char *socket_path;
static uint64_t random_state = 1;
static unsigned n_failed, n_judged, n_ended[N_ENDS];

void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("FAILED: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

void failed(const char *fmt, ...)
{
	va_list ap;

	fputs("FAILED: ", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	if (++n_failed == FAILURES_MAX)
		die("%u failures are enough", n_failed);
}

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

uint32_t random_next(void)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(random_state >> 33);
}

void fill_random(uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)random_next();
}

unsigned number(const char *text)
{
	char *end;
	unsigned long n;

	if (!text)
		die("an argument is missing");
	n = strtoul(text, &end, 10);
	if (end == text || *end)
		die("\"%s\" is not a number", text);
	return (unsigned)n;
}

int try_connect(int flags)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

	if (sock < 0)
		die("socket: %s", strerror(errno));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", socket_path);
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int error = errno;

		close(sock);
		errno = error;
		return -1;
	}
	return sock;
}

int must_connect(void)
{
	int sock = try_connect(0);

	if (sock < 0)
		die("connect: %s", strerror(errno));
	return sock;
}

static bool send_packet(int sock, const void *buf, size_t len, int flags, bool *ret_gone)
{
	*ret_gone = false;
	if (send(sock, buf, len, MSG_NOSIGNAL | flags) >= 0)
		return true;
	if (errno == EPIPE || errno == ECONNRESET)
		*ret_gone = true;
	else if (errno != EAGAIN)
		die("send: %s", strerror(errno));
	return false;
}

bool try_send(int sock, const void *buf, size_t len, bool *ret_gone)
{
	return send_packet(sock, buf, len, MSG_DONTWAIT, ret_gone);
}

void send_bytes(int sock, const void *buf, size_t len)
{
	bool gone;

	if (!send_packet(sock, buf, len, 0, &gone) && !gone)
		die("the daemon takes nothing more");
}

size_t pack_request(uint8_t buf[PACKET_MAX], Rdmabroker__Request *request)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	if (rdmabroker__frame__get_packed_size(&frame) > PACKET_MAX)
		die("a request does not fit into a packet");
	return rdmabroker__frame__pack(&frame, buf);
}

size_t pack_hello(uint8_t buf[PACKET_MAX], uint32_t version)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;

	hello.version = version;
	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	return pack_request(buf, &request);
}

/* Returns false if the packet is an event or a notice. */
static bool read_reply(const uint8_t *buf, ssize_t n, struct answer *ret)
{
	Rdmabroker__Frame *frame =
		n <= PACKET_MAX ? rdmabroker__frame__unpack(NULL, (size_t)n, buf) : NULL;
	bool reply = true;

	*ret = (struct answer){ .end = END_GARBAGE };
	if (!frame)
		return true;
	switch (frame->body_case) {
	case RDMABROKER__FRAME__BODY_REPLY:
		ret->end = frame->reply->failure ? END_REFUSED : END_DONE;
		ret->status = frame->reply->failure ? frame->reply->failure->status : 0;
		ret->serial = frame->reply->serial;
		if (frame->reply->result_case == RDMABROKER__REPLY__RESULT_HELLO)
			snprintf(ret->proof, sizeof(ret->proof), "%s", frame->reply->hello->proof);
		break;
	case RDMABROKER__FRAME__BODY_EVENT:
	case RDMABROKER__FRAME__BODY_NOTICE:
		reply = false;
		break;
	default:
		break;
	}
	rdmabroker__frame__free_unpacked(frame, NULL);
	return reply;
}

struct answer await_answer(int sock, int timeout_ms)
{
	int64_t deadline = now_ms() + timeout_ms;
	static uint8_t buf[PACKET_MAX];
	struct answer answer;
	bool reset = false;

	for (;;) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		int64_t left = deadline - now_ms();
		ssize_t n;

		if (poll(&p, 1, left > 0 ? (int)left : 0) == 0)
			return (struct answer){ .end = END_SILENCE };
		n = recv(sock, buf, sizeof(buf), MSG_TRUNC | MSG_DONTWAIT);
		/* recv() returns ECONNRESET once. The next call can still return an earlier packet. */
		if (n < 0 && errno == ECONNRESET && !reset) {
			reset = true;
			continue;
		}
		if (n <= 0)
			return (struct answer){ .end = END_CLOSED };
		if (read_reply(buf, n, &answer))
			return answer;
	}
}

enum end await_end(int sock, uint32_t serial)
{
	struct answer answer = await_answer(sock, DEADLINE_MS);

	if ((answer.end == END_REFUSED || answer.end == END_DONE) && answer.serial != serial)
		return END_GARBAGE;
	return answer.end;
}

static struct answer say_hello(int sock, bool announce, int fd)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;
	uint8_t buf[PACKET_MAX];
	int r;

	hello.version = 1;
	hello.features = announce ? RDMABROKER__FEATURE__FEATURE_PROOF : 0;
	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	r = packet_send(sock, buf, pack_request(buf, &request), &fd, fd >= 0);
	if (r < 0)
		die("hello: %s", strerror(-r));
	return await_answer(sock, DEADLINE_MS);
}

static int make_proof(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path + 1, name, strlen(name));
	if (bind(fd, (struct sockaddr *)&addr,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) < 0 ||
	    listen(fd, 0) < 0)
		die("a proof: %s", strerror(errno));
	return fd;
}

struct answer greet(int sock, bool proves)
{
	struct answer answer = say_hello(sock, proves, -1);
	int fd;

	/* With Linux 6.5 and later, the daemon requests no proof. */
	if (answer.end != END_DONE || !answer.proof[0])
		return answer;
	fd = make_proof(answer.proof);
	answer = say_hello(sock, proves, fd);
	close(fd);
	return answer;
}

int greeted_connect(void)
{
	int sock = must_connect();
	struct answer answer = greet(sock, /* proves= */ true);

	if (answer.end != END_DONE || answer.serial != 1)
		die("an honest hello: %s, status %u", end_names[answer.end], answer.status);
	return sock;
}

void judge(const char *what, enum end end, unsigned allowed)
{
	n_judged++;
	n_ended[end]++;
	if (!(ALLOW(end) & allowed))
		failed("%s: %s", what, end_names[end]);
}

static const struct attack {
	const char *name;
	void (*run)(char **argv);
} attacks[] = {
	{ "crowd", attack_crowd },
	{ "cut", attack_cut },
	{ "fds", attack_fds },
	{ "fields", attack_fields },
	{ "flipped", attack_flipped },
	{ "flood", attack_flood },
	{ "groups", attack_groups },
	{ "keep", attack_keep },
	{ "limits", attack_limits },
	{ "linger", attack_linger },
	{ "pid", attack_pid },
	{ "protocol", attack_protocol },
	{ "raw", attack_raw },
	{ "requests", attack_requests },
	{ "rights", attack_rights },
	{ "slow", attack_slow },
	{ "strangers", attack_strangers },
	{ "unread", attack_unread },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3) {
		fprintf(stderr, "hostile SOCKET ATTACK [ARG...]\n");
		return 2;
	}
	socket_path = argv[1];
	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		if (strcmp(attacks[i].name, argv[2]) != 0)
			continue;
		/* SIGALRM ends a program that runs longer. */
		alarm(PATIENCE_PROGRAM_S);
		attacks[i].run(argv + 3);
		if (n_judged > 0)
			printf("%s: %u trials: %u dropped, %u refused, %u answered; %u failures\n",
			       argv[2], n_judged, n_ended[END_CLOSED], n_ended[END_REFUSED],
			       n_ended[END_DONE], n_failed);
		return n_failed > 0;
	}
	fprintf(stderr, "hostile: unknown attack \"%s\"\n", argv[2]);
	return 2;
}

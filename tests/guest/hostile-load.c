/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/guest/hostile.h"
#include "tests/wire/requests.h"

#define SESSIONS_MAX 64

static unsigned number_of_sessions(const char *text)
{
	unsigned n = number(text);

	if (n < 1 || n > SESSIONS_MAX)
		die("%u sessions are not from 1 to %d", n, SESSIONS_MAX);
	return n;
}

/* Clients that send requests and never read replies. The daemon must not keep all the replies. */

/* The attack ends when the daemon has read no request for this time. */
#define STALLED_MS 5000

/* Sends requests until N_SENT is N, or until the socket is full or closed. RET_GONE: it is closed. */
static void send_unread(int sock, unsigned *n_sent, unsigned n, bool *ret_gone)
{
	uint8_t buf[PACKET_MAX];

	*ret_gone = false;
	while (*n_sent < n) {
		size_t len = request_make(2 + *n_sent, OP(LIST_DEVICES), 0, NULL, 0, buf);

		if (!try_send(sock, buf, len, ret_gone))
			return;
		++*n_sent;
	}
}

/* unread SESSIONS REQUESTS: fails if the daemon takes REQUESTS requests from any of the SESSIONS sessions. */
void attack_unread(char **argv)
{
	unsigned n_sessions = number_of_sessions(argv[0]), n = number(argv[1]);
	unsigned n_sent[SESSIONS_MAX] = { 0 };
	unsigned n_taken = 0, n_stalled = 0, n_dropped = 0;
	struct pollfd p[SESSIONS_MAX];

	for (unsigned i = 0; i < n_sessions; i++)
		p[i] = (struct pollfd){ .fd = greeted_connect(), .events = POLLOUT };
	while (poll(p, n_sessions, STALLED_MS) > 0)
		for (unsigned i = 0; i < n_sessions; i++) {
			bool gone;

			if (!p[i].revents)
				continue;
			send_unread(p[i].fd, &n_sent[i], n, &gone);
			if (n_sent[i] == n)
				failed("session %u: all %u requests are taken", i, n);
			if (!gone && n_sent[i] < n)
				continue;
			n_dropped += gone;
			close(p[i].fd);
			p[i].fd = -1;
		}
	for (unsigned i = 0; i < n_sessions; i++) {
		n_taken += n_sent[i];
		if (p[i].fd < 0)
			continue;
		n_stalled++;
		close(p[i].fd);
	}
	printf("unread: %u sessions with %u requests each: %u are taken of all; "
	       "%u sessions stalled, %u dropped\n",
	       n_sessions, n, n_taken, n_stalled, n_dropped);
}

/* Many connections at once, which stay open until the daemon closes them. */

#define CROWD_MAX 20000
#define CROWD_STATUS_MAX 32
/* If the crowd gets no packet for this time, the daemon accepts no more connections. */
#define CROWD_STALLED_MS 5000
#define CROWD_SERIAL_ID 2

static struct crowd {
	int epoll;
	int socks[CROWD_MAX]; /* -1: not connected, or closed */
	unsigned n;
	unsigned n_open, n_queue_full, n_greeted, n_with_id, n_dropped, n_garbage;
	unsigned n_refused[CROWD_STATUS_MAX]; /* refused connections, by status */
	unsigned n_without_id;
} crowd;

static void crowd_lose(unsigned i)
{
	close(crowd.socks[i]);
	crowd.socks[i] = -1;
	crowd.n_open--;
}

static void crowd_read(unsigned i)
{
	struct answer answer = await_answer(crowd.socks[i], 0);

	switch (answer.end) {
	case END_SILENCE:
		return;
	case END_CLOSED:
		crowd.n_dropped++;
		crowd_lose(i);
		return;
	case END_DONE:
		if (answer.serial == CROWD_SERIAL_ID)
			crowd.n_with_id++;
		else
			crowd.n_greeted++;
		return;
	case END_REFUSED:
		if (answer.serial == CROWD_SERIAL_ID) {
			crowd.n_without_id++;
			return;
		}
		if (answer.status < CROWD_STATUS_MAX) {
			crowd.n_refused[answer.status]++;
			crowd_lose(i);
			return;
		}
		break;
	case END_GARBAGE:
		break;
	}
	crowd.n_garbage++;
	crowd_lose(i);
}

/* Handles packets from the daemon. Returns false if none arrived within the timeout. */
static bool crowd_wait(int timeout_ms)
{
	struct epoll_event events[64];
	int n = epoll_wait(crowd.epoll, events, 64, timeout_ms);

	for (int i = 0; i < n; i++)
		crowd_read(events[i].data.u32);
	return n > 0;
}

/*
 * Connects, and sends a hello and a request for an id: such a client needs the most descriptors in the daemon.
 * Returns false if the socket's queue is full.
 */
static bool crowd_add(unsigned i)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
	int sock = try_connect(SOCK_NONBLOCK);
	uint8_t buf[PACKET_MAX];

	crowd.socks[i] = sock;
	if (sock < 0 && errno != EAGAIN)
		die("connect: %s", strerror(errno));
	if (sock < 0)
		return false;
	crowd.n_open++;
	send_bytes(sock, buf, pack_hello(buf, 1));
	send_bytes(sock, buf, request_make(CROWD_SERIAL_ID, OP(CREATE_ID), 1, NULL, 0, buf));
	if (epoll_ctl(crowd.epoll, EPOLL_CTL_ADD, sock, &event) < 0)
		die("epoll_ctl: %s", strerror(errno));
	return true;
}

/* While a flood lasts, those who wait have descriptors, too. What they leave is taken one by one, until one is refused. */
static void fill_up(unsigned first)
{
	for (unsigned i = first; i < CROWD_MAX; i++) {
		unsigned n = crowd.n_greeted;

		if (!crowd_add(i))
			return;
		while (crowd.socks[i] >= 0 && crowd.n_greeted == n && crowd_wait(CROWD_STALLED_MS))
			;
		if (crowd.n_greeted == n)
			return;
	}
}

/*
 * crowd CONNECTS: tries to make CONNECTS connections. Prints "full" when the daemon accepts no more, and holds them until
 * stdin ends.
 */
void attack_crowd(char **argv)
{
	unsigned n = number(argv[0]), n_waiting;
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
	bool stalled = false;

	if (n > CROWD_MAX)
		die("%u are too many", n);
	crowd.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (crowd.epoll < 0)
		die("epoll_create1: %s", strerror(errno));
	p[0].fd = crowd.epoll;
	for (unsigned i = 0; i < n; i++) {
		while (!crowd_add(i) && !stalled)
			stalled = !crowd_wait(CROWD_STALLED_MS);
		if (crowd.socks[i] < 0)
			crowd.n_queue_full++;
		if (crowd_wait(0))
			stalled = false;
	}
	while (crowd_wait(CROWD_STALLED_MS))
		;
	fill_up(n);
	/* The daemon has not accepted the connections in the socket's queue. */
	n_waiting = crowd.n_open - crowd.n_greeted;
	printf("full: %u connects: %u are served (%u with an id, %u refused one), %u dropped, %u wait, "
	       "%u found the queue full",
	       n, crowd.n_greeted, crowd.n_with_id, crowd.n_without_id, crowd.n_dropped, n_waiting,
	       crowd.n_queue_full);
	for (unsigned i = 0; i < CROWD_STATUS_MAX; i++)
		if (crowd.n_refused[i] > 0)
			printf(", %u refused with status %u", crowd.n_refused[i], i);
	printf("\n");
	if (crowd.n_greeted == 0)
		failed("nobody is served");
	if (crowd.n_garbage > 0)
		failed("%u got a packet that is no valid reply", crowd.n_garbage);
	while (!p[1].revents && poll(p, 2, -1) > 0)
		crowd_wait(0);
	printf("held: %u connections are open\n", crowd.n_open);
}

/*
 * Slow clients: some send nothing, some send only their hello, and some, which are replaced every second, send one
 * byte.
 */

#define N_SLOW 50
#define SLOW_SECONDS 12 /* longer than the daemon waits for a hello */
#define HELLO_MIN_MS 9000

/* A silent connection that has ended or got a packet must be dropped, and not too early. */
static void judge_silent(struct pollfd silent[N_SLOW], int64_t start, unsigned *n_dropped)
{
	int64_t took = now_ms() - start;

	for (unsigned i = 0; i < N_SLOW; i++) {
		if (!silent[i].revents)
			continue;
		judge("a client that says nothing", await_end(silent[i].fd, 0), ALLOW(END_CLOSED));
		if (took < HELLO_MIN_MS)
			failed("a client that says nothing is dropped after %lld ms",
			       (long long)took);
		close(silent[i].fd);
		silent[i].fd = -1;
		++*n_dropped;
	}
}

void attack_slow(char **argv)
{
	static uint8_t hello[PACKET_MAX];
	size_t len = pack_hello(hello, 1);
	struct pollfd silent[N_SLOW];
	int idle[N_SLOW], slow[N_SLOW];
	unsigned n_silent = 0;
	int64_t start = now_ms();

	for (unsigned i = 0; i < N_SLOW; i++) {
		silent[i] = (struct pollfd){ .fd = must_connect(), .events = POLLIN };
		idle[i] = greeted_connect();
	}
	for (int second = 0; second < SLOW_SECONDS; second++) {
		int64_t next = start + 1000 * (second + 1);

		/* Each byte is a packet, and no packet of one byte is valid. */
		for (unsigned i = 0; i < N_SLOW; i++) {
			slow[i] = must_connect();
			send_bytes(slow[i], hello + (size_t)second % len, 1);
		}
		for (unsigned i = 0; i < N_SLOW; i++) {
			judge("one byte", await_end(slow[i], 0), ALLOW(END_CLOSED));
			close(slow[i]);
		}
		while (now_ms() < next)
			if (poll(silent, N_SLOW, (int)(next - now_ms())) > 0)
				judge_silent(silent, start, &n_silent);
	}
	/* On a busy machine the daemon may be late. */
	while (n_silent < N_SLOW && now_ms() < start + DEADLINE_MS)
		if (poll(silent, N_SLOW, (int)(start + DEADLINE_MS - now_ms())) > 0)
			judge_silent(silent, start, &n_silent);
	if (n_silent != N_SLOW)
		failed("%u of %d clients that say nothing are dropped", n_silent, N_SLOW);
	for (unsigned i = 0; i < N_SLOW; i++) {
		uint8_t buf[PACKET_MAX];

		send_bytes(idle[i], buf, request_make(2, OP(LIST_DEVICES), 0, NULL, 0, buf));
		judge("a client that said hello long ago", await_end(idle[i], 2), ALLOW(END_DONE));
		close(idle[i]);
	}
}

/* Clients that send requests without waiting for the replies to earlier ones. */

#define FLOOD_IDS 100

static const int flood_ops[] = {
	OP(CREATE_ID),    OP(SET_OPTION),   OP(GET_OPTION), OP(BIND_ADDR),
	OP(LIST_DEVICES), OP(INIT_QP_ATTR), OP(GET_STATUS), OP(DESTROY_ID),
};
#define N_FLOOD_OPS (sizeof(flood_ops) / sizeof(flood_ops[0]))

struct flooder {
	int sock;
	unsigned n_sent, n_answered, n_refused;
};

static size_t flood_request(unsigned i, uint8_t buf[PACKET_MAX])
{
	uint32_t id = 1 + i / N_FLOOD_OPS % FLOOD_IDS;

	return request_make(2 + i, flood_ops[i % N_FLOOD_OPS], id, NULL, 0, buf);
}

static void flood_read(struct flooder *f, unsigned i)
{
	struct answer answer = await_answer(f->sock, 0);

	if (answer.end == END_SILENCE)
		return;
	if (answer.end != END_DONE && answer.end != END_REFUSED)
		die("session %u: no answer to request %u", i, f->n_answered);
	if (answer.serial != 2 + f->n_answered)
		die("session %u: answer %u comes instead of %u", i, answer.serial,
		    2 + f->n_answered);
	/* Only admins can request the status. */
	if (flood_ops[f->n_answered % N_FLOOD_OPS] == OP(GET_STATUS) && answer.end != END_REFUSED)
		failed("session %u: request %u is not refused", i, f->n_answered);
	f->n_refused += answer.end == END_REFUSED;
	f->n_answered++;
}

/* flood SESSIONS REQUESTS: each of SESSIONS sessions sends REQUESTS requests, and must get all replies in order. */
void attack_flood(char **argv)
{
	unsigned n_sessions = number_of_sessions(argv[0]), n = number(argv[1]);
	struct flooder flooders[SESSIONS_MAX] = { 0 };
	unsigned n_open = n_sessions, n_refused = 0;
	struct pollfd p[SESSIONS_MAX];
	uint8_t buf[PACKET_MAX];
	int64_t start;

	for (unsigned i = 0; i < n_sessions; i++) {
		flooders[i].sock = greeted_connect();
		p[i] = (struct pollfd){ .fd = flooders[i].sock, .events = POLLIN | POLLOUT };
	}
	start = now_ms();
	while (n_open > 0) {
		if (poll(p, n_sessions, DEADLINE_MS) == 0)
			die("%u sessions wait for their answers", n_open);
		for (unsigned i = 0; i < n_sessions; i++) {
			struct flooder *f = &flooders[i];
			bool gone = false;

			if (p[i].revents & ~POLLOUT)
				flood_read(f, i);
			while ((p[i].revents & POLLOUT) && f->n_sent < n &&
			       try_send(f->sock, buf, flood_request(f->n_sent, buf), &gone))
				f->n_sent++;
			if (gone)
				die("session %u is dropped after %u answers", i, f->n_answered);
			if (f->n_sent == n)
				p[i].events = POLLIN;
			if (p[i].fd < 0 || f->n_answered < n)
				continue;
			close(f->sock);
			p[i].fd = -1;
			n_refused += f->n_refused;
			n_open--;
		}
	}
	printf("flood: %u sessions with %u requests each: all are answered, in order, %u refused, "
	       "within %lld ms\n",
	       n_sessions, n, n_refused, (long long)(now_ms() - start));
}

#define GROUPS_MAX 65535

/*
 * groups N HELLOS: this process, which must be root in a user namespace, gets the groups 1 to N, and sends HELLOS hellos,
 * each on a connection of its own. The suite knows which answer is right.
 */
void attack_groups(char **argv)
{
	static gid_t gids[GROUPS_MAX];
	unsigned n = number(argv[0]), n_hellos = number(argv[1]), n_ended[N_ENDS] = { 0 };
	int64_t begin, end, took = 0, longest = 0;
	uint8_t buf[PACKET_MAX];

	if (n > GROUPS_MAX)
		die("%u groups are more than %d", n, GROUPS_MAX);
	for (unsigned i = 0; i < n; i++)
		gids[i] = i + 1;
	if (setgroups(n, gids) < 0)
		die("setgroups: %s", strerror(errno));
	for (unsigned i = 0; i < n_hellos; i++) {
		int sock = must_connect();
		struct answer answer;

		begin = now_ms();
		send_bytes(sock, buf, pack_hello(buf, 1));
		answer = await_answer(sock, DEADLINE_MS);
		end = now_ms() - begin;
		took += end;
		longest = end > longest ? end : longest;
		judge("a hello with many groups", answer.end, ALLOW(END_DONE) | ALLOW(END_REFUSED));
		n_ended[answer.end]++;
		close(sock);
	}
	printf("groups: %u groups, %u hellos: %u answered, %u refused; each took %lld ms, the longest %lld ms\n",
	       n, n_hellos, n_ended[END_DONE], n_ended[END_REFUSED],
	       (long long)(took / (n_hellos ? n_hellos : 1)), (long long)longest);
}

/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A process pretends to be another one: while the daemon is stopped, a child connects to it, passes the connections to
 * this process, and ends. The suite then starts a victim with the child's pid, and lets the daemon continue. Or it
 * pretends to be on the host: nothing can be found out about a child that has ended.
 */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/status.h"
#include "tests/guest/hostile.h"
#include "tests/wire/requests.h"

enum way {
	WAY_PLAIN, /* the hello does not announce the feature PROOF */
	WAY_PROOF, /* the hello announces PROOF, and this process sends its own proof */
	N_WAYS,
};

static const char *const way_names[N_WAYS] = { "without a proof", "with a proof of its own" };

/* A child connects SOCKS, and ends. Returns the child's pid. */
static pid_t connect_and_end(int socks[N_WAYS])
{
	uint8_t buf[PACKET_MAX];
	int pair[2], status;
	size_t n;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
		die("socketpair: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < N_WAYS; i++)
			socks[i] = must_connect();
		_exit(packet_send(pair[1], "x", 1, socks, N_WAYS) == 0 ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		die("the process that connects failed");
	if (packet_recv(pair[0], buf, socks, N_WAYS, &n) != 1 || n != N_WAYS)
		die("no sockets came");
	close(pair[0]);
	close(pair[1]);
	return pid;
}

/* Reads a line from the suite. */
static void await_word(char *word, size_t size)
{
	if (!fgets(word, (int)size, stdin))
		die("the suite says nothing");
	word[strcspn(word, "\n")] = 0;
}

static struct answer ask(int sock, Rdmabroker__Request *request)
{
	static uint32_t serial = 10;
	uint8_t buf[PACKET_MAX];

	request->serial = ++serial;
	send_bytes(sock, buf, pack_request(buf, request));
	return await_answer(sock, DEADLINE_MS);
}

/* Connects a new id with the QP number QPN to the server at 10.9.0.1. Returns the last answer. */
static struct answer offer_qp(int sock, uint32_t qpn, uint32_t port)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__CreateId create = RDMABROKER__CREATE_ID__INIT;
	Rdmabroker__ResolveAddr resolve = RDMABROKER__RESOLVE_ADDR__INIT;
	Rdmabroker__Connect connect_to = RDMABROKER__CONNECT__INIT;
	Rdmabroker__ConnParam param = RDMABROKER__CONN_PARAM__INIT;
	Rdmabroker__Address address = RDMABROKER__ADDRESS__INIT;
	uint8_t host[] = { 10, 9, 0, 1 };
	int64_t deadline = now_ms() + DEADLINE_MS;
	struct answer answer;

	create.id = resolve.id = connect_to.id = 1;
	create.port_space = 0x0106;
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &create;
	answer = ask(sock, &request);
	if (answer.end != END_DONE)
		return answer;
	address.addr.data = host;
	address.addr.len = sizeof(host);
	address.port = port;
	resolve.dst = &address;
	resolve.timeout_ms = DEADLINE_MS;
	resolve.route = true;
	request.op_case = RDMABROKER__REQUEST__OP_RESOLVE_ADDR;
	request.resolve_addr = &resolve;
	answer = ask(sock, &request);
	if (answer.end != END_DONE)
		return answer;
	param.qp_num = qpn;
	connect_to.param = &param;
	request.op_case = RDMABROKER__REQUEST__OP_CONNECT;
	request.connect = &connect_to;
	/* Until the route is resolved, the answer is STATUS_BAD_STATE. */
	do {
		poll(NULL, 0, 20);
		answer = ask(sock, &request);
	} while (answer.end == END_REFUSED && answer.status == STATUS_BAD_STATE &&
		 now_ms() < deadline);
	return answer;
}

/*
 * The arguments are one of:
 *   pid unit      Only a rule for the victim's unit would allow a session. Each hello must be refused.
 *   pid qp PORT   The suite's second line is the number of the victim's QP. Each hello must succeed, and each connect
 *                 to PORT with this number must be refused.
 */
void attack_pid(char **argv)
{
	bool qp = argv[0] && strcmp(argv[0], "qp") == 0;
	char what[128], word[64];
	int socks[N_WAYS];

	printf("pid %d\n", connect_and_end(socks));
	await_word(word, sizeof(word));
	for (enum way way = 0; way < N_WAYS; way++) {
		enum end end = greet(socks[way], way == WAY_PROOF).end;

		snprintf(what, sizeof(what), "a hello in a victim's place, %s", way_names[way]);
		judge(what, end, ALLOW(qp ? END_DONE : END_REFUSED));
		if (qp && end != END_DONE)
			die("%s", what);
	}
	if (!qp)
		return;
	printf("greeted\n");
	await_word(word, sizeof(word));
	for (enum way way = 0; way < N_WAYS; way++) {
		struct answer answer = offer_qp(socks[way], number(word), number(argv[1]));

		snprintf(what, sizeof(what), "a victim's QP, %s", way_names[way]);
		judge(what, answer.end, ALLOW(END_REFUSED));
		if (answer.end == END_REFUSED && answer.status != STATUS_NOT_OWNER)
			failed("%s: status %u", what, answer.status);
		close(socks[way]);
	}
}

/* What needs no rule on the socket for administration, or on the helper's. */
static const int rights[] = {
	OP(RELOAD),      OP(DRAIN),       OP(KICK),           OP(GET_STATUS),  OP(LIST),
	OP(LIST_RULES),  OP(GET_METRICS), OP(WATCH),          OP(LEND_DEVICE), OP(SERVE_PEERS),
	OP(ANSWER_PEER), OP(FIND_PEER),   OP(CLEAR_REFUSALS),
};

static struct answer ask_for(int sock, int right)
{
	static uint32_t serial = 100;
	uint8_t buf[PACKET_MAX];

	send_bytes(sock, buf, request_make(++serial, right, 1, NULL, 0, buf));
	return await_answer(sock, DEADLINE_MS);
}

static void expect_no_right(int sock, const char *who)
{
	char what[192];

	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		struct answer answer = ask_for(sock, rights[i]);

		snprintf(what, sizeof(what), "%s of %s", request_name(rights[i]), who);
		judge(what, answer.end, ALLOW(END_REFUSED));
		if (answer.end == END_REFUSED && answer.status != STATUS_DENIED &&
		    answer.status != STATUS_NOT_PERMITTED)
			failed("%s: status %u", what, answer.status);
	}
}

/*
 * rights: the user is allowed a session and nothing else, so each hello of a process that has ended must succeed, and each
 * request for a right be refused.
 */
void attack_rights(char **argv)
{
	char what[128];
	int socks[N_WAYS];

	connect_and_end(socks);
	for (enum way way = 0; way < N_WAYS; way++) {
		snprintf(what, sizeof(what), "a process that has ended, %s", way_names[way]);
		judge(what, greet(socks[way], way == WAY_PROOF).end, ALLOW(END_DONE));
		expect_no_right(socks[way], what);
		close(socks[way]);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/newcomers.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"
#include "util/closer.h"
#include "util/offload.h"

/*
 * A descriptor whose close() blocks must not delay other users. The attacks use sockets with SO_LINGER and unsent
 * data, so close() blocks for up to a minute.
 */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define LINGER_SECONDS 60
#define REQUESTS 1000
/* Each session is charged for two descriptors: its socket and a pidfd. */
#define A_SESSION 2

static struct wire_client attacker, other;
static int readers[64]; /* the peers of the sockets that linger */
static unsigned n_readers;

static int lingering_socket(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { .l_onoff = 1, .l_linger = LINGER_SECONDS };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);
	static char data[65536];

	ck_assert_int_eq(bind(listener, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&in, &len), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(connect(sock, (struct sockaddr *)&in, sizeof(in)), 0);
	readers[n_readers] = accept(listener, NULL, NULL);
	ck_assert_int_ge(readers[n_readers++], 0);
	close(listener);
	while (send(sock, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	ck_assert_int_eq(setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return sock;
}

/* Closes the peers of the lingering sockets, so that closing these sockets no longer blocks. */
static void let_go(void)
{
	while (n_readers > 0)
		close(readers[--n_readers]);
	wire.n_stuck = 0;
}

static void set_up(void)
{
	wire_start("allow any\n");
	wire_connect(&other);
	wire_ask(&other, OP(HELLO), 0);
	ck_assert_int_eq(other.status, 0);
	wire_connect(&attacker);
}

static void tear_down(void)
{
	let_go();
	wire_close(&attacker);
	wire_close(&other);
	wire_run(NULL, 0);
	wire_end();
}

/* Checks that requests of OTHER are answered while N_STUCK descriptors of the attacker are being closed. */
static void expect_others_served(unsigned n_stuck)
{
	wire.n_stuck = n_stuck;
	for (unsigned i = 0; i < REQUESTS; i++) {
		wire_ask(&other, OP(LIST_DEVICES), 0);
		ck_assert_int_eq(other.status, 0);
	}
	ck_assert_uint_eq(closer_n_waiting(wire.core->closer), n_stuck);
	/* The descriptors are still open, and therefore charged. */
	ck_assert_uint_ge(wire.core->account.used[ACCOUNT_FDS], n_stuck);
}

static void send_evil(const uint8_t *buf, size_t len)
{
	int fd = lingering_socket();

	wire_send(&attacker, buf, len, &fd);
	close(fd);
}

START_TEST(a_descriptor_before_hello)
{
	uint8_t buf[PACKET_MAX];

	send_evil(buf, wire_make(&attacker, OP(HELLO), 0, buf));
	expect_others_served(1);
}
END_TEST

START_TEST(a_descriptor_after_hello)
{
	uint8_t buf[PACKET_MAX];

	wire_ask(&attacker, OP(HELLO), 0);
	send_evil(buf, wire_make(&attacker, OP(IMPORT_ID), 0, buf));
	expect_others_served(1);
}
END_TEST

/* The kernel closes an unread descriptor together with the client's socket, so closing that socket blocks. */
START_TEST(a_descriptor_in_an_unread_packet)
{
	uint8_t buf[PACKET_MAX];

	/* A packet that cannot be decoded ends the session. */
	wire_send(&attacker, (const uint8_t *)"\xff\xff", 2, NULL);
	send_evil(buf, wire_make(&attacker, OP(HELLO), 0, buf));
	expect_others_served(1);
}
END_TEST

static void send_full_packet(int sock, int fd, size_t len)
{
	struct iovec iov = { .iov_base = (void *)"x", .iov_len = len };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * 253);
	for (int i = 0; i < 253; i++)
		memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &fd, sizeof(fd));
	ck_assert_int_eq(sendmsg(sock, &msg, 0), (ssize_t)len);
}

/* The kernel lets a packet carry 253 descriptors (SCM_MAX_FD). */
START_TEST(a_packet_full_of_descriptors)
{
	int fd = lingering_socket();

	send_full_packet(attacker.sock, fd, 1);
	close(fd);
	expect_others_served(253);
}
END_TEST

/* By default, the kernel lets a user have 1024 descriptors in flight. Three packets of 253 stay clear of that. */
#define FULL_PACKETS 3

/*
 * The packets carry more descriptors than the daemon receives from one user. A thread closes the socket with the
 * remaining packets.
 */
START_TEST(many_packets_full_of_descriptors)
{
	unsigned n;

	wire_send(&attacker, (const uint8_t *)"\xff\xff", 2, NULL);
	for (unsigned i = 0; i < FULL_PACKETS; i++) {
		int fd = lingering_socket();

		send_full_packet(attacker.sock, fd, 1);
		close(fd);
	}
	wire.n_stuck = FULL_PACKETS * 253 + 1;
	wire_run(NULL, 0);
	n = closer_n_waiting(wire.core->closer);
	ck_assert_uint_ge(n, CLOSER_MANY);
	ck_assert_uint_le(n, CLOSER_MANY + 253 + 1);
	let_go();
}
END_TEST

/* Runs the loop until only N descriptors are left to be closed, which block. */
static void run_until_waiting(unsigned n)
{
	int64_t end = patience_end();

	while (closer_n_waiting(wire.core->closer) > n && patience_now_ms() < end)
		sd_event_run(wire.loop, 10000);
	if (closer_n_waiting(wire.core->closer) != n)
		WAITED("%u descriptors to be left, and not %u", n,
		       closer_n_waiting(wire.core->closer));
}

/* An empty packet looks like the end of the connection, but the descriptors behind it must be found. */
START_TEST(descriptors_behind_empty_packets)
{
	struct wire_client client;
	int fd = lingering_socket();

	wire_send(&attacker, (const uint8_t *)"\xff\xff", 2, NULL);
	ck_assert_int_eq(send(attacker.sock, "", 0, 0), 0);
	send_full_packet(attacker.sock, fd, 0);
	close(fd);
	expect_others_served(253);
	/* If a client has sent nothing, its socket is closed without delay. */
	wire_connect(&client);
	wire_close(&client);
	wire_run(NULL, 0);
	run_until_waiting(253);
}
END_TEST

/* While many descriptors of a user are being closed, this user's sessions are not read. */
START_TEST(a_client_with_many_closings_waits)
{
	struct wire_client again, *const clients[] = { &again };
	uint8_t buf[PACKET_MAX];

	ck_assert(!closer_is_behind(wire.core->closer, owner_of(geteuid())));
	wire_connect(&again);
	wire_ask(&again, OP(HELLO), 0);
	for (unsigned i = 0; i <= CLOSER_MANY; i++) {
		struct closing *closing;

		ck_assert_int_eq(closing_new(&closing, wire.core->closer, 1), 0);
		ck_assert_int_eq(closing_bind(closing, owner_of(geteuid()), CLOSER_ADMITTED), 0);
		closing_add(closing, i == 0 ? lingering_socket() : dup(0));
		closing_go(closing);
	}
	wire.n_stuck = CLOSER_MANY + 1;
	ck_assert(closer_is_behind(wire.core->closer, owner_of(geteuid())));
	wire_ask(&again, OP(LIST_DEVICES), 0);
	ck_assert_uint_eq(again.n_answers, 0);
	let_go();
	wire_run(clients, 1);
	ck_assert_uint_eq(again.n_answers, 1);
	wire_send(&again, buf, wire_make(&again, OP(LIST_DEVICES), 0, buf), NULL);
	wire_run(clients, 1);
	ck_assert_int_eq(again.status, 0);
	wire_close(&again);
}
END_TEST

/* A client cannot send a descriptor to the broker through an export, because sending fails. */
START_TEST(a_descriptor_in_an_export)
{
	int fd;

	wire_ask(&attacker, OP(HELLO), 0);
	wire_ask(&attacker, OP(CREATE_ID), 1);
	wire_ask(&attacker, OP(EXPORT_ID), 1);
	ck_assert_int_ge(attacker.fd, 0);
	fd = lingering_socket();
	ck_assert_int_eq(packet_send(attacker.fd, "x", 1, &fd, 1), -ECONNRESET);
	let_go();
	close(fd);
	/*
	 * The descriptor in flight is charged until the daemon notices that the client has received it. The export
	 * ends with its last descriptor.
	 */
	while (wire.core->account.used[ACCOUNT_FDS] > 2 * A_SESSION + 1)
		sd_event_run(wire.loop, UINT64_MAX);
	close(attacker.fd);
	attacker.fd = -1;
	wire_ask(&other, OP(LIST_DEVICES), 0);
	ck_assert_uint_eq(wire.core->account.used[ACCOUNT_FDS], 2 * A_SESSION);
}
END_TEST

/* Jobs of a lane run one after the other. Each user has a lane, so a stuck job delays only jobs of that user. */

struct note {
	struct offload_job job;
	int wait_fd; /* run() first reads from it until the end of file; -1: run() does not wait */
	unsigned order;
};

static unsigned n_run, n_done;

static void run_note(struct offload_job *job)
{
	struct note *note = container_of(job, struct note, job);
	char c;

	while (note->wait_fd >= 0 && read(note->wait_fd, &c, 1) > 0)
		;
	note->order = __atomic_add_fetch(&n_run, 1, __ATOMIC_SEQ_CST);
}

static void note_done(struct offload_job *job)
{
	n_done++;
}

START_TEST(a_stuck_job_delays_its_lane_alone)
{
	struct note notes[6] = { 0 };
	static const uint64_t keys[6] = { 1, 1, 2, 2, 3, 1 };
	struct offload *offload;
	int pipes[2];

	n_run = n_done = 0;
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(offload_new(&offload, wire.loop, 2), 0);
	for (int i = 0; i < 6; i++) {
		notes[i].job.run = run_note;
		notes[i].job.done = note_done;
		notes[i].wait_fd = i == 0 ? pipes[0] : -1;
		ck_assert_int_eq(offload_prepare(offload, &notes[i].job, keys[i]), 0);
	}
	for (int i = 0; i < 6; i++)
		offload_submit(offload, &notes[i].job);
	while (n_done < 3)
		sd_event_run(wire.loop, UINT64_MAX);
	/* Only the jobs of lane 1 are not done, because the first of them is stuck. */
	ck_assert_uint_eq(offload_n_jobs(offload), 3);
	ck_assert_uint_lt(notes[2].order, notes[3].order);
	close(pipes[1]);
	while (n_done < 6)
		sd_event_run(wire.loop, UINT64_MAX);
	ck_assert_uint_lt(notes[0].order, notes[1].order);
	ck_assert_uint_lt(notes[1].order, notes[5].order);
	ck_assert_uint_eq(offload_n_jobs(offload), 0);
	offload_free(offload);
	close(pipes[0]);
}
END_TEST

/* Separate threads close the descriptors of users without a session, so that other users are not delayed. */
START_TEST(users_without_session_delay_each_other_alone)
{
	struct closing *closing;

	for (unsigned i = 0; i <= CLOSER_THREADS_FOR_STRANGERS; i++) {
		ck_assert_int_eq(closing_new(&closing, wire.core->closer, 1), 0);
		ck_assert_int_eq(closing_bind(closing, owner_of(70000 + i), CLOSER_STRANGER), 0);
		closing_add(closing, lingering_socket());
		closing_go(closing);
	}
	ck_assert_int_eq(closing_new(&closing, wire.core->closer, 1), 0);
	ck_assert_int_eq(closing_bind(closing, owner_of(70000), CLOSER_ADMITTED), 0);
	closing_add(closing, dup(0));
	closing_go(closing);
	while (closer_n_waiting(wire.core->closer) > CLOSER_THREADS_FOR_STRANGERS + 1)
		sd_event_run(wire.loop, UINT64_MAX);
	let_go();
}
END_TEST

/* The threads for admitted users are blocked, but clients that send no descriptors are not delayed. */
START_TEST(stuck_users_delay_no_empty_socket)
{
	struct wire_client client, *const clients[] = { &client };
	struct closing *closing;

	for (unsigned i = 0; i < CLOSER_THREADS; i++) {
		ck_assert_int_eq(closing_new(&closing, wire.core->closer, 1), 0);
		ck_assert_int_eq(closing_bind(closing, owner_of(70000 + i), CLOSER_ADMITTED), 0);
		closing_add(closing, lingering_socket());
		closing_go(closing);
	}
	wire.n_stuck = CLOSER_THREADS + 1;
	for (unsigned greeted = 0; greeted < 2; greeted++) {
		wire_connect(&client);
		if (greeted)
			wire_ask(&client, OP(HELLO), 0);
		wire_close(&client);
		wire_run(clients, 0);
		run_until_waiting(CLOSER_THREADS);
	}
	let_go();
}
END_TEST

/*
 * Sends a hello, whose reply requests a proof of identity. Then sends a hello with the proof, and does not wait for
 * the reply.
 */
static void send_proof(struct wire_client *client)
{
	static const uint8_t features[] = { 2 << 3, RDMABROKER__FEATURE__FEATURE_PROOF };
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct identity *identity = &client->session->identity;
	int proof = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint8_t buf[PACKET_MAX];
	size_t n;

	/* Pretend that the kernel could not identify the process. */
	identity->proven = false;
	n = request_make(++client->serial, OP(HELLO), 0, features, sizeof(features), buf);
	wire_send(client, buf, n, NULL);
	wire_run(&client, 1);
	ck_assert_int_eq(client->status, 0);
	snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "%s", identity->question);
	ck_assert_int_eq(bind(proof, (struct sockaddr *)&sun,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
					  strlen(identity->question))),
			 0);
	ck_assert_int_eq(listen(proof, 0), 0);
	n = request_make(++client->serial, OP(HELLO), 0, features, sizeof(features), buf);
	wire_send(client, buf, n, &proof);
	close(proof);
}

/* The threads for users without a session are blocked. Other threads close the proof of an admitted client. */
START_TEST(users_without_session_delay_no_proof)
{
	struct wire_client client, *const clients[] = { &client };
	struct closing *closing;

	for (unsigned i = 0; i < CLOSER_THREADS_FOR_STRANGERS; i++) {
		ck_assert_int_eq(closing_new(&closing, wire.core->closer, 1), 0);
		ck_assert_int_eq(closing_bind(closing, owner_of(70000 + i), CLOSER_STRANGER), 0);
		closing_add(closing, lingering_socket());
		closing_go(closing);
	}
	wire.n_stuck = CLOSER_THREADS_FOR_STRANGERS + 1;
	wire_connect(&client);
	send_proof(&client);
	wire_run(clients, 1);
	ck_assert_int_eq(client.status, 0);
	ck_assert(client.session->identity.proven);
	run_until_waiting(CLOSER_THREADS_FOR_STRANGERS);
	wire_close(&client);
	let_go();
}
END_TEST

/* The daemon ends while it looks up the systemd unit of a client that has proven its identity. */
START_TEST(the_daemon_ends_during_a_proof)
{
	struct wire_client client;

	wire_connect(&client);
	send_proof(&client);
	while (!client.session->workload_lookup)
		ck_assert_int_gt(sd_event_run(wire.loop, 0), 0);
	wire.server = server_free(wire.server);
	wire_close(&client);
}
END_TEST

/* The newcomers has places for clients that have not sent a hello yet. */

START_TEST(the_user_with_most_places_loses_the_oldest)
{
	struct newcomers_place places[NEWCOMERS_MAX + 2] = { 0 }, *surplus;
	struct newcomers newcomers;

	newcomers_init(&newcomers);
	newcomers.account.own = 1;
	for (unsigned i = 0; i < NEWCOMERS_PER_USER; i++)
		ck_assert_int_eq(newcomers_enter(&newcomers, &places[i], owner_of(1000)), 0);
	ck_assert_ptr_null(newcomers_surplus(&newcomers));
	/* With one more client, the user's oldest client has to go. */
	ck_assert_int_eq(newcomers_enter(&newcomers, &places[NEWCOMERS_PER_USER], owner_of(1000)),
			 0);
	ck_assert_ptr_eq(newcomers_surplus(&newcomers), &places[0]);
	newcomers_leave(&places[0]);
	ck_assert_ptr_null(newcomers_surplus(&newcomers));
	/* Many users take one place each, until all places are taken. */
	for (unsigned i = NEWCOMERS_PER_USER + 1; i <= NEWCOMERS_MAX; i++)
		ck_assert_int_eq(newcomers_enter(&newcomers, &places[i], owner_of(2000 + i)), 0);
	ck_assert_uint_eq(newcomers.n, NEWCOMERS_MAX);
	ck_assert_ptr_null(newcomers_surplus(&newcomers));
	/* Root and the daemon's own user do not take a place. */
	ck_assert_int_eq(newcomers_enter(&newcomers, &places[0], owner_of(0)), 0);
	ck_assert_ptr_null(newcomers_surplus(&newcomers));
	ck_assert_int_eq(newcomers_enter(&newcomers, &places[NEWCOMERS_MAX + 1], owner_of(3000)),
			 0);
	surplus = newcomers_surplus(&newcomers);
	ck_assert_ptr_eq(surplus, &places[1]);
	for (unsigned i = 0; i < NEWCOMERS_MAX + 2; i++)
		newcomers_leave(&places[i]);
	newcomers_done(&newcomers);
}
END_TEST

/* The uids of a container take no more places than one user, and the one with most of them loses the oldest. */
START_TEST(a_range_with_most_places_loses_one)
{
	struct newcomers_place places[NEWCOMERS_PER_USER + 2] = { 0 };
	struct newcomers newcomers;
	unsigned n = 0;

	newcomers_init(&newcomers);
	ck_assert_int_eq(newcomers_enter(&newcomers, &places[n++], owner_of(1000)), 0);
	for (; n < NEWCOMERS_PER_USER; n++)
		ck_assert_int_eq(newcomers_enter(&newcomers, &places[n],
						 (struct owner){ 100000 + n, 100000 }),
				 0);
	for (; n < NEWCOMERS_PER_USER + 2; n++) {
		ck_assert_ptr_null(newcomers_surplus(&newcomers));
		ck_assert_int_eq(newcomers_enter(&newcomers, &places[n],
						 (struct owner){ 165536, 100000 }),
				 0);
	}
	ck_assert_ptr_eq(newcomers_surplus(&newcomers), &places[NEWCOMERS_PER_USER]);
	for (unsigned i = 0; i < n; i++)
		newcomers_leave(&places[i]);
	newcomers_done(&newcomers);
}
END_TEST

/* Silent connections replace only each other. A client that sends a hello is let in despite them. */
START_TEST(silent_connections)
{
	struct wire_client silent[3 * NEWCOMERS_PER_USER];
	struct wire_client late;
	unsigned n_left = 0;

	for (unsigned i = 0; i < 3 * NEWCOMERS_PER_USER; i++)
		wire_connect(&silent[i]);
	wire_connect(&late);
	wire_ask(&late, OP(HELLO), 0);
	ck_assert_int_eq(late.status, 0);
	for (unsigned i = 0; i < 3 * NEWCOMERS_PER_USER; i++) {
		struct pollfd p = { .fd = silent[i].sock };

		poll(&p, 1, 0);
		n_left += !(p.revents & POLLHUP);
		wire_close(&silent[i]);
	}
	/*
	 * The oldest clients had to leave, the attacker of set_up() first. LATE took one more place until its hello.
	 */
	ck_assert_uint_eq(n_left, NEWCOMERS_PER_USER - 1);
	wire_close(&late);
}
END_TEST

/* The client does not receive the descriptors that the daemon sends. */

START_TEST(descriptors_in_flight_are_charged)
{
	struct account *account = &wire.core->account;
	uint8_t buf[PACKET_MAX];
	char c;

	wire_ask(&attacker, OP(HELLO), 0);
	ck_assert_uint_eq(account->used[ACCOUNT_FDS], 2 * A_SESSION);
	for (uint32_t id = 1; id <= 2; id++)
		wire_ask(&attacker, OP(CREATE_ID), id);
	for (uint32_t id = 1; id <= 2; id++) {
		wire_send(&attacker, buf, wire_make(&attacker, OP(EXPORT_ID), id, buf), NULL);
		/* Without clients, wire_run() does not read the replies. */
		wire_run(NULL, 0);
	}
	/* Each request is charged for two descriptors: the export and the descriptor in flight. */
	ck_assert_uint_eq(account->used[ACCOUNT_FDS], 2 * A_SESSION + 2 + 2);
	/* The exports end with their ids. The descriptors in flight remain charged. */
	for (uint32_t id = 1; id <= 2; id++) {
		wire_send(&attacker, buf, wire_make(&attacker, OP(DESTROY_ID), id, buf), NULL);
		wire_run(NULL, 0);
	}
	ck_assert_uint_eq(account->used[ACCOUNT_FDS], 2 * A_SESSION + 2);
	/* The client peeks at a packet and hangs up. Its socket and both descriptors in flight remain charged. */
	ck_assert_int_eq(recv(attacker.sock, &c, 1, MSG_PEEK), 1);
	shutdown(attacker.sock, SHUT_RDWR);
	wire_run(NULL, 0);
	ck_assert_uint_eq(wire.core->n_sessions, 1);
	ck_assert_uint_eq(account->used[ACCOUNT_FDS], A_SESSION + 1 + 2);
	/* A timer of the daemon finds that the packets are gone, and ends the charges. */
	close(attacker.sock);
	attacker.sock = -1;
	while (account->used[ACCOUNT_FDS] > A_SESSION)
		sd_event_run(wire.loop, UINT64_MAX);
}
END_TEST

START_TEST(too_many_descriptors_in_flight)
{
	struct wire_client *const clients[] = { &attacker };
	uint8_t buf[PACKET_MAX];

	wire_ask(&attacker, OP(HELLO), 0);
	wire.core->account.limit_per_user[ACCOUNT_FDS] = 2 * A_SESSION + 3;
	for (uint32_t id = 1; id <= 2; id++)
		wire_ask(&attacker, OP(CREATE_ID), id);
	for (uint32_t id = 1; id <= 2; id++)
		wire_send(&attacker, buf, wire_make(&attacker, OP(EXPORT_ID), id, buf), NULL);
	wire_run(clients, 1);
	/* The last reply belongs to the second request. */
	ck_assert_int_eq(attacker.error, EDQUOT);
	ck_assert(!attacker.dropped);
	/* The client has received both replies, so another descriptor can be sent. */
	wire_ask(&attacker, OP(EXPORT_ID), 2);
	ck_assert_int_eq(attacker.status, 0);
}
END_TEST

UNIT_MAIN("blocking", set_up, tear_down, a_descriptor_before_hello, a_descriptor_after_hello,
	  a_descriptor_in_an_unread_packet, a_packet_full_of_descriptors,
	  many_packets_full_of_descriptors, descriptors_behind_empty_packets,
	  a_client_with_many_closings_waits, a_descriptor_in_an_export,
	  a_stuck_job_delays_its_lane_alone, users_without_session_delay_each_other_alone,
	  stuck_users_delay_no_empty_socket, users_without_session_delay_no_proof,
	  the_daemon_ends_during_a_proof, the_user_with_most_places_loses_the_oldest,
	  a_range_with_most_places_loses_one, silent_connections, descriptors_in_flight_are_charged,
	  too_many_descriptors_in_flight)

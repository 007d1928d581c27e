/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/object/table.h"
#include "core/object/timewait.h"
#include "core/rule/enforce.h"
#include "core/verbs/group.h"
#include "rpc/peer.h"
#include "tests/unit/ranges.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/*
 * What a victim waits for while another user lets the daemon work: the processor time of the daemon's loop between the
 * victim's request and its reply, and that of the longest turn of the loop. The daemon is on the fake fabric, in this
 * process, with the limits that are shipped. Root runs this, because each user needs a uid.
 */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define ATTACKER 4001
#define VICTIM 4002
#define SAMPLES_MAX 20000
#define N_MOST 1024

static struct wire_client victim, replies, clients[N_MOST];
static double samples[SAMPLES_MAX], longest_ms;
static unsigned n_samples;

static double cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* One turn of the loop. False: there was nothing to do. */
static bool turn(void)
{
	double begin = cpu_ms(), ms;
	bool any = sd_event_run(wire.loop, 0) > 0;

	ms = cpu_ms() - begin;
	longest_ms = ms > longest_ms ? ms : longest_ms;
	return any;
}

static size_t drain(int sock)
{
	uint8_t buf[PACKET_MAX];
	size_t n_fds, n = 0;

	while (packet_recv(sock, buf, NULL, 0, &n_fds) > 0)
		n++;
	return n;
}

/* The victim requests something, until the loop has nothing else to do. */
static void watch(void (*each)(void))
{
	uint8_t buf[PACKET_MAX];
	unsigned n_idle = 0;

	longest_ms = 0;
	n_samples = 0;
	while (n_idle < 3 && n_samples < SAMPLES_MAX) {
		double begin = cpu_ms();
		unsigned n_turns = 0;

		wire_send(&victim, buf, wire_make(&victim, OP(GET_LIMITS), 0, buf), NULL);
		do {
			turn();
			n_turns++;
		} while (drain(victim.sock) == 0);
		samples[n_samples++] = cpu_ms() - begin;
		if (each)
			each();
		n_idle = turn() ? 0 : n_idle + 1;
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const char *what)
{
	qsort(samples, n_samples, sizeof(samples[0]), compare);
	printf("%-52s %6u  p50 %8.3f  p99 %8.3f  most %8.3f  turn %8.3f\n", what, n_samples,
	       samples[n_samples / 2], samples[n_samples * 99 / 100], samples[n_samples - 1],
	       longest_ms);
}

static void run_daemon(void)
{
	wire_run(NULL, 0);
}

static void connect_as(struct wire_client *client, uid_t uid, uint64_t replies_to)
{
	ck_assert_int_eq(seteuid(uid), 0);
	wire_connect(client);
	ck_assert_int_eq(seteuid(0), 0);
	wire_hello(client, replies_to);
}

static struct peer *peer_of(const struct wire_client *client)
{
	return session_get_userdata(client->session);
}

static void open_as(struct wire_client *client, uid_t uid, uint64_t replies_to)
{
	connect_as(client, uid, replies_to);
	wire_run(&client, 1);
	ck_assert_int_eq(client->status, 0);
	peer_of(client)->outbox.max_bytes = 1048576;
}

static void set_up(void)
{
	struct account *account;

	owners_use(read_ranges("root:100000:65536\n"));
	wire_start("allow any\n");
	wire.core->settings.max_ids_per_session = 16384;
	account = &wire.core->account;
	account->limit_per_user[ACCOUNT_SESSIONS] = 1024;
	account->limit_per_user[ACCOUNT_IDS] = 65536;
	account->limit_per_user[ACCOUNT_BYTES] = 16777216;
	open_as(&victim, VICTIM, 0);
	open_as(&replies, ATTACKER, 0);
	for (unsigned i = 0; i < N_MOST; i++)
		clients[i].sock = -1;
}

static void tear_down(void)
{
	wire_close(&victim);
	wire_close(&replies);
	for (unsigned i = 0; i < N_MOST; i++)
		if (clients[i].sock >= 0)
			wire_close(&clients[i]);
	wire_end();
	owners_use(NULL);
}

/* Requests of CLIENT, whose replies it does not read, until so many bytes are queued or the daemon reads no more. */
static void fill(struct wire_client *client, size_t bytes)
{
	uint8_t buf[PACKET_MAX];
	unsigned n_full = 0;

	while (peer_of(client)->outbox.bytes < bytes && n_full < 3) {
		for (unsigned i = 0; i < 32; i++)
			if (packet_send(client->sock, buf, wire_make(client, OP(GOODBYE), 0, buf),
					NULL, 0) < 0) {
				n_full++;
				break;
			}
		run_daemon();
	}
}

START_TEST(quiet)
{
	for (unsigned i = 0; i < 1000; i++)
		watch(NULL);
	print("nothing");
}
END_TEST

START_TEST(end_of_full_queues)
{
	for (unsigned i = 0; i < 16; i++) {
		open_as(&clients[i], ATTACKER, session_get_number(replies.session));
		fill(&clients[i], 900000);
	}
	for (unsigned i = 0; i < 16; i++)
		wire_close(&clients[i]);
	watch(NULL);
	print("16 sessions with full queues end");
}
END_TEST

static void read_all(void)
{
	for (unsigned i = 0; i < 200; i++)
		drain(clients[i].sock);
}

START_TEST(full_queues_are_read)
{
	for (unsigned i = 0; i < 200; i++) {
		open_as(&clients[i], ATTACKER, session_get_number(replies.session));
		fill(&clients[i], 70000);
	}
	read_all();
	watch(read_all);
	print("200 sessions with full queues are read");
}
END_TEST

#define N_HELD 8000

START_TEST(held_connects)
{
	struct wire_client *client = &clients[0];
	struct id *first;
	uint8_t buf[PACKET_MAX];
	struct failure ignored;

	open_as(client, ATTACKER, 0);
	open_as(&clients[1], ATTACKER, 0);
	wire_ask(&clients[1], OP(CREATE_ID), 1);
	wire_ask(&clients[1], OP(BIND_ADDR), 1);
	for (uint32_t i = 1; i <= N_HELD + 1; i++) {
		for (unsigned k = 0; k < 3; k++) {
			static const int ops[] = { OP(CREATE_ID), OP(RESOLVE_ADDR),
						   OP(RESOLVE_ROUTE) };

			wire_send(client, buf, wire_make(client, ops[k], i, buf), NULL);
			wire_run(&client, 1);
			ck_assert_int_eq(client->status, 0);
		}
		if (i == 1) {
			ck_assert_int_eq(table_find(client->session, 1, &first, &ignored), 0);
			first->handshake.qp_timeout = 31;
			first->handshake.qpn = 17;
			timewait_enter(first);
			continue;
		}
		wire_send(client, buf, wire_make(client, OP(CONNECT), i, buf), NULL);
		wire_run(&client, 1);
		ck_assert_int_eq(client->status, 0);
	}
	fake_send_event_to(wire.core->fabric, first->fabric, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	watch(NULL);
	print("8,000 connects were held back by one time wait");
}
END_TEST

START_TEST(many_hellos)
{
	for (unsigned i = 0; i < 900; i++)
		connect_as(&clients[i], ATTACKER, 0);
	watch(NULL);
	print("900 sessions of one user begin");
	for (unsigned i = 0; i < 900; i++)
		wire_close(&clients[i]);
	watch(NULL);
	print("900 sessions of one user end");
}
END_TEST

START_TEST(many_uids)
{
	for (unsigned i = 0; i < 1000; i++)
		open_as(&clients[i], 100000 + i, 0);
	for (unsigned i = 0; i < 1000; i++) {
		uint8_t buf[PACKET_MAX];

		wire_send(&clients[i], buf, wire_make(&clients[i], OP(GET_LIMITS), 0, buf), NULL);
	}
	watch(NULL);
	print("1,000 uids of a container request something");
}
END_TEST

static struct id *join_many(struct wire_client *client, unsigned n)
{
	struct id *id;
	struct failure ignored;

	open_as(client, ATTACKER, 0);
	wire_ask(client, OP(CREATE_ID), 1);
	wire_ask(client, OP(BIND_ADDR), 1);
	ck_assert_int_eq(client->status, 0);
	ck_assert_int_eq(table_find(client->session, 1, &id, &ignored), 0);
	id->ps = RDMA_PS_UDP;
	for (unsigned i = 0; i < n; i++) {
		struct sockaddr_in group = { .sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(0xef000000 + i) };

		ck_assert_int_eq(group_join(id, (struct sockaddr *)&group, 1, &ignored), 0);
		drain(client->sock);
		run_daemon();
	}
	return id;
}

#define N_GROUPS 15000

START_TEST(many_groups)
{
	uint8_t buf[PACKET_MAX];

	join_many(&clients[0], N_GROUPS);
	for (unsigned i = 0; i < 100; i++)
		wire_send(&clients[0], buf, wire_make(&clients[0], OP(LEAVE_MULTICAST), 1, buf),
			  NULL);
	watch(NULL);
	print("an id with 15,000 groups leaves another group");
	ck_assert_uint_eq(wire.core->account.used[ACCOUNT_IDS], N_GROUPS + 1);
	wire_send(&clients[0], buf, wire_make(&clients[0], OP(DESTROY_ID), 1, buf), NULL);
	watch(NULL);
	print("an id with 15,000 groups is destroyed");
	ck_assert_uint_eq(wire.core->account.used[ACCOUNT_IDS], 0);
}
END_TEST

static void read_first(void)
{
	drain(clients[0].sock);
}

START_TEST(many_groups_are_enforced)
{
	double first_ms;

	join_many(&clients[0], N_GROUPS);
	peer_of(&clients[0])->outbox.max_bytes = 16777216;
	wire_set_policy("reject join\nallow any\n");
	/* This does the first slice. */
	first_ms = -cpu_ms();
	enforce_start(wire.core);
	first_ms += cpu_ms();
	watch(read_first);
	longest_ms = first_ms > longest_ms ? first_ms : longest_ms;
	print("a policy ends 15,000 groups");
	ck_assert_uint_eq(wire.core->account.used[ACCOUNT_IDS], 1);
}
END_TEST

UNIT_MAIN("siege", set_up, tear_down, quiet, end_of_full_queues, full_queues_are_read,
	  held_connects, many_hellos, many_uids, many_groups, many_groups_are_enforced)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "core/object/restriction.h"
#include "rpc/peer.h"
#include "rpc/kept.h"
#include "takeover/ledger.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"

/*
 * One user is at every limit at once. What the daemon takes for him is counted: its heap, and the rows of the ledger. What
 * librdmacm and the kernel take for each id is not in it. The limits are an eighth of those that are shipped, and the
 * figures are multiplied.
 */

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME
#define PART 8
#define N_SESSIONS (1024u / PART - 1) /* and the one that gets all replies */
#define IDS_MAX   \
	(65536u / \
	 PART) /* of one session, because the kernel keeps the first some hundred events of each */
#define DEVICES (LEDGER_LEASES / 2 / PART / N_SESSIONS) /* of which each session has leases */
#define BYTES_MAX (16777216u / PART)
#define ROWS_MAX (LEDGER_PACKETS / 2 / PART)
#define LIMIT_MB \
	330 /* the comment above MemoryMax= in the unit has the figure, with librdmacm's part */

static struct wire_client replies, clients[N_SESSIONS];

static void read_replies(void)
{
	uint8_t buf[PACKET_MAX];
	size_t n_fds;

	while (packet_recv(replies.sock, buf, NULL, 0, &n_fds) > 0)
		;
}

static void run_daemon(void)
{
	struct wire_client *const all[] = { &replies };

	wire_run(all, 1);
}

static void request(struct wire_client *client, Rdmabroker__Request *request)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t buf[PACKET_MAX];
	size_t len;
	int r;

	request->serial = ++client->serial;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	len = rdmabroker__frame__pack(&frame, buf);
	while ((r = packet_send(client->sock, buf, len, NULL, 0)) == -EAGAIN) {
		run_daemon();
		read_replies();
	}
	ck_assert_int_eq(r, 0);
}

#define REQUEST(client, NAME, member, value)                              \
	do {                                                              \
		Rdmabroker__Request request_ = RDMABROKER__REQUEST__INIT; \
		request_.quiet = request_.apart = true;                   \
		request_.op_case = OP(NAME);                              \
		request_.member = (value);                                \
		request(client, &request_);                               \
	} while (0)

/* Rules that take as much memory as those of a restriction can, and allow what the test requests. */
static void restrict_session(struct wire_client *client)
{
	Rdmabroker__RestrictSession m = RDMABROKER__RESTRICT_SESSION__INIT;
	char rules[RESTRICTION_TEXT_MAX] = "";

	for (unsigned i = 0; i < RESTRICTION_RULES_MAX; i++)
		strcat(rules, "allow any port 1,3,5,7,9,11,13\n");
	memcpy(rules, "allow any ", 10);
	memset(rules + 10, ' ', strcspn(rules, "\n") - 10);
	m.rules = rules;
	for (unsigned i = 0; i < RESTRICTION_DEPTH_MAX; i++)
		REQUEST(client, RESTRICT_SESSION, restrict_session, &m);
}

/* Ids with as many unread events as an id pays for. */
static void make_ids(struct wire_client *client, uint32_t n)
{
	Rdmabroker__Address host = RDMABROKER__ADDRESS__INIT, group = RDMABROKER__ADDRESS__INIT;

	host.addr = (ProtobufCBinaryData){ 4, (uint8_t *)"\x0a\x09\x00\x01" };
	group.addr = (ProtobufCBinaryData){ 4, (uint8_t *)"\xef\x01\x02\x03" };
	/* One place is left for the group. */
	for (uint32_t i = 1; i < n; i++) {
		Rdmabroker__CreateId create = RDMABROKER__CREATE_ID__INIT;
		Rdmabroker__BindAddr bind = RDMABROKER__BIND_ADDR__INIT;
		Rdmabroker__JoinMulticast join = RDMABROKER__JOIN_MULTICAST__INIT;
		Rdmabroker__LeaveMulticast leave = RDMABROKER__LEAVE_MULTICAST__INIT;

		create.port_space = RDMA_PS_UDP;
		create.id = bind.id = join.id = leave.id = i;
		bind.addr = &host;
		join.addr = leave.addr = &group;
		join.join_flags = 1;
		REQUEST(client, CREATE_ID, create_id, &create);
		REQUEST(client, BIND_ADDR, bind_addr, &bind);
		for (unsigned k = 0; k < ID_EVENTS_MAX; k++) {
			REQUEST(client, JOIN_MULTICAST, join_multicast, &join);
			REQUEST(client, LEAVE_MULTICAST, leave_multicast, &leave);
		}
		run_daemon();
	}
}

static void lease_devices(struct wire_client *client)
{
	Rdmabroker__OpenDevice m = RDMABROKER__OPEN_DEVICE__INIT;
	char name[16];

	m.name = name;
	for (unsigned i = 0; i < DEVICES; i++) {
		snprintf(name, sizeof(name), "fake%u", i);
		REQUEST(client, OPEN_DEVICE, open_device, &m);
	}
}

static uint64_t get_used(enum account_slot slot)
{
	return wire.core->account.used[slot];
}

/* Replies that are not read, until no more are accepted. */
static void fill_queues(void)
{
	Rdmabroker__Request m = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Goodbye goodbye = RDMABROKER__GOODBYE__INIT;

	m.op_case = OP(GOODBYE);
	m.goodbye = &goodbye;
	for (unsigned i = 0; get_used(ACCOUNT_BYTES) < BYTES_MAX - 1024; i++) {
		request(&clients[1 + i % (N_SESSIONS - 1)], &m);
		run_daemon();
	}
}

static void set_limits(void)
{
	struct account *account = &wire.core->account;

	wire.core->settings.max_ids_per_session = IDS_MAX;
	account->limit_per_user[ACCOUNT_SESSIONS] = N_SESSIONS + 1;
	account->limit_per_user[ACCOUNT_IDS] = IDS_MAX;
	account->limit_per_user[ACCOUNT_LISTENERS] = 4096 / PART;
	account->limit_per_user[ACCOUNT_BYTES] = BYTES_MAX;
	account->limit_per_user[ACCOUNT_FDS] = 8192 / PART;
}

static size_t count_heap(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

START_TEST(a_user_at_every_limit)
{
	size_t heap, rows;

	fake_start_with_devices(DEVICES);
	wire_start("allow any\n");
	set_limits();
	wire_greet(&replies, 0);
	heap = count_heap();
	for (unsigned i = 0; i < N_SESSIONS; i++) {
		wire_greet(&clients[i], session_get_number(replies.session));
		restrict_session(&clients[i]);
		run_daemon();
		lease_devices(&clients[i]);
		run_daemon();
	}
	ck_assert_uint_eq(wire.core->n_leases, N_SESSIONS * DEVICES);
	make_ids(&clients[0], IDS_MAX);
	ck_assert_uint_eq(wire.core->n_ids, IDS_MAX - 1);
	fill_queues();
	ck_assert_uint_eq(wire.core->n_sessions, N_SESSIONS + 1);
	heap = (count_heap() - heap) * PART;
	rows = N_SESSIONS * (sizeof(struct ledger_session) +
			     RESTRICTION_DEPTH_MAX * sizeof(struct ledger_restriction)) +
	       N_SESSIONS * DEVICES * sizeof(struct ledger_lease) +
	       IDS_MAX * sizeof(struct ledger_id) + ROWS_MAX * sizeof(struct ledger_packet) +
	       N_SESSIONS * KEPT_ASIDES_MAX * sizeof(struct ledger_aside);
	rows *= PART;
	heap += PART * N_SESSIONS * KEPT_ASIDES_MAX * (sizeof(struct kept) + LEDGER_ASIDE);
	printf("One user at every limit: %zu MB of heap, %zu MB of the ledger.\n", heap >> 20,
	       rows >> 20);
	ck_assert_uint_le((heap + rows) >> 20, LIMIT_MB);
	for (unsigned i = 0; i < N_SESSIONS; i++)
		wire_close(&clients[i]);
	wire_close(&replies);
	run_daemon();
	wire_end();
}
END_TEST

UNIT_MAIN("most", NULL, NULL, a_user_at_every_limit)

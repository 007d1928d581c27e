/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/refused.h"
#include "core/object/core.h"
#include "core/object/id.h"
#include "core/object/session.h"
#include "tests/unit/unit.h"

/* The table of what was refused: what is joined, who loses rows, and that none is lost otherwise. */

static struct core core;

static void set_up(void)
{
	core = (struct core){ 0 };
	ck_assert_int_eq(refused_new(&core.refused), 0);
}

static void tear_down(void)
{
	core.refused = refused_free(core.refused);
}

/* PARTITION: a question that has only that. */
static void note_operation(struct identity identity, enum policy_operation operation, uint32_t peer,
			   int port, struct policy_question partition)
{
	struct session session = { .core = &core, .identity = identity };
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(peer) };
	struct intent intent = {
		.question = { .operation = operation,
			      .port = port,
			      .pkey = partition.pkey,
			      .names_pkey = partition.names_pkey,
			      .peer = (struct sockaddr *)&addr },
	};
	struct policy_verdict verdict = { .answer = POLICY_REJECT, .reason = "no-rule" };

	refused_note(&session, &intent, &verdict, NULL);
}

static void note_with(struct policy_question partition)
{
	note_operation((struct identity){ .uid = 1000, .owner = { 1000, OWNER_ALONE } },
		       POLICY_CONNECT, 0x0a090001, 7471, partition);
}

static void note_as(struct identity identity, uint32_t peer, int port)
{
	note_operation(identity, POLICY_CONNECT, peer, port, (struct policy_question){ 0 });
}

static void note_in(uid_t uid, gid_t *gids, size_t n_gids, uint32_t peer, int port)
{
	note_as(
		(struct identity){
			.uid = uid, .owner = { uid, OWNER_ALONE }, .gids = gids, .n_gids = n_gids },
		peer, port);
}

static void note_at(uid_t uid, uint32_t peer, int port)
{
	note_in(uid, NULL, 0, peer, port);
}

static unsigned count_rows(uid_t uid)
{
	const struct ledger_refused *row;
	unsigned n = 0;

	for (uint64_t at = 0; (row = core_refused_from(&core, at)); at = row->number + 1)
		n += row->uid == uid;
	return n;
}

START_TEST(common_bits)
{
	struct ledger_prefix a = { .family = 4, .bits = 32, .address = { 10, 0, 0, 1 } }, b = a;
	const struct ledger_prefix six = { .family = 6, .bits = 128 };

	ck_assert_int_eq(refused_common_bits(&a, &b), 32);
	b.address[3] = 0;
	ck_assert_int_eq(refused_common_bits(&a, &b), 31);
	b.address[3] = 0x81;
	ck_assert_int_eq(refused_common_bits(&a, &b), 24);
	b.address[0] = 0x8a;
	ck_assert_int_eq(refused_common_bits(&a, &b), 0);
	b = (struct ledger_prefix){ .family = 4, .bits = 8, .address = { 10 } };
	ck_assert_int_eq(refused_common_bits(&a, &b), 8);
	ck_assert_int_eq(refused_common_bits(&a, &six), -1);
}
END_TEST

/* Those that are alike share a row, and the first and the last time are kept. */
START_TEST(alike)
{
	const struct ledger_refused *row;

	for (int i = 0; i < 5; i++)
		note_at(1000, 0x0a090001, 7471);
	note_at(1000, 0x0a090001, 7472);
	note_at(1001, 0x0a090001, 7471);
	row = core_refused_from(&core, 0);
	ck_assert_uint_eq(row->n, 5);
	ck_assert_uint_eq(row->port, 7471);
	ck_assert_int_eq(row->port_kind, REFUSED_PORT_NUMBER);
	ck_assert_int_eq(row->outcome, REFUSED_NO_RULE);
	ck_assert_int_eq(row->peer.bits, 32);
	ck_assert_uint_ge(row->last_ms, row->first_ms);
	ck_assert_uint_gt(row->first_ms, 0);
	ck_assert_uint_eq(count_rows(1000), 2);
	ck_assert_uint_eq(count_rows(1001), 1);
}
END_TEST

/* A partition has a row of its own if it was named, and only then. A restart keeps it. */
START_TEST(partitions)
{
	const struct ledger_refused *row;
	struct ledger_refused rows[3];
	struct old_ledger old = { .refused = rows };

	note_with((struct policy_question){ .pkey = 5 });
	note_with((struct policy_question){ .pkey = 6 });
	note_with((struct policy_question){ .pkey = 6, .names_pkey = true });
	note_with((struct policy_question){ .pkey = 6, .names_pkey = true });
	note_with((struct policy_question){ .pkey = 5, .names_pkey = true });
	for (uint64_t at = 0; (row = core_refused_from(&core, at)); at = row->number + 1)
		rows[old.n_refused++] = *row;
	ck_assert_uint_eq(old.n_refused, 3);
	ck_assert_uint_eq(rows[0].pkey, 0);
	ck_assert_uint_eq(rows[0].n, 2);
	ck_assert_uint_eq(rows[1].pkey, 6);
	ck_assert_uint_eq(rows[1].n, 2);
	ck_assert_uint_eq(rows[2].pkey, 5);
	refused_free(core.refused);
	ck_assert_int_eq(refused_new(&core.refused), 0);
	core_restore_refused(&core, &old);
	ck_assert_uint_eq(core_refused_from(&core, 2)->pkey, 6);
	note_with((struct policy_question){ .pkey = 6, .names_pkey = true });
	ck_assert_uint_eq(core_refused_from(&core, 2)->n, 3);
}
END_TEST

static bool holds(const struct ledger_refused *row, uint32_t peer)
{
	uint32_t mask = row->peer.bits == 0 ? 0 : UINT32_MAX << (32 - row->peer.bits);
	uint32_t address;

	memcpy(&address, row->peer.address, sizeof(address));
	return (peer & mask) == ntohl(address);
}

/* Processes of one user can be in different groups: a row has those of all. */
START_TEST(groups_of_all)
{
	gid_t many[20], some[] = { 3, 5, 18, 1000 }, none[] = { 1000 };
	const struct ledger_refused *row;

	for (gid_t i = 0; i < 20; i++)
		many[i] = i;
	note_in(1000, many, 20, 0x0a090001, 7471);
	row = core_refused_from(&core, 0);
	ck_assert_uint_eq(row->n_gids, LEDGER_REFUSED_GIDS);
	ck_assert_uint_eq(row->gids[15], 15);
	note_in(1000, some, 4, 0x0a090001, 7471);
	ck_assert_uint_eq(row->n_gids, 2);
	ck_assert_uint_eq(row->gids[0], 3);
	ck_assert_uint_eq(row->gids[1], 5);
	note_in(1000, none, 1, 0x0a090001, 7471);
	ck_assert_uint_eq(row->n_gids, 0);
	note_in(1000, many, 20, 0x0a090001, 7471);
	ck_assert_uint_eq(row->n_gids, 0);

	/* Also when rows are joined, because there are too many peers. */
	for (uint32_t i = 0; i < 16; i++)
		note_in(1001, some, i == 9 ? 2 : 4, 0x0a090000 + i, 7471);
	for (uint64_t at = 0; (row = core_refused_from(&core, at)); at = row->number + 1)
		if (row->uid == 1001 && row->peer.bits < 32 && holds(row, 0x0a090009))
			break;
	ck_assert_ptr_nonnull(row);
	ck_assert_uint_eq(row->n_gids, 2);
}
END_TEST

/* The nearest are joined: two racks and a stranger stay three. */
START_TEST(peers_are_joined)
{
	const struct ledger_refused *row;
	unsigned n_far = 0;

	for (uint32_t i = 0; i < 200; i++) {
		note_at(1000, 0x0a010100 + i, 7471);
		note_at(1000, 0x0a020200 + i, 7471);
	}
	note_at(1000, 0xc0a80001, 7471);
	ck_assert_uint_le(count_rows(1000), REFUSED_PEERS);
	for (uint64_t at = 0; (row = core_refused_from(&core, at)); at = row->number + 1) {
		ck_assert_uint_ge(row->peer.bits, 24);
		n_far += row->peer.bits == 32 && holds(row, 0xc0a80001);
	}
	ck_assert_uint_eq(n_far, 1);
}
END_TEST

/* Whatever the peers are: each is in a row, none of which holds another one's, and the counts add up. */
START_TEST(random_peers)
{
	for (unsigned round = 0; round < 300; round++) {
		uint32_t peers[100];
		uint64_t sum = 0, n = 1 + (uint64_t)rand() % 100;
		const struct ledger_refused *row;

		tear_down();
		set_up();
		srand(round);
		for (unsigned i = 0; i < n; i++) {
			peers[i] = rand() % 3 ? 0x0a000000 | (uint32_t)(rand() % 4096) :
						(uint32_t)rand() * 2 + 1;
			note_at(1000, peers[i], 7471);
		}
		ck_assert_uint_le(count_rows(1000), REFUSED_PEERS);
		for (uint64_t at = 0; (row = core_refused_from(&core, at)); at = row->number + 1)
			sum += row->n;
		ck_assert_uint_eq(sum, n);
		for (unsigned i = 0; i < n; i++) {
			bool found = false;

			for (uint64_t at = 0; (row = core_refused_from(&core, at));
			     at = row->number + 1)
				found |= holds(row, peers[i]);
			ck_assert_msg(found, "round %u: peer %x is in no row", round, peers[i]);
		}
	}
}
END_TEST

/* A user who asks for everything loses his own rows; the last ones stay, and what is asked again counts as new. */
START_TEST(share_of_a_user)
{
	note_at(1001, 0x0a090001, 1);
	for (int port = 1; port <= 3 * REFUSED_OF_OWNER; port++) {
		note_at(1000, 0x0a090001, port);
		note_at(1000, 0x0a090001, 1);
	}
	ck_assert_uint_eq(count_rows(1000), REFUSED_OF_OWNER);
	ck_assert_uint_eq(count_rows(1001), 1);
	for (const struct ledger_refused *row = core_refused_from(&core, 0); row;
	     row = core_refused_from(&core, row->number + 1))
		ck_assert(row->uid == 1001 || row->port == 1 ||
			  row->port > 2 * REFUSED_OF_OWNER + 1);
}
END_TEST

/* When the table is full, who has most loses one: many users with a row each lose none to those with many. */
START_TEST(full_table)
{
	uid_t uid;

	for (uid = 1; uid <= LEDGER_REFUSED / REFUSED_OF_OWNER; uid++)
		for (int port = 1; port <= REFUSED_OF_OWNER; port++)
			note_at(uid, 0x0a090001, port);
	for (uid = 5000; uid < 7000; uid++)
		note_at(uid, 0x0a090001, 1);
	for (uid = 5000; uid < 7000; uid++)
		ck_assert_uint_eq(count_rows(uid), 1);
	for (uid = 1; uid <= LEDGER_REFUSED / REFUSED_OF_OWNER; uid++)
		ck_assert_uint_ge(count_rows(uid), 130);
}
END_TEST

static void note_of(uid_t uid, uid_t range, int port)
{
	note_as((struct identity){ .uid = uid, .owner = { uid, range } }, 0x0a090001, port);
}

/* The uids of a container have the share of one user, so they cost others nothing. */
START_TEST(share_of_a_range)
{
	unsigned n = 0;

	for (int port = 1; port <= 10; port++)
		note_at(1000, 0x0a090001, port);
	for (uid_t uid = 100000; uid < 104200; uid++)
		note_of(uid, 100000, 1);
	ck_assert_uint_eq(count_rows(1000), 10);
	for (uid_t uid = 100000; uid < 104200; uid++)
		n += count_rows(uid);
	ck_assert_uint_eq(n, REFUSED_OF_OWNER);
}
END_TEST

/* Within the range, who has most loses one. */
START_TEST(shares_in_a_range)
{
	for (int port = 1; port <= 10; port++)
		note_of(100000, 100000, port);
	for (int port = 1; port <= 2 * REFUSED_OF_OWNER; port++)
		note_of(165536, 100000, port);
	ck_assert_uint_eq(count_rows(100000), 10);
	ck_assert_uint_eq(count_rows(165536), REFUSED_OF_OWNER - 10);
}
END_TEST

/* The next process of the daemon knows whose the rows are, though it does not see the clients. */
START_TEST(a_restart_keeps_owners)
{
	struct ledger_refused rows[20] = { 0 };
	const struct ledger_refused *row;
	struct old_ledger old = { .refused = rows };

	for (uid_t uid = 100000; uid < 100020; uid++)
		note_of(uid, OWNER_STRANGERS, 1);
	for (uint64_t at = 0; (row = core_refused_from(&core, at)); at = row->number + 1)
		rows[old.n_refused++] = *row;
	refused_free(core.refused);
	ck_assert_int_eq(refused_new(&core.refused), 0);
	core_restore_refused(&core, &old);
	for (int port = 1; port <= REFUSED_OF_OWNER; port++)
		note_of(200000, OWNER_STRANGERS, port);
	ck_assert_uint_eq(count_rows(200000), REFUSED_OF_OWNER - 20);
}
END_TEST

static struct identity by_job(const char *unit, const char *job)
{
	return (struct identity){
		.uid = 1000,
		.owner = { 1000, OWNER_ALONE },
		.workload.names = { [WORKLOAD_UNIT] = (char *)unit, [WORKLOAD_JOB] = (char *)job },
	};
}

static void note_by_job(const char *unit, const char *job, uint32_t peer, int port)
{
	note_as(by_job(unit, job), peer, port);
}

static void note_listen(const char *unit, const char *job, int port)
{
	note_operation(by_job(unit, job), POLICY_LISTEN, 0, port, (struct policy_question){ 0 });
}

/* A hundred jobs are one: what a weekly job has asked for is not pushed out by those of the days between. */
START_TEST(jobs_share_a_row)
{
	const struct ledger_refused *row;
	char unit[64], job[16];

	note_by_job("job-1.scope", "1", 0x0a090001, 7471);
	row = core_refused_from(&core, 0);
	ck_assert_str_eq(row->unit, "job-1.scope");
	ck_assert_str_eq(row->job, "1");
	for (int i = 2; i < 3 * REFUSED_OF_OWNER; i++) {
		snprintf(unit, sizeof(unit), "job-%d.scope", i);
		snprintf(job, sizeof(job), "%d", i);
		note_by_job(unit, job, 0x0a090001, 7472);
		snprintf(unit, sizeof(unit), "run-r%xi%d.service", i, i);
		note_by_job(unit, job, 0x0a090001, 7472);
	}
	note_by_job("nvmf-1.service", NULL, 0x0a090001, 7472);
	note_by_job("nvmf-2.service", NULL, 0x0a090001, 7472);
	note_by_job("run-parts.service", NULL, 0x0a090001, 7472);
	note_by_job("slurmstepd.scope", "7", 0x0a090001, 7472);
	ck_assert_uint_eq(count_rows(1000), 7);
	ck_assert_uint_eq(core_get_learned(&core)->n_left, 0);
	ck_assert_str_eq(row->unit, "job-1.scope");
	row = core_refused_from(&core, row->number + 1);
	ck_assert_str_eq(row->unit, "job-*.scope");
	ck_assert_str_eq(row->job, "*");
	ck_assert_uint_eq(row->n, 3 * REFUSED_OF_OWNER - 2);
	row = core_refused_from(&core, row->number + 1);
	ck_assert_str_eq(row->unit, "run-*.service");
}
END_TEST

/* The ports that the peers' kernels choose, each time another one, push nothing out either. */
START_TEST(chosen_ports_of_peers_share_a_row)
{
	const struct ledger_refused *row;

	note_at(1000, 0x0a090001, 7471);
	note_at(1000, 0x0a090001, 40000);
	row = core_refused_from(&core, 2);
	ck_assert_uint_eq(row->port, 40000);
	ck_assert_int_eq(row->port_kind, REFUSED_PORT_NUMBER);
	for (int port = 40000; port < 40600; port++)
		note_at(1000, 0x0a090001, port);
	ck_assert_uint_eq(count_rows(1000), 2);
	ck_assert_uint_eq(row->port, 0);
	ck_assert_int_eq(row->port_kind, REFUSED_PORT_ANY);
	ck_assert_uint_eq(row->n, 601);
}
END_TEST

/* A job listens on the number that the kernel has chosen for its TCP socket, each time another one. A service keeps its ports. */
START_TEST(chosen_ports_of_jobs_share_a_row)
{
	const struct ledger_refused *row;
	char job[16];

	note_listen("job-1.scope", "1", 40000);
	note_listen("job-2.scope", "2", 40000);
	row = core_refused_from(&core, 0);
	ck_assert_uint_eq(row->port, 40000);
	ck_assert_str_eq(row->unit, "job-*.scope");
	for (int i = 3; i < 3 * REFUSED_OF_OWNER; i++) {
		snprintf(job, sizeof(job), "%d", i);
		note_listen("slurmstepd.scope", job, 40000 + i);
		note_listen("job-3.scope", NULL, 40000 + i);
	}
	note_listen("job-4.scope", NULL, 7471);
	note_listen("bricks.service", NULL, 49152);
	note_listen("bricks.service", NULL, 49153);
	ck_assert_uint_eq(count_rows(1000), 6);
	ck_assert_uint_eq(row->n, 2);
	row = core_refused_from(&core, row->number + 1);
	ck_assert_str_eq(row->job, "*");
	ck_assert_int_eq(row->port_kind, REFUSED_PORT_ANY);
	row = core_refused_from(&core, row->number + 1);
	ck_assert_int_eq(row->port_kind, REFUSED_PORT_ANY);
	for (int port = 7471; (row = core_refused_from(&core, row->number + 1));
	     port = port == 7471 ? 49152 : port + 1)
		ck_assert_int_eq(row->port, port);
}
END_TEST

/* The admin learns how much is missing. */
START_TEST(what_has_left_is_counted)
{
	uint64_t since = core_get_learned(&core)->since_ms;

	ck_assert_uint_gt(since, 0);
	for (int port = 1; port <= REFUSED_OF_OWNER; port++)
		note_at(1000, 0x0a090001, port);
	ck_assert_uint_eq(core_get_learned(&core)->left_ms, 0);
	for (int port = 1; port <= 20; port++)
		note_at(1000, 0x0a090001, 10000 + port);
	ck_assert_uint_eq(core_get_learned(&core)->n_left, 20);
	ck_assert_uint_ge(core_get_learned(&core)->left_ms, since);
	ck_assert_uint_eq(core_get_learned(&core)->since_ms, since);
	core_clear_refused(&core);
	ck_assert_uint_eq(core_get_learned(&core)->n_left, 0);
	ck_assert_uint_ge(core_get_learned(&core)->since_ms, since);
	ck_assert_uint_eq(core_count_refused(&core), 0);
	note_at(1000, 0x0a090001, 1);
	ck_assert_uint_eq(core_count_refused(&core), 1);
}
END_TEST

/* What was noted the longest ago leaves first after a restart, too, though it has a higher number. */
START_TEST(a_restart_keeps_what_was_noted_last)
{
	struct ledger_refused rows[REFUSED_OF_OWNER] = { 0 };
	struct ledger_learned learned = { .since_ms = 5, .n_left = 3, .left_ms = 7 };
	const struct ledger_refused *row;
	struct old_ledger old = { .refused = rows, .learned = &learned, .n_learned = 1 };

	for (int port = 1; port <= REFUSED_OF_OWNER; port++)
		note_at(1000, 0x0a090001, port);
	for (uint64_t at = 0; (row = core_refused_from(&core, at)); at = row->number + 1) {
		rows[old.n_refused] = *row;
		rows[old.n_refused].last_ms += 1000 - old.n_refused;
		old.n_refused++;
	}
	tear_down();
	set_up();
	core_restore_refused(&core, &old);
	ck_assert_uint_eq(core_get_learned(&core)->since_ms, 5);
	ck_assert_uint_eq(core_get_learned(&core)->n_left, 3);
	for (int port = 1; port <= 100; port++)
		note_at(1000, 0x0a090001, 10000 + port);
	ck_assert_uint_eq(core_refused_from(&core, 0)->port, 1);
	ck_assert_uint_eq(core_get_learned(&core)->n_left, 103);
	ck_assert_uint_eq(core_get_learned(&core)->left_ms, 7);
}
END_TEST

UNIT_MAIN("refused", set_up, tear_down, common_bits, alike, partitions, groups_of_all,
	  peers_are_joined, random_peers, share_of_a_user, full_table, share_of_a_range,
	  shares_in_a_range, a_restart_keeps_owners, jobs_share_a_row,
	  chosen_ports_of_peers_share_a_row, chosen_ports_of_jobs_share_a_row,
	  what_has_left_is_counted, a_restart_keeps_what_was_noted_last)

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/admin.h"
#include "takeover/ledger.h"
#include "tests/fake/fake.h"
#include "tests/hooks/hooks.h"
#include "tests/unit/manager.h"
#include "tests/unit/succession.h"
#include "tests/unit/unit.h"
#include "util/owner.h"

/* The beginning of the ledger, see ledger.c. */
struct header {
	char magic[24];
	uint32_t version, tries, complete, reading;
	uint64_t generation, last_session;
	struct {
		uint64_t offset;
		uint32_t row_size, end;
	} tables[16];
};

static void *map_all(size_t *ret_size)
{
	int fd = manager_get("ledger");
	struct stat st;
	void *p;

	ck_assert_int_eq(fstat(fd, &st), 0);
	*ret_size = (size_t)st.st_size;
	p = mmap(NULL, *ret_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

static struct header *map_ledger(void)
{
	size_t size;

	return map_all(&size);
}

START_TEST(ledger_of_another_version)
{
	start_listening();
	connect_ids(17);
	ck_assert_uint_eq(map_ledger()->version, LEDGER_VERSION);
	map_ledger()->version++;
	restart();
	expect_end(client);
	expect_end(server);
}
END_TEST

/* A client that repeats the rules of its restriction changes nothing, although they are kept in a tidier form. */
START_TEST(restriction_that_is_repeated)
{
	static const char sent[] = "allow  listen port 7471 # mine";
	struct rdmabroker *session = open_session();

	ck_assert_int_eq(rdmabroker_restrict(session, sent, 0), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(new_id(session), addr(7471)), 0);
	ck_assert_int_eq(rdmabroker_restrict(session, sent, 0), 0);
	restart();
	ck_assert_int_eq(rdmabroker_restrict(session, sent, 0), 0);
	ck_assert_int_eq(rdmabroker_restrict(session, "allow listen port 7472", 0), -EINVAL);
	rdmabroker_close(session);
}
END_TEST

/* Copies a table to the page behind it, with rows that are MORE bytes longer, or shorter if MORE is negative. */
static void lengthen_rows(struct header *header, unsigned table, int more)
{
	uint32_t old_size = header->tables[table].row_size;
	uint32_t size = (uint32_t)((int)old_size + more), end = header->tables[table].end;
	const char *from = (char *)header + header->tables[table].offset;
	char *to;

	header->tables[table].offset += ((uint64_t)end * old_size + 4096) / 4096 * 4096;
	header->tables[table].row_size = size;
	to = (char *)header + header->tables[table].offset;
	for (uint32_t i = 0; i < end; i++) {
		memset(to + i * size, 0xff, size);
		memcpy(to + i * size, from + i * old_size, more < 0 ? size : old_size);
	}
}

/* The ledger of a daemon whose rows have more members, or fewer. */
START_TEST(ledger_of_a_newer_and_of_an_older_daemon)
{
	start_listening();
	connect_ids(17);
	for (unsigned table = 0; table < 4; table++)
		lengthen_rows(map_ledger(), table, 64);
	restart();
	expect_nothing(client);
	expect_nothing(server);
	/* The last members of a session are used for what is not here. */
	lengthen_rows(map_ledger(), 0, -(int)sizeof(((struct ledger_session *)0)->old_leases));
	lengthen_rows(map_ledger(), 2, -(int)sizeof(((struct ledger_group *)0)->addr));
	lengthen_rows(map_ledger(), 3, -(int)sizeof(((struct ledger_request *)0)->data));
	restart();
	end_connection();
	connect_ids(19);
}
END_TEST

/* Tables that lie outside the file, and rows that are too short for their first member. */
START_TEST(damaged_ledgers)
{
	for (unsigned i = 0; i < 5; i++) {
		struct header *header = map_ledger();

		switch (i) {
		case 0:
			header->tables[1].offset = UINT64_MAX - 7;
			break;
		case 1:
			header->tables[1].end = UINT32_MAX;
			break;
		case 2:
			header->tables[0].row_size = 4;
			break;
		case 3:
			header->tables[0].row_size = 0;
			break;
		case 4:
			header->tables[3].offset += 3;
			break;
		}
		restart();
		expect_end(client);
		rdmabroker_close(client);
		rdmabroker_close(server);
		server = open_session();
		client = open_session();
	}
	start_listening();
	connect_ids(17);
}
END_TEST

static void on_try(void)
{
	map_ledger()->tries = 1;
}

static void accept_is_confirmed(void)
{
	expect(client, RDMABROKER_EVENT_CONNECT_RESPONSE, id);
	ck_assert_int_eq(rdmabroker_establish(id), 0);
	expect(server, RDMABROKER_EVENT_ESTABLISHED, accepted);
}

static void on_wait(void)
{
	struct header *header = map_ledger();
	struct ledger_session *rows =
		(struct ledger_session *)((char *)header + header->tables[0].offset);

	for (uint32_t i = 0; i < header->tables[0].end; i++)
		rows[i].repeated = 1;
}

/* The daemon is killed while an accept waits, after PREPARE was called. The client can send the accept again. */
static void accept_is_not_repeated(void (*prepare)(void))
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 18 };

	start_listening();
	request_connection(17);
	fake_hold_lookups(fake_last(), true);
	kills_in_wait = true;
	before_kill = prepare;
	ck_assert_int_eq(rdmabroker_accept(accepted, &param), -EAGAIN);
	ck_assert_int_eq(rdmabroker_accept(accepted, &param), 0);
	accept_is_confirmed();
	end_connection();
}

/* A request that was carried out twice, and not to its end, has perhaps killed two processes. */
START_TEST(request_that_was_repeated)
{
	accept_is_not_repeated(on_wait);
}
END_TEST

/* The same, if a process has died while it took over. */
START_TEST(request_that_waits_in_a_second_take_over)
{
	accept_is_not_repeated(on_try);
}
END_TEST

/* Three processes die while they take over. The fourth starts clean, and does not die of the same. */
START_TEST(take_overs_that_fail)
{
	start_listening();
	connect_ids(17);
	map_ledger()->tries = 3;
	restart();
	expect_end(client);
	rdmabroker_close(client);
	rdmabroker_close(server);
	server = open_session();
	client = open_session();
	start_listening();
	connect_ids(17);
	restart();
	end_connection();
}
END_TEST

/* The daemon dies at its N-th call, while it takes over. */
static void die_at(unsigned n)
{
	if (setjmp(killed) != 0)
		return;
	hooks_kill_at(n, on_kill);
	start_broker();
	ck_abort_msg("the daemon makes fewer than %u calls", n);
}

START_TEST(processes_that_die_while_they_take_over)
{
	allow_leaks();
	start_listening();
	connect_ids(17);
	kill_broker();
	for (unsigned i = 0; i < 3; i++)
		die_at(190); /* when it has begun to take over */
	hooks_kill_at(0, NULL);
	start_broker();
	expect_end(client);
	rdmabroker_close(client);
	rdmabroker_close(server);
	/* What the dead processes have stored is not needed any more. */
	ck_assert_uint_eq(manager_count("ledger"), 1);
	ck_assert_uint_eq(manager_count("cm"), 1);
	ck_assert_uint_eq(manager_count("vault"), 0);
	server = open_session();
	client = open_session();
	start_listening();
	connect_ids(17);
	restart();
	end_connection();
}
END_TEST

/*
 * A process dies at each call of its take-over, when the socket store has the socket of a restricted session twice. The
 * one after it serves the socket.
 */
START_TEST(published_sockets_when_a_process_dies)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker *launcher, *session;
	volatile bool died = true;
	volatile unsigned n;
	char path[108];

	allow_leaks();
	options.socket = path;
	for (n = 1; died; n++) {
		launcher = open_session();
		ck_assert_int_eq(rdmabroker_restrict(launcher, "allow listen port 7471", 0), 0);
		ck_assert_int_eq(rdmabroker_publish(launcher, path, sizeof(path)), 0);
		kill_broker();
		died = true;
		if (setjmp(killed) == 0) {
			hooks_kill_at(n, on_kill);
			start_broker();
			died = false;
		}
		hooks_kill_at(0, NULL);
		if (died)
			start_broker();
		ck_assert_msg(rdmabroker_open(&options, &session) == 0, "killed at call %u: %s", n,
			      rdmabroker_last_failure()->text);
		rdmabroker_close(session);
		rdmabroker_close(launcher);
		run_all();
		ck_assert_int_eq(access(path, F_OK), -1);
	}
	printf("killed at %u calls\n", n - 1);
	ck_assert_uint_gt(n, 50);
}
END_TEST

/* In the order of the tables. */
enum table {
	SESSIONS,
	IDS,
	GROUPS,
	REQUESTS,
	PACKETS,
	RESTRICTIONS,
	PUBLISHED,
	OLD_LEASES,
	REFUSED,
	LEASES,
};

/* Until set_end() gets the result, TABLE has no free rows. */
static uint32_t fill(enum table table)
{
	static const uint32_t max[] = {
		[IDS] = LEDGER_IDS,           [GROUPS] = LEDGER_GROUPS,
		[REQUESTS] = LEDGER_REQUESTS, [PUBLISHED] = LEDGER_PUBLISHED,
		[LEASES] = LEDGER_LEASES,
	};
	struct header *header = map_ledger();
	uint32_t end = header->tables[table].end;

	header->tables[table].end = max[table];
	return end;
}

static void set_end(enum table table, uint32_t end)
{
	map_ledger()->tables[table].end = end;
}

static void expect_no_room(int r, const char *what)
{
	ck_assert_int_eq(r, -EDQUOT);
	ck_assert_ptr_nonnull(strstr(rdmabroker_last_failure()->text, what));
}

/* What cannot be kept is refused, and not lost at the next restart. */
START_TEST(nothing_is_made_that_cannot_be_kept)
{
	const struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 16 };
	struct rdmabroker *launcher;
	struct rdmabroker_id *one;
	char path[108];
	uint32_t end;

	start_listening();
	end = fill(IDS);
	/* The library creates it together with the first request about it. */
	one = new_id(client);
	expect_no_room(rdmabroker_bind_addr(one, addr(0)),
		       "no room for further ids that outlive its restart");
	set_end(IDS, end);
	resolve(one);
	end = fill(GROUPS);
	expect_no_room(rdmabroker_join_multicast(one, addr(1), 1, NULL), "multicast groups");
	set_end(GROUPS, end);
	/* The peer of a request that cannot be kept is rejected, and the next one is not. */
	end = fill(REQUESTS);
	ck_assert_int_eq(rdmabroker_connect(one, &param), 0);
	expect(client, RDMABROKER_EVENT_REJECTED, one);
	expect_nothing(server);
	set_end(REQUESTS, end);
	connect_ids(17);

	launcher = open_session();
	ck_assert_int_eq(rdmabroker_restrict(launcher, "allow listen port 7471", 0), 0);
	end = fill(PUBLISHED);
	expect_no_room(rdmabroker_publish(launcher, path, sizeof(path)), "sockets");
	set_end(PUBLISHED, end);
	ck_assert_int_eq(rdmabroker_publish(launcher, path, sizeof(path)), 0);
	restart();
	ck_assert_int_eq(access(path, F_OK), 0);
	rdmabroker_close(launcher);
	end_connection();
}
END_TEST

static unsigned count_leases(void)
{
	struct rdmabroker_status *status = get_status();
	unsigned n = status->n_leases;

	rdmabroker_free(status);
	return n;
}

#define DEVICES 1024

static int lease(unsigned i)
{
	char name[16];

	snprintf(name, sizeof(name), "fake%u", i);
	return rdmabroker_lease_devices(client, name);
}

/* A session can have leases of all devices, and the next process keeps them. */
START_TEST(many_leases)
{
	uint32_t end;

	fake_start_with_devices(DEVICES);
	restart();
	for (unsigned i = 0; i < DEVICES; i++)
		ck_assert_int_eq(lease(i), 0);
	ck_assert_uint_eq(count_leases(), DEVICES);
	restart();
	ck_assert_uint_eq(count_leases(), DEVICES);
	restart();
	ck_assert_uint_eq(count_leases(), DEVICES);
	rdmabroker_close(client);
	run_all();
	client = open_session();
	ck_assert_uint_eq(count_leases(), 0);

	/* A new ledger has no rows that were freed. */
	restart();
	ck_assert_uint_eq(count_leases(), 0);
	ck_assert_int_eq(lease(0), 0);
	end = fill(LEASES);
	expect_no_room(lease(1), "no room for further leases that outlive its restart");
	/* Some of this process's devices have got leases, and others would be missing. */
	hooks_set_devices(0, 2);
	expect_no_room(rdmabroker_lease_devices(client, NULL), "leases");
	hooks_set_devices(0, 1);
	set_end(LEASES, end);
	ck_assert_int_eq(lease(1), 0);
	fake_start_with_devices(1);
}
END_TEST

/* The next process gives access in the same way, whatever its rules say. */
START_TEST(access_of_leases)
{
	restart_with("allow device access open\nallow any\n");
	ck_assert_int_eq(lease(0), 0);
	ck_assert_int_eq(fake_last_access(fake_last()), FABRIC_ACCESS_OPEN);
	restart_with("allow any\n");
	ck_assert_uint_eq(count_leases(), 1);
	ck_assert_int_eq(fake_last_access(fake_last()), FABRIC_ACCESS_OPEN);
}
END_TEST

static struct ledger_old_lease old_lease(unsigned i)
{
	struct ledger_old_lease ret = { .n_opens = 1 };

	snprintf(ret.device, sizeof(ret.device), "fake%u", i);
	return ret;
}

/* An earlier version has 8 leases in the row of the session, and 24 in a row of their own. */
START_TEST(leases_of_an_older_daemon)
{
	struct ledger_old_leases *more;
	struct ledger_session *row;
	struct header *header;

	fake_start_with_devices(DEVICES);
	restart();
	header = map_ledger();
	row = (void *)((char *)header + header->tables[SESSIONS].offset);
	/* There is room behind the rows of the sessions. */
	more = (void *)(row + header->tables[SESSIONS].end);
	more->session = row->number;
	for (unsigned i = 0; i < LEDGER_OLD_LEASES; i++)
		row->old_leases[i] = old_lease(i);
	for (unsigned i = 0; i < LEDGER_MORE_OLD_LEASES; i++)
		more->leases[i] = old_lease(LEDGER_OLD_LEASES + i);
	header->tables[OLD_LEASES].offset = (uint64_t)((char *)more - (char *)header);
	header->tables[OLD_LEASES].row_size = sizeof(*more);
	header->tables[OLD_LEASES].end = 1;
	restart();
	ck_assert_uint_eq(count_leases(), 32);
	restart();
	ck_assert_uint_eq(count_leases(), 32);
	fake_start_with_devices(1);
}
END_TEST

/* Returns the only row of the table. */
static struct rdmabroker_refusals *get_only_refusal(void)
{
	struct rdmabroker *admin = open_session();
	struct rdmabroker_refusals *refusals;

	ck_assert_int_eq(rdmabroker_get_refusals(admin, &refusals), 0);
	ck_assert_uint_eq(refusals->n, 1);
	rdmabroker_close(admin);
	return refusals;
}

static void be_refused(void)
{
	struct rdmabroker_id *one = new_id(client);

	ck_assert_int_eq(rdmabroker_bind_addr(one, addr(7999)), 0);
	ck_assert_int_eq(rdmabroker_listen(one, 1), -EACCES);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(one, T), 0);
}

/* What was refused is known to the next process, and it goes on counting. */
START_TEST(what_was_refused)
{
	struct rdmabroker_refusals *before, *after;

	restart_with("reject listen port 7999\nallow any\n");
	be_refused();
	be_refused();
	before = get_only_refusal();
	ck_assert_uint_eq(before->list[0].count, 2);
	restart();
	restart();
	be_refused();
	after = get_only_refusal();
	ck_assert_uint_eq(after->list[0].count, 3);
	ck_assert_uint_eq(after->list[0].first_ms, before->list[0].first_ms);
	ck_assert_uint_ge(after->list[0].last_ms, before->list[0].last_ms);
	ck_assert_str_eq(after->list[0].operation, "listen");
	ck_assert_str_eq(after->list[0].outcome, "rejected");
	ck_assert_str_eq(after->list[0].rule, before->list[0].rule);
	ck_assert_uint_eq(after->list[0].port, 7999);
	ck_assert_int_eq(after->list[0].local.ss_family, AF_INET);
	rdmabroker_free(before);
	rdmabroker_free(after);
}
END_TEST

/* Who was seen without the broker, and since when it was looked, is known to each later process. */
START_TEST(who_was_seen)
{
	struct ledger_sighting *row;
	struct ledger_sampling *sampling;
	struct rdmabroker_sightings *seen;
	struct rdmabroker *admin;
	struct header *header;

	restart_with("allow any\n");
	header = map_ledger();
	row = (void *)((char *)header + header->tables[LEDGER_TABLE_sighting].offset);
	*row = (struct ledger_sighting){
		.number = 7,
		.first_ms = 1000,
		.last_ms = 2000,
		.uid = 4711,
		.charged_uid = 4711,
		.charged_range = OWNER_ALONE,
		.had_ids = true,
	};
	snprintf(row->name, sizeof(row->name), "rping");
	snprintf(row->unit, sizeof(row->unit), "session-*.scope");
	header->tables[LEDGER_TABLE_sighting].end = 1;
	sampling = (void *)((char *)header + header->tables[LEDGER_TABLE_sampling].offset);
	*sampling = (struct ledger_sampling){ 500, 3000 };
	header->tables[LEDGER_TABLE_sampling].end = 1;
	restart();
	restart();
	admin = open_session();
	ck_assert_int_eq(rdmabroker_get_sightings(admin, &seen), 0);
	ck_assert_uint_eq(seen->since_ms, 500);
	ck_assert_uint_eq(seen->sampled_ms, 3000);
	ck_assert_uint_eq(seen->n, 1);
	ck_assert_uint_eq(seen->list[0].who.uid, 4711);
	ck_assert_str_eq(seen->list[0].who.unit, "session-*.scope");
	ck_assert_str_eq(seen->list[0].name, "rping");
	ck_assert(seen->list[0].had_ids);
	ck_assert_uint_eq(seen->list[0].first_ms, 1000);
	ck_assert_uint_eq(seen->list[0].last_ms, 2000);
	rdmabroker_free(seen);
	rdmabroker_close(admin);
}
END_TEST

UNIT_MAIN("ledger", succession_set_up, succession_tear_down, ledger_of_another_version,
	  ledger_of_a_newer_and_of_an_older_daemon, damaged_ledgers, request_that_was_repeated,
	  request_that_waits_in_a_second_take_over, take_overs_that_fail,
	  processes_that_die_while_they_take_over, published_sockets_when_a_process_dies,
	  nothing_is_made_that_cannot_be_kept, many_leases, access_of_leases,
	  leases_of_an_older_daemon, restriction_that_is_repeated, what_was_refused, who_was_seen)

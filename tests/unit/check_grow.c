/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "client/admin.h"
#include "tests/unit/succession.h"
#include "tests/unit/unit.h"

/* A package is built without valgrind. */
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_DUMP_STATS_AT(part)
#endif

/*
 * Restarts with many objects. Under callgrind, tests/bench/count/run compares the instructions of a restart with 100 of
 * them and with GROW of them.
 */

#define N_DEFAULT 100
#define FDS_OF_SESSION 6

static unsigned n;

static void set_up(void)
{
	const char *grow = getenv("GROW");

	n = grow ? (unsigned)atoi(grow) : N_DEFAULT;
	succession_set_up();
}

static void restart_counted(const char *part)
{
	CALLGRIND_ZERO_STATS;
	CALLGRIND_TOGGLE_COLLECT;
	restart();
	CALLGRIND_TOGGLE_COLLECT;
	CALLGRIND_DUMP_STATS_AT(part);
	printf("part %s %u\n", part, n);
}

static struct rdmabroker_status *status_of(struct rdmabroker *session)
{
	struct rdmabroker_status *status;

	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	return status;
}

START_TEST(ids_that_are_taken_over)
{
	struct rdmabroker_status *status;

	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(rdmabroker_bind_addr(new_id(server), addr(0)), 0);
	run_all();
	restart_counted("ids-taken-over");
	status = status_of(client);
	ck_assert_uint_eq(status->n_ids, n);
	rdmabroker_free(status);
}
END_TEST

#define RULES \
	"allow listen port 7471\nallow listen port 7472\nallow connect peer 10.0.0.0/8 port 7000-7999\n"

/* Each has four restrictions. */
START_TEST(restricted_sessions_that_are_taken_over)
{
	struct rdmabroker **sessions;
	struct rdmabroker_status *status;
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (n > limit.rlim_cur / FDS_OF_SESSION - 100)
		n = (unsigned)(limit.rlim_cur / FDS_OF_SESSION) - 100;
	/* Sessions= is 4096, and a user has half of that, but for root. */
	n = n > 1000 ? 1000 : n;
	sessions = calloc(n, sizeof(struct rdmabroker *));
	for (unsigned i = 0; i < n; i++) {
		sessions[i] = open_session();
		for (unsigned k = 1; k <= 4; k++)
			ck_assert_int_eq(rdmabroker_restrict(sessions[i], RULES, 10 - k), 0);
	}
	run_all();
	restart_counted("restricted-sessions-taken-over");
	status = status_of(client);
	ck_assert_uint_eq(status->n_sessions, n + 2);
	rdmabroker_free(status);
	for (unsigned i = 0; i < n; i++)
		rdmabroker_close(sessions[i]);
	free(sessions);
}
END_TEST

UNIT_MAIN("grow", set_up, succession_tear_down, ids_that_are_taken_over,
	  restricted_sessions_that_are_taken_over)

/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The program whose instructions callgrind counts (tests/bench/count/run), see single.h. The argument is the side to
 * count: "daemon", which includes the fake fabric, or "library", which includes its caller.
 *
 * Prints "part NAME" for each part, its number of repetitions, and the numbers of allocations, of bytes that were sent,
 * and of the calls of poll() and recvmmsg().
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#include "tests/bench/count/single.h"
#include "tests/unit/place.h"

#define WARM_UP "warm-up" /* no part: it is not judged */
#define TIMES 200 /* repetitions of each part; as many connections are open at the same time */

static unsigned long n_fake; /* number of the daemon's allocations that the fake fabric made */

/* Parts: callgrind writes the counts of each part to a file that contains the part's name. */

static struct ends ends;
static struct connection connections[TIMES];
static bool of_library;

static void begin_part(void)
{
	memset(single_counts, 0, sizeof(single_counts));
	n_fake = fake_get_memory().allocations;
	CALLGRIND_ZERO_STATS;
	single_collects = true;
	if (of_library)
		CALLGRIND_TOGGLE_COLLECT;
}

static void end_part(const char *name)
{
	const struct single_counts *counts = &single_counts[!of_library];

	if (of_library)
		CALLGRIND_TOGGLE_COLLECT;
	single_collects = false;
	CALLGRIND_DUMP_STATS_AT(name);
	n_fake = fake_get_memory().allocations - n_fake;
	if (strcmp(name, WARM_UP) != 0)
		printf("part %s %d %lu %lu %lu %lu\n", name, TIMES,
		       counts->allocations - (of_library ? 0 : n_fake), counts->bytes,
		       counts->polls, counts->recvmmsgs);
}

#define ENDS 50 /* connections that end in 50 ms: 1,000 a second */

/* Ends the time waits of QP numbers. The daemon's timer expires only at multiples of 50 ms. */
static void pass_time(void)
{
	single_step_time(50);
	single_turn();
}

static void connect_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ends_connect(&ends, &connections[i]);
	single_run();
}

static void disconnect_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ends_disconnect(&ends, &connections[i]);
		if ((i + 1) % ENDS == 0)
			pass_time();
	}
	single_run();
}

static void ask_all(unsigned n)
{
	int value;

	for (unsigned i = 0; i < n; i++)
		must(rdmabroker_get_option(ends.listener, RDMABROKER_OPTION_TOS, &value),
		     "get_option");
}

int main(int argc, char **argv)
{
	struct broker *broker;

	if (argc != 2 || (strcmp(argv[1], "daemon") != 0 && strcmp(argv[1], "library") != 0))
		die("which part is to be counted: daemon or library?");
	of_library = strcmp(argv[1], "library") == 0;
	broker = single_start(/* keeps= */ true);
	ends_open(&ends);

	/*
	 * Tables get their final size, and caches are filled. It is counted, because callgrind adds system calls that were
	 * made without being counted to the next part.
	 */
	begin_part();
	connect_all(TIMES);
	disconnect_all(TIMES);
	ask_all(TIMES);
	end_part(WARM_UP);

	begin_part();
	ask_all(TIMES);
	end_part("rpc");
	begin_part();
	connect_all(TIMES);
	end_part("connect");
	begin_part();
	disconnect_all(TIMES);
	end_part("disconnect");
	ends.resolves_at_once = true;
	begin_part();
	connect_all(TIMES);
	end_part("connect-resolve");
	disconnect_all(TIMES);

	ends_close(&ends);
	single_run();
	ends.apart = true;
	ends_open(&ends);
	begin_part();
	connect_all(TIMES);
	disconnect_all(TIMES);
	end_part(WARM_UP);
	begin_part();
	connect_all(TIMES);
	end_part("connect-apart");
	begin_part();
	disconnect_all(TIMES);
	end_part("disconnect-apart");
	ends_close(&ends);
	single_run();
	broker_free(broker);
	place_remove();
	return EXIT_SUCCESS;
}

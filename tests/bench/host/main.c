/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Measures what the broker itself costs, with the fake fabric: CPU time, packets and waits of a connection, and the
 * memory of an object. The argument is the number of rounds; times are the medians of the rounds.
 */

#include <signal.h>
#include <stdlib.h>

#include "tests/bench/host/host.h"
#include "tests/unit/place.h"

static void on_signal(int signal)
{
	place_remove();
	_exit(128 + signal);
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 0;

	if (rounds < 1 || rounds > ROUNDS_MAX)
		die("usage: host ROUNDS (1 to %d)", ROUNDS_MAX);
	signal(SIGINT, on_signal);
	measure_cost((unsigned)rounds);
	measure_memory();
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ping.h"

/*
 * rdmabroker-ping: the example of a whole program with the library, which tests use, too. The client is in client.c,
 * the server in server.c, what both do in ping.c and data.c.
 */

enum {
	EXIT_REFUSED = 3,
};

static int make_signal_fd(void)
{
	sigset_t set;

	/* SIGPIPE: disconnect properly if the reader of our output is gone. */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
	struct options options;
	struct rdmabroker_options session_options = RDMABROKER_OPTIONS_INIT;
	struct ping ping = { .options = &options };
	enum outcome outcome;
	int r, exit_status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (options_parse(&options, argc, argv, &exit_status) < 0)
		return exit_status;
	ping.signal_fd = make_signal_fd();
	if (ping.signal_fd < 0) {
		complain("cannot receive signals: %m");
		return EXIT_FAILURE;
	}

	/* -T also limits the wait for replies of the broker. */
	session_options.call_timeout_ms = options.timeout_ms;
	r = rdmabroker_open(&session_options, &ping.session);
	if (r < 0) {
		if (ping_call_failed(r) == OUTCOME_REFUSED)
			return EXIT_REFUSED;
		return EXIT_FAILURE;
	}
	outcome = options.serve ? server_run(&ping) : client_run(&ping);
	if (outcome == OUTCOME_STOPPED)
		complain("interrupted");
	rdmabroker_close(ping.session);
	close(ping.signal_fd);

	switch (outcome) {
	case OUTCOME_OK:
		return EXIT_SUCCESS;
	case OUTCOME_REFUSED:
		return EXIT_REFUSED;
	default:
		return EXIT_FAILURE;
	}
}

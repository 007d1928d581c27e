/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>

#include "ping.h"

static int make_signal_fd(void)
{
	sigset_t set;

	/* SIGPIPE: disconnect properly if the reader of our output is gone. */
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
	struct options options;
	struct rdmabroker_options session_options = RDMABROKER_OPTIONS_INIT;
	struct ping ping = { .options = &options };
	enum outcome outcome;
	int r, status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (options_parse(&options, argc, argv, &status) < 0)
		return status;
	ping.signal_fd = make_signal_fd();
	/* -T also limits the wait for replies of the broker. */
	session_options.call_timeout_ms = options.timeout_ms;
	r = rdmabroker_open(&session_options, &ping.session);
	if (r < 0)
		outcome = ping_call_failed(r);
	else
		outcome = options.serve ? server_run(&ping) : client_run(&ping);
	if (outcome == OUTCOME_STOPPED)
		complain("interrupted");
	/* Destroys the ids that are left, which rejects the requests that wait. */
	rdmabroker_close(ping.session);
	return outcome == OUTCOME_OK ? EXIT_SUCCESS : outcome == OUTCOME_REFUSED ? 3 : EXIT_FAILURE;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>

#include "broker.h"
#include "util/log.h"

/* The daemon on the fake fabric, as a program: fakebroker CONFIG SOCKET POLICY-DIR SITE-POLICY-DIR. */

int main(int argc, char **argv)
{
	struct broker_options options = {};
	struct broker *broker = NULL;
	char common[PATH_MAX];

	if (argc != 5) {
		fputs("fakebroker CONFIG SOCKET POLICY-DIR SITE-POLICY-DIR\n", stderr);
		return 2;
	}
	options.config_path = argv[1];
	/* Clients of this socket need no rule to observe. */
	options.admin_socket_path = argv[2];
	snprintf(common, sizeof(common), "%s.common", argv[2]);
	options.socket_path = common;
	options.policy_dir = argv[3];
	options.site_policy_dir = argv[4];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_init();
	if (broker_new(&broker, &options) < 0 || broker_run(broker) < 0)
		return EXIT_FAILURE;
	broker_free(broker);
	return EXIT_SUCCESS;
}

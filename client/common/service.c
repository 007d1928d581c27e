/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/version.h"
#include "service.h"

/* getopt_long() returns this, plus the index of an option with a value. */
#define OPT_FIRST 0x100

int service_see_help(void)
{
	fprintf(stderr, "%s: see %s --help\n", program_invocation_short_name,
		program_invocation_short_name);
	return EXIT_USAGE;
}

/* Returns as service_read_arguments(). */
static int take(const struct service_option *option, const char *value)
{
	if (!option->n) {
		*option->values = value;
		return -1;
	}
	if (*option->n == option->max) {
		fprintf(stderr, "%s: --%s can be given at most %u times\n",
			program_invocation_short_name, option->name, option->max);
		return service_see_help();
	}
	option->values[(*option->n)++] = value;
	return -1;
}

int service_read_arguments(const struct service *service, int argc, char **argv)
{
	struct option options[SERVICE_OPTIONS_MAX + 3] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
	};
	int c, status = -1;

	for (int i = 0; service->options[i].name; i++)
		options[2 + i] = (struct option){ service->options[i].name, required_argument, NULL,
						  OPT_FIRST + i };
	while (status < 0 && (c = getopt_long(argc, argv, "hV", options, NULL)) >= 0) {
		switch (c) {
		case 'h':
			fputs(service->help, stdout);
			return EXIT_SUCCESS;
		case 'V':
			printf("%s " RDMABROKER_VERSION "\n", program_invocation_short_name);
			return EXIT_SUCCESS;
		case '?':
			/* getopt_long() has printed the error. */
			return service_see_help();
		default:
			status = take(&service->options[c - OPT_FIRST], optarg);
		}
	}
	if (status < 0 && optind < argc) {
		fprintf(stderr, "%s: unexpected argument '%s'\n", program_invocation_short_name,
			argv[optind]);
		return service_see_help();
	}
	return status;
}

/*
 * Blocks SIGTERM and SIGINT, which end a service when its loop reads them, and ignores SIGPIPE. *RET: the blocked
 * signals. To be called before any thread is created, because a new thread inherits them.
 */
static int block_signals(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGINT);
	if (sigprocmask(SIG_BLOCK, ret, NULL) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

int service_add_signals(sd_event *loop)
{
	sigset_t mask;
	int r = block_signals(&mask);

	if (r >= 0)
		r = sd_event_add_signal(loop, NULL, SIGTERM, NULL, NULL);
	return r < 0 ? r : sd_event_add_signal(loop, NULL, SIGINT, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/notifier.h"
#include "proto/version.h"
#include "service.h"

/* getopt_long() returns this, plus the index of an option of the program. */
#define OPT_FIRST 0x100

struct arguments {
	const char *config; /* NULL: the default */
	const char *listen[SOCKETS_MAX];
	unsigned n_listen;
	const char *values[SERVICE_OPTIONS_MAX]; /* of the program's options; NULL: not given */
};

/* Says where help is: the text of --help would scroll the error off the screen. */
static int see_help(void)
{
	fprintf(stderr, "%s: see %s --help\n", program_invocation_short_name,
		program_invocation_short_name);
	return EXIT_USAGE;
}

/* Returns as service_read_settings(). */
static int read_arguments(const struct service *service, int argc, char **argv,
			  struct arguments *ret)
{
	struct option options[SERVICE_OPTIONS_MAX + 5] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ "config", required_argument, NULL, 'c' },
		{ "listen", required_argument, NULL, 'l' },
	};
	int c;

	for (int i = 0; service->options[i].name; i++)
		options[4 + i] = (struct option){ service->options[i].name, required_argument, NULL,
						  OPT_FIRST + i };
	while ((c = getopt_long(argc, argv, "hV", options, NULL)) >= 0) {
		switch (c) {
		case 'h':
			fputs(service->help, stdout);
			return EXIT_SUCCESS;
		case 'V':
			printf("%s " RDMABROKER_VERSION "\n", program_invocation_short_name);
			return EXIT_SUCCESS;
		case '?':
			/* getopt_long() has printed the error. */
			return see_help();
		case 'c':
			ret->config = optarg;
			break;
		case 'l':
			if (ret->n_listen == SOCKETS_MAX) {
				fprintf(stderr, "%s: --listen can be given at most %d times\n",
					program_invocation_short_name, SOCKETS_MAX);
				return see_help();
			}
			ret->listen[ret->n_listen++] = optarg;
			break;
		default:
			ret->values[c - OPT_FIRST] = optarg;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "%s: unexpected argument '%s'\n", program_invocation_short_name,
			argv[optind]);
		return see_help();
	}
	return -1;
}

int service_read_settings(const struct service *service, int argc, char **argv, void *settings,
			  struct sockets_addresses *listen)
{
	struct arguments arguments = {};
	int status = read_arguments(service, argc, argv, &arguments);

	if (status >= 0)
		return status;
	if (conffile_read(arguments.config ?: service->config, /* must_exist= */ arguments.config,
			  service->keys, settings) < 0)
		return EXIT_MISCONFIGURED;
	if (!sockets_override(listen, arguments.listen, arguments.n_listen, service->may_be_path))
		return see_help();
	for (const struct service_option *option = service->options; option->name; option++)
		if (!conffile_override(service->keys, option->key, option->name,
				       arguments.values[option - service->options], settings))
			return see_help();
	return -1;
}

/* New threads inherit what is blocked. */
static int add_signals(sd_event *loop)
{
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	r = sd_event_add_signal(loop, NULL, SIGTERM, NULL, NULL);
	return r < 0 ? r : sd_event_add_signal(loop, NULL, SIGINT, NULL, NULL);
}

int service_make_loop(sd_event **ret_loop, struct notifier **ret_notifier)
{
	int r = sd_event_new(ret_loop);

	if (r >= 0)
		r = notifier_new(ret_notifier, *ret_loop);
	if (r >= 0)
		r = add_signals(*ret_loop);
	if (r >= 0)
		r = notifier_add_watchdog(*ret_notifier);
	return r < 0 ? r : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "broker.h"
#include "proto/version.h"
#include "util/log.h"

#ifndef RDMABROKER_CONFIG
#define RDMABROKER_CONFIG "/etc/rdmabroker/rdmabrokerd.conf"
#endif

/* RestartPreventExitStatus= of the unit names this exit status. */
#define EXIT_MISCONFIGURED EX_CONFIG

enum {
	OPT_CHECK = 0x100,
	OPT_CONFIG,
	OPT_JSON,
	OPT_SOCKET,
	OPT_POLICY_DIR,
};

static const struct option long_options[] = {
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "policy-dir", required_argument, NULL, OPT_POLICY_DIR },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	fputs("rdmabrokerd [OPTION ...]\n"
	      "rdmabrokerd --check [--json] [FILE ...]\n"
	      "\n"
	      "Owns this host's RDMA connection manager and serves it by policy.\n"
	      "\n"
	      "  --check [FILE ...]  parse rules (*.rules) and configuration (*.conf), print all\n"
	      "                      errors, and exit with 1 if there are any; change nothing;\n"
	      "                      without FILE: parse what the daemon would read\n"
	      "  --json              with --check: print one JSON object\n"
	      "  --config FILE       read FILE instead of " RDMABROKER_CONFIG "\n"
	      "  --socket PATH       listen on PATH instead of the configured socket\n"
	      "  --policy-dir DIR    read the *.rules in DIR instead of the configured directory\n"
	      "  -h, --help          print this text\n"
	      "  -V, --version       print the version\n"
	      "\n"
	      "Signals: HUP reloads policy and configuration, TERM and INT stop.\n"
	      "See rdmabrokerd(8), rdmabroker.rules(5), rdmabrokerd.conf(5).\n",
	      stdout);
}

/* The whole text of --help would scroll the error off the screen. */
static int see_help(void)
{
	fputs("rdmabrokerd: see rdmabrokerd --help\n", stderr);
	return 2;
}

static int serve(const struct broker_options *options)
{
	struct broker *broker = NULL;
	int r;

	log_init();
	r = broker_new(&broker, options);
	if (r < 0)
		log_error("Cannot start rdmabrokerd: %s.", strerror(-r));
	if (r == 0) {
		r = broker_run(broker);
		if (r < 0)
			log_error("Cannot run the event loop: %s. rdmabrokerd ends.", strerror(-r));
	}
	broker_free(broker);
	log_end();
	return r > 0 ? EXIT_MISCONFIGURED : r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct broker_options options = { .config_path = RDMABROKER_CONFIG };
	bool check = false, json = false;
	int c;

	while ((c = getopt_long(argc, argv, "hV", long_options, NULL)) >= 0) {
		switch (c) {
		case OPT_CHECK:
			check = true;
			break;
		case OPT_CONFIG:
			options.config_path = optarg;
			options.config_is_named = true;
			break;
		case OPT_JSON:
			json = true;
			break;
		case OPT_SOCKET:
			options.socket_path = optarg;
			break;
		case OPT_POLICY_DIR:
			options.policy_dir = optarg;
			break;
		case 'V':
			puts("rdmabrokerd " RDMABROKER_VERSION);
			return EXIT_SUCCESS;
		case 'h':
			usage();
			return EXIT_SUCCESS;
		default:
			/* getopt_long() has printed the error. */
			return see_help();
		}
	}
	if (check)
		return broker_check(&options, argv + optind, (size_t)(argc - optind), json);
	if (json) {
		fputs("rdmabrokerd: --json requires --check\n", stderr);
		return see_help();
	}
	if (optind < argc) {
		fprintf(stderr, "rdmabrokerd: unexpected argument '%s'\n", argv[optind]);
		return see_help();
	}
	return serve(&options);
}

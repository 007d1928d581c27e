/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>

#include "broker.h"
#include "filecheck.h"
#include "instance.h"
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
	OPT_INSTANCE,
	OPT_JSON,
	OPT_SOCKET,
	OPT_ADMIN_SOCKET,
	OPT_HELPER_SOCKET,
	OPT_POLICY_DIR,
	OPT_SITE_POLICY_DIR,
	OPT_TEST,
};

#define TRIALS_MAX 256

static const struct option long_options[] = {
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "instance", required_argument, NULL, OPT_INSTANCE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "admin-socket", required_argument, NULL, OPT_ADMIN_SOCKET },
	{ "helper-socket", required_argument, NULL, OPT_HELPER_SOCKET },
	{ "policy-dir", required_argument, NULL, OPT_POLICY_DIR },
	{ "site-policy-dir", required_argument, NULL, OPT_SITE_POLICY_DIR },
	{ "test", required_argument, NULL, OPT_TEST },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	fputs("rdmabrokerd [OPTION ...]\n"
	      "rdmabrokerd --check [--json] [--test FILE ...] [FILE ...]\n"
	      "\n"
	      "Owns this host's RDMA connection manager and serves it by policy.\n"
	      "\n"
	      "  --check [FILE ...]  parse rules (*.rules) and configuration (*.conf), print all\n"
	      "                      errors, and exit with 1 if there are any; change nothing;\n"
	      "                      without FILE: parse what the daemon would read\n"
	      "  --test FILE         with --check: make the tests of the rules in FILE, too; can be\n"
	      "                      given several times\n"
	      "  --json              with --check: print one JSON object\n"
	      "  --config FILE       read FILE instead of " RDMABROKER_CONFIG "\n"
	      "  --instance NAME     serve a network namespace, beside the initial instance\n"
	      "  --socket PATH       listen on PATH instead of the configured socket\n"
	      "  --admin-socket PATH    listen on PATH for administration by root and this user\n"
	      "  --helper-socket PATH   listen on PATH for rdmabroker-peerd\n"
	      "  --policy-dir DIR    read the *.rules in DIR instead of the configured directory\n"
	      "  --site-policy-dir DIR  the same, for the rules of the site\n"
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
	/* static: LeakSanitizer has to find what broker_free() leaves to the next process. */
	static struct broker *broker;
	int r;

	log_init();
	if (dlsym(RTLD_DEFAULT, "rdmabroker_dropin")) {
		log_error(
			"Cannot start rdmabrokerd: it has got the drop-in in place of librdmacm, and would be a "
			"client of itself. Start it without LD_PRELOAD and LD_LIBRARY_PATH.");
		log_end();
		return EXIT_MISCONFIGURED;
	}
	/* Where the kernel gives huge pages to everybody, a thread that needs 10 kB of stack can take 2 MB. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
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
	const char *trials[TRIALS_MAX];
	bool check = false, json = false;
	int c;

	options.trials = trials;

	while ((c = getopt_long(argc, argv, "hV", long_options, NULL)) >= 0) {
		switch (c) {
		case OPT_CHECK:
			check = true;
			break;
		case OPT_CONFIG:
			options.config_path = optarg;
			options.config_is_named = true;
			break;
		case OPT_INSTANCE:
			if (!instance_is_name(optarg)) {
				fprintf(stderr,
					"rdmabrokerd: invalid name of an instance '%s': it must "
					"have 1 to %d letters, digits, '_', '-' or '.'\n",
					optarg, INSTANCE_NAME_MAX);
				return see_help();
			}
			options.instance = optarg;
			break;
		case OPT_JSON:
			json = true;
			break;
		case OPT_SOCKET:
			options.socket_path = optarg;
			break;
		case OPT_ADMIN_SOCKET:
			options.admin_socket_path = optarg;
			break;
		case OPT_HELPER_SOCKET:
			options.helper_socket_path = optarg;
			break;
		case OPT_POLICY_DIR:
			options.policy_dir = optarg;
			break;
		case OPT_SITE_POLICY_DIR:
			options.site_policy_dir = optarg;
			break;
		case OPT_TEST:
			if (options.n_trials == TRIALS_MAX) {
				fprintf(stderr, "rdmabrokerd: --test can be given %d times\n",
					TRIALS_MAX);
				return see_help();
			}
			trials[options.n_trials++] = optarg;
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
		return filecheck_run(&options, argv + optind, (size_t)(argc - optind), json);
	if (json || options.n_trials > 0) {
		fprintf(stderr, "rdmabrokerd: %s requires --check\n", json ? "--json" : "--test");
		return see_help();
	}
	if (optind < argc) {
		fprintf(stderr, "rdmabrokerd: unexpected argument '%s'\n", argv[optind]);
		return see_help();
	}
	return serve(&options);
}

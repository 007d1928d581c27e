/* SPDX-License-Identifier: BSD-2-Clause */
#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sysexits.h>

#include "agent.h"
#include "common/log.h"
#include "proto/version.h"
#include "settings.h"

#ifndef FLEET_CONFIG
#define FLEET_CONFIG "/etc/rdmabroker/fleet.conf"
#endif
#define STATE_DIR "/var/lib/rdmabroker-fleet"
#define RESULT "/var/lib/rdmabroker-fleet-result/result"
#define SITE "/var/lib/rdmabroker/site"

/* systemd calls this status CONFIG; its number, 78, is in the unit's RestartPreventExitStatus=. */
#define EXIT_MISCONFIGURED EX_CONFIG
#define EXIT_USAGE 2

enum {
	OPT_CONFIG = 0x100,
	OPT_SOCKET,
	OPT_STATE,
	OPT_RESULT,
	OPT_SITE,
};

static const struct option long_options[] = {
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "state-directory", required_argument, NULL, OPT_STATE },
	{ "result", required_argument, NULL, OPT_RESULT },
	{ "site", required_argument, NULL, OPT_SITE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static void usage(void)
{
	fputs("rdmabroker-fleet [OPTION ...]\n"
	      "\n"
	      "Brings versions of a policy from etcd to this host, and reports the state of the host.\n"
	      "\n"
	      "  --config FILE          the configuration file (default " FLEET_CONFIG ")\n"
	      "  --socket PATH          the socket of rdmabrokerd\n"
	      "  --state-directory DIR  where versions are staged (default " STATE_DIR ")\n"
	      "  --result FILE          what became of the last version\n"
	      "                         (default " RESULT ")\n"
	      "  --site DIR             where versions are installed (default " SITE ")\n"
	      "  -h, --help             print this summary\n"
	      "  -V, --version          print the version\n"
	      "\n"
	      "Exit status: 0 stopped, 1 failed, 2 usage error, 78 error in the configuration.\n"
	      "See rdmabroker-fleet(8).\n",
	      stdout);
}

/* The text of --help would scroll the error off the screen. */
static int see_help(void)
{
	fputs("rdmabroker-fleet: see rdmabroker-fleet --help\n", stderr);
	return EXIT_USAGE;
}

static bool is_path(const char *path)
{
	return path[0] == '/' && strlen(path) < SETTINGS_PATH_MAX;
}

/* Returns an exit status; -1: the program goes on. */
static int read_arguments(struct settings *settings, const char **ret_config, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "hV", long_options, NULL)) >= 0) {
		if (optarg && !is_path(optarg)) {
			fprintf(stderr,
				"rdmabroker-fleet: '%s' is not an absolute path of at most %d bytes\n",
				optarg, SETTINGS_PATH_MAX - 1);
			return see_help();
		}
		switch (c) {
		case OPT_CONFIG:
			*ret_config = optarg;
			break;
		case OPT_SOCKET:
			settings->socket = optarg;
			break;
		case OPT_STATE:
			settings->state_dir = optarg;
			break;
		case OPT_RESULT:
			settings->result = optarg;
			break;
		case OPT_SITE:
			settings->site = optarg;
			break;
		case 'V':
			puts("rdmabroker-fleet " RDMABROKER_VERSION);
			return EXIT_SUCCESS;
		case 'h':
			usage();
			return EXIT_SUCCESS;
		default:
			/* getopt_long() has printed the error. */
			return see_help();
		}
	}
	if (optind < argc) {
		fprintf(stderr, "rdmabroker-fleet: unexpected argument '%s'\n", argv[optind]);
		return see_help();
	}
	return -1;
}

/* A descriptor that is readable when the program has to end. Called before libcurl creates any thread. */
static int open_signals(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
	struct settings settings = { .state_dir = STATE_DIR, .result = RESULT, .site = SITE };
	const char *config = FLEET_CONFIG;
	struct agent *agent = NULL;
	int status = read_arguments(&settings, &config, argc, argv);
	int stop;

	if (status >= 0)
		return status;
	if (settings_read(&settings, config) < 0)
		return EXIT_MISCONFIGURED;
	stop = open_signals();
	if (stop < 0 || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		log_line(LOG_ERR, "Cannot start: signals or libcurl cannot be set up.");
		return EXIT_FAILURE;
	}
	if (agent_new(&agent, &settings) < 0)
		return EXIT_MISCONFIGURED;
	agent_run(agent, stop);
	agent_free(agent);
	curl_global_cleanup();
	explicit_bzero(settings.password, sizeof(settings.password));
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "agent.h"
#include "common/log.h"
#include "common/service.h"
#include "settings.h"

/*
 * rdmabroker-fleet, the agent of a host: it takes the version that the fleet wants from etcd, and reports what became
 * of it.
 */

#ifndef FLEET_CONFIG
#define FLEET_CONFIG "/etc/rdmabroker/fleet.conf"
#endif
#define STATE_DIR "/var/lib/rdmabroker-fleet"
#define RESULT "/var/lib/rdmabroker-fleet-result/result"
#define SITE "/var/lib/rdmabroker/site"

static const char help[] =
	"rdmabroker-fleet [OPTION ...]\n"
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
	"See rdmabroker-fleet(8).\n";

/* Errors are reported. */
static bool are_paths(const struct service_option *options)
{
	for (; options->name; options++) {
		const char *path = *options->values;

		if (!path || (path[0] == '/' && strlen(path) < SETTINGS_PATH_MAX))
			continue;
		fprintf(stderr,
			"rdmabroker-fleet: '%s' is not an absolute path of at most %d bytes\n",
			path, SETTINGS_PATH_MAX - 1);
		return false;
	}
	return true;
}

/* A descriptor that is readable when the program has to end. Called before libcurl creates any thread. */
static int open_signals(void)
{
	sigset_t mask;
	int r = service_block_signals(&mask);

	return r < 0 ? r : signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
	struct settings settings = { .state_dir = STATE_DIR, .result = RESULT, .site = SITE };
	const char *config = FLEET_CONFIG;
	const struct service service = {
		.help = help,
		.options = {
			{ "config", &config },
			{ "socket", &settings.socket },
			{ "state-directory", &settings.state_dir },
			{ "result", &settings.result },
			{ "site", &settings.site },
		},
	};
	struct agent *agent = NULL;
	int status = service_read_arguments(&service, argc, argv);
	int stop;

	if (status >= 0)
		return status;
	if (!are_paths(service.options))
		return service_see_help();
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

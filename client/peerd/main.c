/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#include "asker.h"
#include "brokerlink.h"
#include "common/log.h"
#include "proto/notifier.h"
#include "proto/version.h"
#include "server.h"
#include "settings.h"
#include "work.h"

#ifndef PEERD_CONFIG
#define PEERD_CONFIG "/etc/rdmabroker/peerd.conf"
#endif

#define LISTEN ":9472" /* every address of this host */

/* systemd calls this status CONFIG; its number, 78, is in the unit's RestartPreventExitStatus=. */
#define EXIT_MISCONFIGURED EX_CONFIG
#define EXIT_USAGE 2

/* Threads for each side, so that other hosts' questions do not delay this host's. */
#define THREADS 2

enum {
	OPT_CONFIG = 0x100,
	OPT_SOCKET,
	OPT_MUNGE_SOCKET,
	OPT_LISTEN,
};

static const struct option long_options[] = {
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "munge-socket", required_argument, NULL, OPT_MUNGE_SOCKET },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct arguments {
	const char *config; /* NULL: the default, which need not exist */
	const char *socket, *munge_socket; /* NULL: as in the file */
	const char *listen[SOCKETS_MAX];
	unsigned n_listen;
};

struct peerd {
	struct settings settings;
	struct seal seal;
	struct sockets sockets;
	sd_event *loop;
	struct notifier *notifier;
	struct work *asking, *answering;
	struct asker *asker;
	struct brokerlink *link;
	struct server *server;
};

static void usage(void)
{
	fputs("rdmabroker-peerd [OPTION ...]\n"
	      "\n"
	      "Asks other hosts who peers are, for rdmabrokerd, and answers other hosts.\n"
	      "\n"
	      "  --config FILE          the configuration file (default " PEERD_CONFIG ")\n"
	      "  --socket PATH          the socket of rdmabrokerd\n"
	      "  --munge-socket PATH    the socket of munged\n"
	      "  --listen ADDRESS:PORT  where other hosts ask, if systemd passes no sockets (default :9472);\n"
	      "                         can be repeated\n"
	      "  -h, --help             print this summary\n"
	      "  -V, --version          print the version\n"
	      "\n"
	      "Exit status: 0 stopped, 1 failed, 2 usage error, 78 error in the configuration.\n"
	      "See rdmabroker-peerd(8).\n",
	      stdout);
}

/* The text of --help would scroll the error off the screen. */
static int see_help(void)
{
	fputs("rdmabroker-peerd: see rdmabroker-peerd --help\n", stderr);
	return EXIT_USAGE;
}

/* Returns an exit status; -1: the program goes on. */
static int read_arguments(struct arguments *ret, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "hV", long_options, NULL)) >= 0) {
		switch (c) {
		case OPT_CONFIG:
			ret->config = optarg;
			break;
		case OPT_SOCKET:
			ret->socket = optarg;
			break;
		case OPT_MUNGE_SOCKET:
			ret->munge_socket = optarg;
			break;
		case OPT_LISTEN:
			if (ret->n_listen == SOCKETS_MAX) {
				fprintf(stderr,
					"rdmabroker-peerd: --listen can be given at most %d times\n",
					SOCKETS_MAX);
				return see_help();
			}
			ret->listen[ret->n_listen++] = optarg;
			break;
		case 'V':
			puts("rdmabroker-peerd " RDMABROKER_VERSION);
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
		fprintf(stderr, "rdmabroker-peerd: unexpected argument '%s'\n", argv[optind]);
		return see_help();
	}
	return -1;
}

/* The command line overrides the file. Errors are reported. */
static bool override(struct settings *settings, const struct arguments *arguments)
{
	for (unsigned i = 0; i < arguments->n_listen; i++)
		if (!settings_add_listen(settings, "--listen", arguments->listen[i]))
			return false;
	if (arguments->socket &&
	    !settings_set_path(settings->socket, "--socket", arguments->socket))
		return false;
	return !arguments->munge_socket ||
	       settings_set_path(settings->munge_socket, "--munge-socket", arguments->munge_socket);
}

/* The loop ends with these signals. Called before the threads are created, which inherit the mask. */
static int add_signals(sd_event *loop)
{
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
		return -errno;
	r = sd_event_add_signal(loop, NULL, SIGTERM, NULL, NULL);
	return r < 0 ? r : sd_event_add_signal(loop, NULL, SIGINT, NULL, NULL);
}

static int start(struct peerd *peerd)
{
	const struct settings *settings = &peerd->settings;
	int r = sd_event_new(&peerd->loop);

	if (r >= 0)
		r = add_signals(peerd->loop);
	if (r >= 0)
		r = notifier_new(&peerd->notifier, peerd->loop);
	if (r >= 0)
		r = notifier_add_watchdog(peerd->notifier);
	if (r >= 0)
		r = work_new(&peerd->asking, peerd->loop, THREADS);
	if (r >= 0)
		r = work_new(&peerd->answering, peerd->loop, THREADS);
	if (r >= 0)
		r = asker_new(&peerd->asker, peerd->loop, settings, &peerd->seal, peerd->asking);
	if (r >= 0)
		r = brokerlink_new(&peerd->link, peerd->loop, peerd->notifier, peerd->asking,
				   *settings->socket ? settings->socket : NULL, asker_ask,
				   peerd->asker);
	if (r < 0)
		return r;
	asker_set_link(peerd->asker, peerd->link);
	return server_new(&peerd->server, peerd->loop, &peerd->sockets, &peerd->seal, peerd->link,
			  peerd->answering);
}

static void stop(struct peerd *peerd)
{
	server_free(peerd->server);
	asker_free(peerd->asker);
	/* The threads use the link. */
	work_free(peerd->answering);
	work_free(peerd->asking);
	brokerlink_free(peerd->link);
	notifier_free(peerd->notifier);
	sd_event_unref(peerd->loop);
	sockets_close(&peerd->sockets);
}

static int open_sockets(struct peerd *peerd)
{
	struct settings *settings = &peerd->settings;
	int n = sd_listen_fds(/* unset_environment= */ 1);

	if (n < 0)
		return n;
	if (n > 0)
		return sockets_take(&peerd->sockets, n);
	if (settings->n_listen == 0)
		settings_add_listen(settings, "--listen", LISTEN);
	return sockets_open(&peerd->sockets, settings->listen, settings->n_listen);
}

static int run(struct peerd *peerd)
{
	int r = open_sockets(peerd);

	if (r < 0)
		return EXIT_FAILURE;
	r = start(peerd);
	if (r >= 0) {
		notifier_tell(peerd->notifier, "READY=1");
		r = sd_event_loop(peerd->loop);
	}
	if (r < 0)
		log_line(LOG_ERR, "Cannot run: %s.", strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {};
	struct peerd peerd = {};
	int status = read_arguments(&arguments, argc, argv);

	if (status >= 0)
		return status;
	if (settings_read(&peerd.settings, arguments.config ?: PEERD_CONFIG,
			  /* must_exist= */ arguments.config) < 0)
		return EXIT_MISCONFIGURED;
	if (!override(&peerd.settings, &arguments))
		return see_help();
	peerd.seal = settings_seal(&peerd.settings);
	status = run(&peerd);
	stop(&peerd);
	return status;
}

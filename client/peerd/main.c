/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asker.h"
#include "brokerlink.h"
#include "common/log.h"
#include "common/service.h"
#include "common/work.h"
#include "proto/notifier.h"
#include "server.h"
#include "settings.h"

/*
 * rdmabroker-peerd: tells other hosts who is behind an address here, and asks them the same for the daemon. It opens
 * no RDMA device, and decides nothing.
 */

#ifndef PEERD_CONFIG
#define PEERD_CONFIG "/etc/rdmabroker/peerd.conf"
#endif

#define LISTEN \
	":9472" /* every address of this host, unless systemd or the command line says otherwise */

/* Threads for each side, so that other hosts' questions do not delay this host's. */
#define THREADS 2

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

static const char help[] =
	"rdmabroker-peerd [OPTION ...]\n"
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
	"See rdmabroker-peerd(8).\n";

/* The command line overrides the file. Errors are reported. */
static bool override(struct settings *settings, const struct arguments *arguments)
{
	sockets_add(&settings->listen, LISTEN, /* may_be_path= */ false);
	return sockets_override(&settings->listen, arguments->listen, arguments->n_listen,
				/* may_be_path= */ false) &&
	       conffile_override(settings_keys, "Socket", "--socket", arguments->socket,
				 settings) &&
	       conffile_override(settings_keys, "MungeSocket", "--munge-socket",
				 arguments->munge_socket, settings);
}

static int start(struct peerd *peerd)
{
	const struct settings *settings = &peerd->settings;
	int r = sd_event_new(&peerd->loop);

	if (r >= 0)
		r = notifier_new(&peerd->notifier, peerd->loop);
	if (r >= 0)
		r = service_add_signals(peerd->loop);
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

static int run(struct peerd *peerd)
{
	int r;

	if (sockets_open(&peerd->sockets, &peerd->settings.listen) < 0)
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
	const struct service service = {
		.help = help,
		.options = {
			{ "config", &arguments.config },
			{ "socket", &arguments.socket },
			{ "munge-socket", &arguments.munge_socket },
			{ "listen", arguments.listen, &arguments.n_listen, SOCKETS_MAX },
		},
	};
	struct peerd peerd = {};
	int status = service_read_arguments(&service, argc, argv);

	if (status >= 0)
		return status;
	if (conffile_read(arguments.config ?: PEERD_CONFIG, /* must_exist= */ arguments.config,
			  settings_keys, &peerd.settings) < 0)
		return EXIT_MISCONFIGURED;
	if (!override(&peerd.settings, &arguments))
		return service_see_help();
	if (*peerd.settings.munge_socket)
		peerd.seal.socket = peerd.settings.munge_socket;
	status = run(&peerd);
	stop(&peerd);
	return status;
}

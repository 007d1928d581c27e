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

struct settings {
	struct sockets_addresses listen; /* only from the command line */
	unsigned port; /* of rdmabroker-peerd on other hosts */
	char socket[108]; /* the broker's; empty: the library's default */
	char munge_socket[108]; /* empty: libmunge's default */
};

/* clang-format off */
#define PATH(name, member) \
	{ "Peers", name, inifile_path, INIFILE_TEXT(struct settings, member), NULL, \
	  "an absolute path of at most 107 bytes" }

static const struct inifile_key keys[] = {
	{ "Peers", "Port", inifile_number, offsetof(struct settings, port), 1, 65535, "9472", NULL },
	PATH("Socket", socket),
	PATH("MungeSocket", munge_socket),
	{},
};
/* clang-format on */

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

static const struct service service = {
	.help = help,
	.config = PEERD_CONFIG,
	.keys = keys,
	.options = { { "socket", "Socket" }, { "munge-socket", "MungeSocket" } },
};

static int start(struct peerd *peerd)
{
	const struct settings *settings = &peerd->settings;
	int r = service_make_loop(&peerd->loop, &peerd->notifier);

	if (r >= 0)
		r = work_new(&peerd->asking, peerd->loop, THREADS);
	if (r >= 0)
		r = work_new(&peerd->answering, peerd->loop, THREADS);
	if (r >= 0)
		r = asker_new(&peerd->asker, peerd->loop, (uint16_t)settings->port, &peerd->seal,
			      peerd->asking);
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
	struct peerd peerd = {};
	struct settings *settings = &peerd.settings;
	int status;

	sockets_add(&settings->listen, LISTEN, /* may_be_path= */ false);
	status = service_read_settings(&service, argc, argv, settings, &settings->listen);
	if (status >= 0)
		return status;
	if (*settings->munge_socket)
		peerd.seal.socket = settings->munge_socket;
	status = run(&peerd);
	stop(&peerd);
	return status;
}

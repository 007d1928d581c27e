/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "common/log.h"
#include "common/service.h"
#include "http.h"
#include "proto/notifier.h"
#include "site.h"

/*
 * rdmabroker-exporter: the daemon's metrics by HTTP, for Prometheus. It has a session of its own, and no right but to
 * observe.
 */

#ifndef EXPORTER_CONFIG
#define EXPORTER_CONFIG "/etc/rdmabroker/exporter.conf"
#endif

#define LISTEN "127.0.0.1:9471" /* if no address is set */

struct settings {
	char socket[108]; /* the broker's socket; empty: the library's default */
	struct sockets_addresses listen;
	char site[256], pull[256]; /* directories, of `rdmabrokerctl site` and rdmabroker-pull */
};

static size_t parse_listen(const struct inifile_key *key, const char *value, void *field)
{
	struct sockets_addresses *addresses = field;
	char word[INIFILE_WORD_SIZE];
	size_t from, at = 0;

	addresses->n = 0;
	while ((from = inifile_word(value, " \t", &at, word)) > 0)
		if (!sockets_add(addresses, word, /* may_be_path= */ true))
			return from;
	return addresses->n == 0;
}

static const struct inifile_key keys[] = {
	{ "Exporter", "Listen", parse_listen, offsetof(struct settings, listen), 0, 0, LISTEN,
	  "at most 8 addresses, each " SOCKETS_ANY },
	{ "Exporter", "Socket", inifile_path, INIFILE_TEXT(struct settings, socket), NULL,
	  "an absolute path of at most 107 bytes" },
	{ "Exporter", "SiteDir", inifile_path, INIFILE_TEXT(struct settings, site),
	  "/var/lib/rdmabroker/site", "an absolute path of at most 255 bytes" },
	{ "Exporter", "PullDir", inifile_path, INIFILE_TEXT(struct settings, pull),
	  "/var/lib/rdmabroker-pull", "an absolute path of at most 255 bytes" },
	{},
};

static const char help[] =
	"rdmabroker-exporter [OPTION ...]\n"
	"\n"
	"Serves the metrics of rdmabrokerd to Prometheus by HTTP, at /metrics.\n"
	"\n"
	"  --listen ADDRESS  HOST:PORT, [HOST]:PORT, :PORT or an absolute path to listen on;\n"
	"                    can be given several times (default " LISTEN ")\n"
	"  --socket PATH     the socket of rdmabrokerd\n"
	"  --config FILE     the configuration file (default " EXPORTER_CONFIG ")\n"
	"  -h, --help        print this summary\n"
	"  -V, --version     print the version\n"
	"\n"
	"Options override the configuration file. Sockets that systemd passes override both.\n"
	"Exit status: 0 stopped, 1 failed, 2 usage error, 78 error in the configuration.\n"
	"See rdmabroker-exporter(8).\n";

static const struct service service = {
	.help = help,
	.config = EXPORTER_CONFIG,
	.keys = keys,
	.may_be_path = true,
	.options = { { "socket", "Socket" } },
};

static int serve(sd_event *loop, struct notifier *notifier, const struct sockets *sockets)
{
	int r;

	for (unsigned i = 0; i < sockets->n; i++)
		log_line(LOG_INFO, "Serving metrics on %s%s.", sockets->list[i].text,
			 sockets->list[i].text[0] == '/' ? ", path /metrics" : "/metrics");
	notifier_tell(notifier, "READY=1\nSTATUS=Waiting for the first request");
	r = sd_event_loop(loop);
	notifier_tell(notifier, "STOPPING=1");
	return r;
}

static int run(const struct settings *settings, struct sockets *sockets)
{
	sd_event *loop = NULL;
	struct notifier *notifier = NULL;
	struct http *http = NULL;
	bool is_idle;
	int r = service_make_loop(&loop, &notifier);

	if (r >= 0)
		r = http_new(&http, loop, notifier, sockets,
			     *settings->socket ? settings->socket : NULL,
			     &(struct site_paths){ settings->site, settings->pull });
	if (r >= 0)
		r = serve(loop, notifier, sockets);
	if (r < 0)
		log_line(LOG_ERR, "Cannot serve: %s.", strerror(-r));
	is_idle = http_free(http);
	notifier_free(notifier);
	sd_event_unref(loop);
	sockets_close(sockets);
	/* The fetch thread still runs: _exit() frees nothing that the thread uses. */
	if (!is_idle)
		_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	return r;
}

int main(int argc, char **argv)
{
	struct settings settings = {};
	struct sockets sockets = {};
	int status = service_read_settings(&service, argc, argv, &settings, &settings.listen);

	if (status >= 0)
		return status;
	if (sockets_open(&sockets, &settings.listen) < 0) {
		sockets_close(&sockets);
		return EXIT_FAILURE;
	}
	return run(&settings, &sockets) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"

/* The options of rdmabroker-ping, as rows of a table, and the addresses that they name. */

enum {
	EXIT_USAGE = 2,
	OPTION_QPN = 0x100,
};

static const char help[] =
	"Usage: rdmabroker-ping -s [-a ADDR] -p PORT [-Pv] [-r TEXT] [-T SECONDS]\n"
	"       rdmabroker-ping -c -a ADDR -p PORT [-kRv] [-C COUNT] [-I SRC[:PORT]]\n"
	"                       [-S SIZE] [-T SECONDS] [-t TOS]\n"
	"\n"
	"Connects through rdmabrokerd and sends data that both sides verify.\n"
	"\n"
	"  -s            serve\n"
	"  -c            connect\n"
	"  -a ADDR       address to listen on (default 0.0.0.0), or to connect to\n"
	"  -p PORT       port of ADDR; 0 with -s: the broker chooses one\n"
	"  -C COUNT      rounds (default 10); ignored with -s\n"
	"  -T SECONDS    give up when a step takes longer (default 30)\n"
	"  -v            print each event\n"
	"  -h, --help    print this summary\n"
	"  -V, --version print the version\n"
	"Server:\n"
	"  -P            serve one client after another, until SIGTERM\n"
	"  -r TEXT       reject every request, with TEXT as private data\n"
	"Client:\n"
	"  -k            run rounds until SIGTERM or SIGINT, without -C\n"
	"  -S SIZE       bytes per round, 1 to 1048576 (default 64)\n"
	"  -I SRC[:PORT] source address to bind; [SRC]:PORT with IPv6\n"
	"  -R            request REUSEADDR\n"
	"  -t TOS        request this traffic class, 0 to 255\n"
	"For testing the broker:\n"
	"      --qpn N   offer QP number N instead of the QP's own number\n"
	"\n"
	"Exit status: 0 all data verified, 1 error, 2 usage error, 3 refused or rejected.\n";

/* Prints an error in the command line. */
#define usage_error(fmt, ...) (complain(fmt "; see rdmabroker-ping --help", ##__VA_ARGS__), -EINVAL)

/* WHAT and TEXT: for the error. */
static int resolve(struct sockaddr_storage *ret, const char *host, const char *port,
		   const char *what, const char *text)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list;
	int r = getaddrinfo(host, port, &hints, &list);

	if (r == EAI_NONAME && strchr(text, '%'))
		return usage_error(
			"cannot resolve %s\"%s\": what follows %% must be an interface of "
			"this host, and what precedes it a link-local address",
			what, text);
	if (r != 0)
		return usage_error("cannot resolve %s\"%s\": %s", what, text, gai_strerror(r));
	memcpy(ret, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

/* TEXT: SRC, [SRC]:PORT with an IPv6 address, or SRC:PORT with anything else. */
static int resolve_source(struct sockaddr_storage *ret, const char *text)
{
	char host[256] = "", port[8] = "0";

	if (sscanf(text, "[%255[^]]]:%7s", host, port) < 1 &&
	    strchr(text, ':') == strrchr(text, ':'))
		sscanf(text, "%255[^:]:%7s", host, port);
	return resolve(ret, *host ? host : text, port, "the source ", text);
}

/* What an option sets; the members that are NULL are not set. */
struct row {
	int c; /* of getopt_long(); 0: the end of the table */
	int role; /* 's' or 'c': an error without this option; 0: for both roles */
	bool *flag;
	const char **text;
	uint64_t *number; /* from MIN to MAX */
	uint64_t min, max;
};

static int set(const struct row *row, const char *value)
{
	char *end;

	if (row->flag)
		*row->flag = true;
	if (row->text)
		*row->text = value;
	if (!row->number)
		return 0;
	errno = 0;
	*row->number = strtoull(value, &end, 0);
	if (*value >= '0' && *value <= '9' && !*end && errno == 0 && *row->number >= row->min &&
	    *row->number <= row->max)
		return 0;
	return usage_error("invalid number \"%s\": it must be from %llu to %llu", value,
			   (unsigned long long)row->min, (unsigned long long)row->max);
}

int options_parse(struct options *ret, int argc, char **argv, int *ret_exit)
{
	static const struct option long_options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "qpn", required_argument, NULL, OPTION_QPN },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	struct options o = { .count = 10, .size = 64 };
	const char *addr = NULL, *port = NULL, *source = NULL;
	uint64_t port_number = 0, seconds = 30;
	bool connect = false;
	const struct row rows[] = {
		{ 's', .flag = &o.serve },
		{ 'c', .flag = &connect },
		{ 'a', .text = &addr },
		{ 'p', .text = &port, .number = &port_number, 0, UINT16_MAX },
		{ 'C', .number = &o.count, 1, UINT32_MAX },
		{ 'T', .number = &seconds, 1, 86400 },
		{ 'v', .flag = &o.verbose },
		{ 'P', 's', .flag = &o.persistent },
		{ 'r', 's', .text = &o.reject },
		{ 'k', 'c', .flag = &o.keep },
		{ 'S', 'c', .number = &o.size, 1, PING_MAX_SIZE },
		{ 'I', 'c', .text = &source },
		{ 'R', 'c', .flag = &o.reuseaddr },
		{ 't', 'c', .flag = &o.has_tos, .number = &o.tos, 0, UINT8_MAX },
		{ OPTION_QPN, .flag = &o.use_qpn, .number = &o.qpn, 0, 0xffffff },
		{ 0 },
	}, *row, *of_server = NULL, *of_client = NULL;
	int c;

	*ret_exit = EXIT_USAGE;
	while ((c = getopt_long(argc, argv, "C:I:PRS:T:Va:chkp:r:st:v", long_options, NULL)) !=
	       -1) {
		if (c == 'h' || c == 'V') {
			printf(c == 'h' ? "%s" : "rdmabroker-ping %s\n",
			       c == 'h' ? help : rdmabroker_get_version());
			*ret_exit = EXIT_SUCCESS;
			return -EINVAL;
		}
		for (row = rows; row->c && row->c != c;)
			row++;
		if (!row->c)
			/* getopt() has printed the error. */
			complain("see rdmabroker-ping --help");
		if (!row->c || set(row, optarg) < 0)
			return -EINVAL;
		of_server = row->role == 's' ? row : of_server;
		of_client = row->role == 'c' ? row : of_client;
	}
	if (optind < argc)
		return usage_error("unexpected argument \"%s\"", argv[optind]);
	if (o.serve == connect)
		return usage_error("give either -s or -c");
	if (o.serve && of_client)
		return usage_error("-%c can only be given with -c", of_client->c);
	if (connect && of_server)
		return usage_error("-%c can only be given with -s", of_server->c);
	if (!port)
		return usage_error("no port given: give -p PORT");
	if (connect && !addr)
		return usage_error("no address given: -c needs -a ADDR");
	if (connect && port_number == 0)
		return usage_error("cannot connect to port 0: -p must be from 1 to 65535 with -c");
	if (o.reject && strlen(o.reject) > RDMABROKER_REJECT_DATA_MAX)
		return usage_error("the text of -r is too long: at most %d bytes are allowed",
				   RDMABROKER_REJECT_DATA_MAX);
	addr = addr ?: "0.0.0.0";
	if (resolve(&o.addr, addr, port, "", addr) < 0 ||
	    (source && resolve_source(&o.source, source) < 0))
		return -EINVAL;
	if (source && o.source.ss_family != o.addr.ss_family)
		return usage_error("the addresses of -I and -a must be of the same family");
	o.timeout_ms = (int)seconds * 1000;
	*ret = o;
	return 0;
}

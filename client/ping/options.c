/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"

/* The options of rdmabroker-ping, as rows of a table, and the addresses that they name. */

enum {
	EXIT_USAGE = 2,
	OPTION_QPN = 0x100,
};

static const char usage_text[] =
	"Usage: rdmabroker-ping -s [-a ADDR] -p PORT [-Pqv] [-C COUNT] [-r TEXT]\n"
	"                       [-T SECONDS]\n"
	"       rdmabroker-ping -c -a ADDR -p PORT [-kqRv] [-C COUNT] [-I SRC[:PORT]]\n"
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
	"  -q            print errors only\n"
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

__attribute__((format(printf, 2, 3))) static int usage_error(int *ret_exit, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	complain("%s; see rdmabroker-ping --help", text);
	*ret_exit = EXIT_USAGE;
	return -EINVAL;
}

static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	unsigned long long n;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 0);
	if (errno != 0 || *end || n < min || n > max)
		return -ERANGE;
	*ret = n;
	return 0;
}

/* Returns 0, or an error of getaddrinfo(). */
static int resolve(struct sockaddr_storage *ret, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list;
	int r = getaddrinfo(host, port, &hints, &list);

	if (r != 0)
		return r;
	*ret = (struct sockaddr_storage){ 0 };
	memcpy(ret, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

/* ERROR: the result of resolve() for TEXT. */
static const char *why_not_resolved(const char *text, int error)
{
	if (error == EAI_NONAME && strchr(text, '%'))
		return "what follows % must be an interface of this host, and what precedes it a "
		       "link-local address";
	return gai_strerror(error);
}

/*
 * Parses SRC, [SRC]:PORT with an IPv6 address, or SRC:PORT with anything else. Returns as resolve(); EAI_NONAME: TEXT
 * has none of these forms.
 */
static int resolve_source(struct sockaddr_storage *ret, const char *text)
{
	char host[256], *port = NULL, *start = host;
	uint64_t n;

	if (strlen(text) >= sizeof(host))
		return EAI_NONAME;
	strcpy(host, text);

	if (*host == '[') {
		char *end = strchr(host, ']');

		if (!end || (end[1] && end[1] != ':'))
			return EAI_NONAME;
		start = host + 1;
		*end = '\0';
		if (end[1])
			port = end + 2;
	} else if (strchr(host, ':') && strchr(host, ':') == strrchr(host, ':')) {
		port = strchr(host, ':');
		*port++ = '\0';
	}
	if (port && parse_number(port, 0, UINT16_MAX, &n) < 0)
		return EAI_NONAME;
	return resolve(ret, start, port ? port : "0");
}

/* An option of one role is an error with the other role. */
static const char server_only[] = "Pr", client_only[] = "ISRkt";

/* What an option sets; the members that are NULL are not set. */
struct row {
	int c; /* of getopt_long(); 0: the end of the table */
	bool *flag;
	const char **text;
	uint64_t *number; /* from MIN to MAX, which RANGE says, too */
	uint64_t min, max;
	const char *name, *range;
};

static const struct row *find_row(const struct row *row, int c)
{
	while (row->c && row->c != c)
		row++;
	return row->c ? row : NULL;
}

int options_parse(struct options *ret, int argc, char **argv, int *ret_exit)
{
	static const struct option long_options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "qpn", required_argument, NULL, OPTION_QPN },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	struct options o = { .count = 10 };
	const char *addr = NULL, *port = NULL, *source = NULL;
	uint64_t port_number, size = 64, seconds = 30, tos = 0, qpn = 0;
	bool connect = false, has_tos = false;
	const struct row rows[] = {
		{ 's', .flag = &o.serve },
		{ 'c', .flag = &connect },
		{ 'a', .text = &addr },
		{ 'p', .text = &port, .number = &port_number, 0, UINT16_MAX, "-p", "0 to 65535" },
		{ 'C', .number = &o.count, 1, UINT32_MAX, "-C", "1 to 4294967295" },
		{ 'S', .number = &size, 1, DATA_SIZE_MAX, "-S", "1 to 1048576" },
		{ 'T', .number = &seconds, 1, 86400, "-T", "1 to 86400" },
		{ 't', .flag = &has_tos, .number = &tos, 0, UINT8_MAX, "-t", "0 to 255" },
		{ OPTION_QPN, .flag = &o.use_qpn, .number = &qpn, 0, 0xffffff, "--qpn",
		  "0 to 0xffffff" },
		{ 'I', .text = &source },
		{ 'P', .flag = &o.persistent },
		{ 'R', .flag = &o.reuseaddr },
		{ 'k', .flag = &o.keep },
		{ 'q', .flag = &o.quiet },
		{ 'r', .text = &o.reject },
		{ 'v', .flag = &o.verbose },
		{ 0 },
	};
	char seen_server = 0, seen_client = 0;
	int c, r;

	while ((c = getopt_long(argc, argv, "C:I:PRS:T:Va:chkp:qr:st:v", long_options, NULL)) !=
	       -1) {
		const struct row *row = find_row(rows, c);

		if (c < 0x100 && strchr(server_only, c))
			seen_server = (char)c;
		if (c < 0x100 && strchr(client_only, c))
			seen_client = (char)c;
		if (c == 'h')
			fputs(usage_text, stdout);
		else if (c == 'V')
			printf("rdmabroker-ping %s\n", rdmabroker_get_version());
		else if (!row)
			/* getopt() has printed the error. */
			complain("see rdmabroker-ping --help");
		if (!row) {
			*ret_exit = c == 'h' || c == 'V' ? EXIT_SUCCESS : EXIT_USAGE;
			return -EINVAL;
		}
		if (row->flag)
			*row->flag = true;
		if (row->text)
			*row->text = optarg;
		if (row->number && parse_number(optarg, row->min, row->max, row->number) < 0)
			return usage_error(ret_exit, "invalid %s \"%s\": it must be from %s",
					   row->name, optarg, row->range);
		if (row->text == &o.reject && strlen(optarg) > RDMABROKER_REJECT_DATA_MAX)
			return usage_error(
				ret_exit,
				"the text of -r is too long: at most %d bytes are allowed",
				RDMABROKER_REJECT_DATA_MAX);
	}
	o.size = size;
	o.timeout_ms = (int)seconds * 1000;
	o.tos = has_tos ? (int)tos : -1;
	o.qpn = (uint32_t)qpn;

	if (optind < argc)
		return usage_error(ret_exit, "unexpected argument \"%s\"", argv[optind]);
	if (o.serve == connect)
		return usage_error(ret_exit, "give either -s or -c");
	if (o.serve && seen_client)
		return usage_error(ret_exit, "-%c can only be given with -c", seen_client);
	if (!o.serve && seen_server)
		return usage_error(ret_exit, "-%c can only be given with -s", seen_server);
	if (!port)
		return usage_error(ret_exit, "no port given: give -p PORT");
	if (!o.serve && !addr)
		return usage_error(ret_exit, "no address given: -c needs -a ADDR");
	if (!o.serve && strtoul(port, NULL, 0) == 0)
		return usage_error(ret_exit,
				   "cannot connect to port 0: -p must be from 1 to 65535 with -c");
	if (!addr)
		addr = "0.0.0.0";
	r = resolve(&o.addr, addr, port);
	if (r != 0)
		return usage_error(ret_exit, "cannot resolve \"%s\": %s", addr,
				   why_not_resolved(addr, r));
	r = source ? resolve_source(&o.source, source) : 0;
	if (r != 0)
		return usage_error(ret_exit, "cannot resolve the source \"%s\": %s", source,
				   why_not_resolved(source, r));
	if (source && o.source.ss_family != o.addr.ss_family)
		return usage_error(ret_exit,
				   "the addresses of -I and -a must be of the same family");
	*ret = o;
	return 0;
}

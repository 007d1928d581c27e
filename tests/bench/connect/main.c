/* SPDX-License-Identifier: BSD-2-Clause */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/version.h"
#include "tests/bench/connect/bench.h"

static const char help[] =
	"Usage: rdmabroker-bench [OPTION]... SERVER-ADDRESS CLIENT-ADDRESS\n"
	"\n"
	"Measures how long it takes to make an RDMA connection, in ways that take turns:\n"
	"  direct     librdmacm on the kernel's rdma_cm device\n"
	"  library    librdmabroker\n"
	"  dropin     the program of `direct', as `rdmabrokerctl run' runs it\n"
	"Both ends run here: each address is one of this host's RDMA devices. Both ends of a connection\n"
	"are made in the same way. A JSON document with all results goes to standard output;\n"
	"tests/bench/report makes tables and plots of it.\n"
	"\n"
	"  -c, --clients LIST        numbers of clients at a time (default: \"1 8 64\")\n"
	"  -r, --rounds N            turns of each way, after one that does not count (default: 5)\n"
	"  -n, --connects N          connections a turn, of all clients together; each makes at\n"
	"                            least 4 (default: 200)\n"
	"  -w, --ways LIST           of these (default: \"direct library dropin\")\n"
	"  -q, --qps LIST            who makes the QPs and moves them: program, as cmtime does, and all\n"
	"                            phases are seen; managed: by the library (rdma_create_qp);\n"
	"                            unbound: by the library, and the client does not bind\n"
	"                            (default: \"program managed unbound\")\n"
	"  -u, --user NAME           whom those who go through the broker run as\n"
	"                            (default: the caller)\n"
	"  -p, --port N              first of three ports to listen on (default: 7471)\n"
	"      --data-rounds N       turns of the data path, short ones; 0: none (default: 100)\n"
	"      --pings N             SENDs there and back in each; 0: no data is carried (default: 200)\n"
	"      --writes N            WRITEs of 64 KiB in each (default: 30)\n"
	"      --rpcs N              requests to the broker that do nothing, in each (default: 20)\n"
	"      --daemon-pid PID      the broker, whose CPU time is told; 0: none\n"
	"                            (default: the process named rdmabrokerd)\n"
	"      --rdmabrokerctl FILE  (default: rdmabrokerctl in $PATH)\n"
	"      --deadline SECONDS    for each turn (default: 300)\n"
	"  -o, --output FILE         instead of standard output\n"
	"  -h, --help\n"
	"  -V, --version\n"
	"\n"
	"`direct' runs as the caller, who has to be able to open /dev/infiniband/rdma_cm: root can, even\n"
	"where it is the broker's. The others need a policy that allows the user sessions, devices, and\n"
	"to listen, connect and accept.\n"
	"\n"
	"Exit status: 0; 1: a connection failed, or something else, which is told; 2: wrong usage.\n"
	"No time makes it fail.\n";

enum {
	OPT_DATA_ROUNDS = 256,
	OPT_PINGS,
	OPT_WRITES,
	OPT_RPCS,
	OPT_DAEMON_PID,
	OPT_RDMABROKERCTL,
	OPT_DEADLINE,
};

static const struct option long_options[] = {
	{ "clients", required_argument, NULL, 'c' },
	{ "rounds", required_argument, NULL, 'r' },
	{ "connects", required_argument, NULL, 'n' },
	{ "ways", required_argument, NULL, 'w' },
	{ "qps", required_argument, NULL, 'q' },
	{ "user", required_argument, NULL, 'u' },
	{ "port", required_argument, NULL, 'p' },
	{ "data-rounds", required_argument, NULL, OPT_DATA_ROUNDS },
	{ "pings", required_argument, NULL, OPT_PINGS },
	{ "writes", required_argument, NULL, OPT_WRITES },
	{ "rpcs", required_argument, NULL, OPT_RPCS },
	{ "daemon-pid", required_argument, NULL, OPT_DAEMON_PID },
	{ "rdmabrokerctl", required_argument, NULL, OPT_RDMABROKERCTL },
	{ "deadline", required_argument, NULL, OPT_DEADLINE },
	{ "output", required_argument, NULL, 'o' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

void die(const char *fmt, ...)
{
	int error = errno;
	va_list args;

	fprintf(stderr, "rdmabroker-bench: ");
	errno = error;
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n");
	result_abandon();
	/* exit() would write this process's copy of the parent's stdio buffers. */
	_exit(1);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void __attribute__((noreturn, format(printf, 1, 2))) misused(const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "rdmabroker-bench: ");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\nTry rdmabroker-bench --help.\n");
	exit(2);
}

static unsigned parse_number(const char *what, const char *text, unsigned min, unsigned max)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || n < min || n > max)
		misused("%s: %s is no number from %u to %u", what, text, min, max);
	return (unsigned)n;
}

static void parse_clients(struct options *options, char *text)
{
	char *rest, *word;

	options->n_levels = 0;
	for (word = strtok_r(text, " ,", &rest); word; word = strtok_r(NULL, " ,", &rest)) {
		if (options->n_levels == MAX_LEVELS)
			misused("--clients: more than %d numbers", MAX_LEVELS);
		options->levels[options->n_levels++] =
			parse_number("--clients", word, 1, MAX_CLIENTS);
	}
	if (options->n_levels == 0)
		misused("--clients: the list is empty");
}

/* Sets RET[i] for each of NAMES[i] that TEXT lists. */
static void parse_set(const char *option, char *text, const char *const *names, unsigned n_names,
		      bool *ret)
{
	char *rest, *word;
	unsigned n = 0, i;

	memset(ret, 0, n_names * sizeof(*ret));
	for (word = strtok_r(text, " ,", &rest); word; word = strtok_r(NULL, " ,", &rest)) {
		for (i = 0; i < n_names && strcmp(names[i], word) != 0; i++)
			;
		if (i == n_names)
			misused("%s: there is no %s", option, word);
		ret[i] = true;
		n++;
	}
	if (n == 0)
		misused("%s: the list is empty", option);
}

static void parse_address(const char *text, unsigned port, struct sockaddr_storage *ret)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM };
	struct addrinfo *info;

	if (getaddrinfo(text, NULL, &hints, &info) != 0)
		misused("%s is no address", text);
	memcpy(ret, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	/* Both address families have the port at the same offset. */
	((struct sockaddr_in *)ret)->sin_port = htons((uint16_t)port);
}

static bool needs_broker(const struct options *options)
{
	return options->ways[WAY_LIBRARY] || options->ways[WAY_DROPIN];
}

/* Returns the pid of the daemon; 0: none. Exits if there are several. */
static int find_daemon(void)
{
	DIR *proc = opendir("/proc");
	int found = 0;

	for (struct dirent *entry; proc && (entry = readdir(proc));) {
		char path[300], name[32] = "";
		FILE *f;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) && strcmp(name, "rdmabrokerd\n") == 0) {
			if (found)
				misused("several processes are named rdmabrokerd: say which "
					"with --daemon-pid");
			found = atoi(entry->d_name);
		}
		fclose(f);
	}
	if (proc)
		closedir(proc);
	return found;
}

int main(int argc, char **argv)
{
	struct options options = {
		.rdmabrokerctl = "rdmabrokerctl",
		.daemon_pid = -1,
		.ways = { true, true, true },
		.qps = { true, true, true },
		.levels = { 1, 8, 64 },
		.n_levels = 3,
		.n_rounds = 5,
		.n_connects = 200,
		.n_data_rounds = 100,
		.n_pings = 200,
		.n_writes = 30,
		.n_rpcs = 20,
		.deadline_s = 300,
	};
	unsigned port = 7471;
	int c;

	if (argc > 1 && strcmp(argv[1], "worker") == 0)
		return worker_main(argc, argv);

	while ((c = getopt_long(argc, argv, "c:r:n:w:q:u:p:o:hV", long_options, NULL)) != -1) {
		switch (c) {
		case 'c':
			parse_clients(&options, optarg);
			break;
		case 'r':
			options.n_rounds = parse_number("--rounds", optarg, 1, 1000);
			break;
		case 'n':
			options.n_connects = parse_number("--connects", optarg, 1, 100000);
			break;
		case 'w':
			parse_set("--ways", optarg, way_names, N_WAYS, options.ways);
			break;
		case 'q':
			parse_set("--qps", optarg, qps_names, N_QPS, options.qps);
			break;
		case 'u':
			options.user = optarg;
			break;
		case 'p':
			port = parse_number("--port", optarg, 1, 65535 - N_WAYS + 1);
			break;
		case OPT_DATA_ROUNDS:
			options.n_data_rounds = parse_number("--data-rounds", optarg, 0, 10000);
			break;
		case OPT_PINGS:
			options.n_pings = parse_number("--pings", optarg, 0, 1000000);
			break;
		case OPT_WRITES:
			options.n_writes = parse_number("--writes", optarg, 1, 1000000);
			break;
		case OPT_RPCS:
			options.n_rpcs = parse_number("--rpcs", optarg, 0, 1000000);
			break;
		case OPT_DAEMON_PID:
			options.daemon_pid = (int)parse_number("--daemon-pid", optarg, 0, 1 << 22);
			break;
		case OPT_RDMABROKERCTL:
			options.rdmabrokerctl = optarg;
			break;
		case OPT_DEADLINE:
			options.deadline_s = parse_number("--deadline", optarg, 1, 86400);
			break;
		case 'o':
			options.output = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		case 'V':
			printf("rdmabroker-bench %s\n", RDMABROKER_VERSION);
			return 0;
		default:
			fprintf(stderr, "Try rdmabroker-bench --help.\n");
			return 2;
		}
	}
	if (argc - optind != 2)
		misused("an address of the server's device and one of the client's are needed");
	parse_address(argv[optind], port, &options.server);
	parse_address(argv[optind + 1], 0, &options.client);
	if (options.server.ss_family != options.client.ss_family)
		misused("%s and %s are of two families", argv[optind], argv[optind + 1]);
	if (options.daemon_pid < 0)
		options.daemon_pid = find_daemon();
	if (needs_broker(&options) && options.daemon_pid == 0)
		fprintf(stderr, "rdmabroker-bench: no process is named rdmabrokerd: its CPU time "
				"will be told as 0\n");
	return run(&options) < 0 ? 1 : 0;
}

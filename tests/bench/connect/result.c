/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Writes the results as one JSON document. Times are in microseconds, except those named "seconds". Percentiles are
 * by nearest rank, over all samples of all clients of a round.
 */

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "proto/version.h"
#include "tests/bench/connect/bench.h"

const char *const phase_names[N_PHASES] = {
	[PHASE_FULL_CONNECT] = "full connect",   [PHASE_CREATE_ID] = "create id",
	[PHASE_BIND_ADDR] = "bind addr",         [PHASE_RESOLVE_ADDR] = "resolve addr",
	[PHASE_RESOLVE_ROUTE] = "resolve route", [PHASE_CREATE_QP] = "create qp",
	[PHASE_INIT_QP_ATTR] = "init qp attr",   [PHASE_INIT_QP] = "init qp",
	[PHASE_RTR_QP_ATTR] = "rtr qp attr",     [PHASE_RTR_QP] = "rtr qp",
	[PHASE_RTS_QP_ATTR] = "rts qp attr",     [PHASE_RTS_QP] = "rts qp",
	[PHASE_CM_CONNECT] = "cm connect",       [PHASE_ESTABLISH] = "establish",
	[PHASE_DISCONNECT] = "disconnect",       [PHASE_DESTROY_ID] = "destroy id",
	[PHASE_DESTROY_QP] = "destroy qp",       [PHASE_TEARDOWN] = "disconnect+destroy",
};

const char *const way_names[N_WAYS] = {
	[WAY_DIRECT] = "direct",
	[WAY_LIBRARY] = "library",
	[WAY_DROPIN] = "dropin",
};

const char *const qps_names[N_QPS] = {
	[QPS_PROGRAM] = "program",
	[QPS_MANAGED] = "managed",
	[QPS_UNBOUND] = "unbound",
};

static const struct options *opt;
static FILE *out;
static char *path_new; /* name of the output until it is complete; NULL: no such file */
static bool any;

static void print_string(const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', out);
		if ((unsigned char)*text >= ' ')
			putc(*text, out);
	}
	putc('"', out);
}

static void print_field(const char *name, const char *text)
{
	fprintf(out, "\t\t\"%s\": ", name);
	print_string(text);
	fprintf(out, ",\n");
}

static void print_file(const char *name, const char *path)
{
	char line[256] = "unknown";
	FILE *f = fopen(path, "re");

	if (f) {
		if (!fgets(line, sizeof(line), f))
			snprintf(line, sizeof(line), "unknown");
		fclose(f);
	}
	line[strcspn(line, "\n")] = 0;
	print_field(name, line);
}

static void print_address(const char *name, const struct sockaddr_storage *addr)
{
	char host[NI_MAXHOST];

	if (getnameinfo((const struct sockaddr *)addr, sizeof(*addr), host, sizeof(host), NULL, 0,
			NI_NUMERICHOST) == 0)
		print_field(name, host);
}

static void print_environment(void)
{
	char date[64] = "";
	time_t now = time(NULL);
	struct utsname u;
	struct tm tm;

	uname(&u);
	if (gmtime_r(&now, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &tm);
	fprintf(out, "{\n\t\"format\": \"rdmabroker-bench 1\",\n\t\"environment\": {\n");
	print_field("date", date);
	print_field("rdmabroker", RDMABROKER_VERSION);
	print_field("kernel", u.release);
	print_field("machine", u.machine);
	print_file("clocksource",
		   "/sys/devices/system/clocksource/clocksource0/current_clocksource");
	print_address("server", &opt->server);
	print_address("client", &opt->client);
	print_field("user", opt->user ?: "the caller");
	fprintf(out, "\t\t\"daemon pid\": %d,\n\t\t\"cpus\": %ld\n\t},\n", opt->daemon_pid,
		sysconf(_SC_NPROCESSORS_ONLN));
	fprintf(out,
		"\t\"parameters\": { \"rounds\": %u, \"connects\": %u, \"data rounds\": %u, "
		"\"pings\": %u, \"writes\": %u, \"rpcs\": %u },\n",
		opt->n_rounds, opt->n_connects, opt->n_data_rounds, opt->n_pings, opt->n_writes,
		opt->n_rpcs);
	fprintf(out, "\t\"results\": [");
}

int result_open(const struct options *options)
{
	opt = options;
	out = stdout;
	if (options->output) {
		if (asprintf(&path_new, "%s.new", options->output) < 0)
			die("out of memory");
		out = fopen(path_new, "we");
	}
	if (!out)
		die("cannot write %s: %m", path_new);
	print_environment();
	return 0;
}

static void begin(const struct result *result, const char *kind)
{
	fprintf(out,
		"%s\n\t\t{ \"kind\": \"%s\", \"round\": %u, \"place\": %u, \"way\": \"%s\", "
		"\"clients\": %u",
		any ? "," : "", kind, result->round, result->place, way_names[result->way],
		result->n_clients);
	any = true;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns the sorted times of PHASE. The caller frees them. */
static uint64_t *collect(unsigned n_clients, unsigned n_each, enum phase phase)
{
	uint64_t *times = calloc((size_t)n_clients * n_each, sizeof(*times));
	size_t n = 0;

	if (!times)
		die("out of memory");
	for (unsigned i = 0; i < n_clients; i++) {
		const struct sample *samples = shared->samples + (size_t)i * shared->max_samples;

		for (unsigned k = 0; k < n_each; k++)
			times[n++] = samples[k].ns[phase];
	}
	qsort(times, n, sizeof(*times), compare);
	return times;
}

static double percentile(const uint64_t *times, size_t n, unsigned percent)
{
	size_t rank = (n * percent + 99) / 100;

	return (double)times[rank > 0 ? rank - 1 : 0] / 1e3;
}

static void print_times(const uint64_t *times, size_t n, bool with_curve)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)times[i] / 1e3;
	fprintf(out,
		"{ \"n\": %zu, \"mean\": %.1f, \"min\": %.1f, \"p50\": %.1f, \"p90\": %.1f, "
		"\"p99\": %.1f, \"max\": %.1f",
		n, sum / (double)n, percentile(times, n, 0), percentile(times, n, 50),
		percentile(times, n, 90), percentile(times, n, 99), percentile(times, n, 100));
	if (with_curve) {
		fprintf(out, ",\n\t\t\t\"curve\": [");
		for (unsigned i = 0; i <= 100; i++)
			fprintf(out, "%s%.1f", i ? ", " : "", percentile(times, n, i));
		fprintf(out, "]");
	}
	fprintf(out, " }");
}

static void print_phase(const struct result *result, unsigned n_each, enum phase phase,
			const char *name)
{
	uint64_t *times = collect(result->n_clients, n_each, phase);

	fprintf(out, "\n\t\t\t\"%s\": ", name);
	print_times(times, (size_t)result->n_clients * n_each, phase == PHASE_FULL_CONNECT);
	free(times);
}

void result_connects(const struct result *result)
{
	double n = (double)result->n_clients * result->n_connects;

	begin(result, "connect");
	fprintf(out, ", \"qps\": \"%s\"", qps_names[result->qps]);
	fprintf(out, ", \"connections\": %.0f, \"seconds\": %.6f, \"rate\": %.2f,\n", n,
		(double)result->elapsed_ns / 1e9, n / ((double)result->elapsed_ns / 1e9));
	fprintf(out,
		"\t\t\"cpu\": { \"daemon\": %.1f, \"server\": %.1f, \"clients\": %.1f, "
		"\"host\": %.1f },\n",
		(double)result->daemon_ns / 1e3 / n, (double)result->server_ns / 1e3 / n,
		(double)result->clients_ns / 1e3 / n, (double)result->host_ns / 1e3 / n);
	fprintf(out, "\t\t\"server device\": \"%s\", \"client device\": \"%s\",\n",
		shared->server[result->way].device, shared->clients[result->way][0].device);
	fprintf(out, "\t\t\"phases\": {");
	for (unsigned i = 0; i < N_PHASES; i++) {
		/* Time 0: the phase was not measured. */
		if (shared->samples[0].ns[i] == 0)
			continue;
		fprintf(out, "%s", i > 0 ? "," : "");
		print_phase(result, result->n_connects, (enum phase)i, phase_names[i]);
	}
	fprintf(out, "\n\t\t} }");
}

void result_rpc(const struct result *result)
{
	begin(result, "rpc");
	fprintf(out, ", \"phases\": {");
	print_phase(result, opt->n_rpcs, PHASE_FULL_CONNECT, "broker rpc");
	fprintf(out, "\n\t\t} }");
}

void result_data(const struct result *result, uint64_t write_ns)
{
	double mb = (double)opt->n_writes * shared->config.write_size / 1e6;

	begin(result, "data");
	fprintf(out, ", \"write MB/s\": %.2f, \"phases\": {", mb / ((double)write_ns / 1e9));
	print_phase(result, opt->n_pings, PHASE_FULL_CONNECT, "send latency");
	fprintf(out, "\n\t\t} }");
}

int result_close(void)
{
	fprintf(out, "\n\t]\n}\n");
	if (fflush(out) != 0 || ferror(out))
		die("cannot write the results: %m");
	if (path_new && (fclose(out) != 0 || rename(path_new, opt->output) < 0))
		die("cannot write %s: %m", opt->output);
	free(path_new);
	path_new = NULL;
	return 0;
}

void result_abandon(void)
{
	if (path_new)
		unlink(path_new);
}

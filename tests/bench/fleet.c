/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdmabroker.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etcd/etcd.h"
#include "fleet/agent.h"
#include "fleet/sha256.h"
#include "fleet/version.h"
#include "tests/bench/stats.h"

/*
 * Measures a fleet: the real agents of many hosts, as threads of this process, with a real etcd, and one daemon on the
 * fake fabric, which all of them ask. Everything shares the processors of this machine.
 *
 *   fleet [HOSTS]   default: 1000
 *
 * Root's part is not measured: when a version is staged on a host, this program writes what rdmabroker-fleet-install
 * would.
 */

#define PORT 23790
#define N_LISTENERS 10 /* of the daemon, so in the state of each host */
#define WAIT_S 300 /* for anything */
#define IDLE_S 60
#define AWAY_S 20

static struct host {
	struct settings settings;
	char dir[PATH_MAX / 4], state_dir[PATH_MAX / 2], result[PATH_MAX / 2], site[PATH_MAX / 2];
	pthread_t thread;
	int stop[2];
	char staged[SITE_NAME_MAX + 1], in_force[SITE_NAME_MAX + 1];
	double staged_ms, in_force_ms; /* since the roll-out */
	bool is_there;
} * hosts;

static size_t n_hosts = 1000;
static char dir[] = "/tmp/rdmabroker-bench-fleet-XXXXXX";
static const char *build;
static pid_t etcd_pid, broker_pid;
static struct etcd *etcd;
static struct etcd_watch *watch;
static double begun_ms; /* of the roll-out */

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "; see %s\n", dir);
	exit(EXIT_FAILURE);
}

static double now_ms(void)
{
	return now_us() / 1e3;
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		die("cannot write %s", path);
}

/* Starts PROGRAM of ARGV, with its output in a file of its name. */
static pid_t start(const char *program, const char *const *argv)
{
	pid_t pid = fork();
	char log[256];

	if (pid == 0) {
		const char *slash = strrchr(program, '/');
		int out;

		snprintf(log, sizeof(log), "%s/%s.log", dir, slash ? slash + 1 : program);
		out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out, STDOUT_FILENO);
		dup2(out, STDERR_FILENO);
		execvp(program, (char *const *)argv);
		_exit(127);
	}
	return pid;
}

static void start_etcd(void)
{
	char data[64], client[64], peer[64], cluster[96];

	snprintf(data, sizeof(data), "%s/data", dir);
	snprintf(client, sizeof(client), "http://127.0.0.1:%d", PORT);
	snprintf(peer, sizeof(peer), "http://127.0.0.1:%d", PORT + 1);
	snprintf(cluster, sizeof(cluster), "default=%s", peer);
	etcd_pid =
		start("etcd", (const char *const[]){
				      "etcd", "--data-dir", data, "--listen-client-urls", client,
				      "--advertise-client-urls", client, "--listen-peer-urls", peer,
				      "--initial-advertise-peer-urls", peer, "--initial-cluster",
				      cluster, "--logger=zap", "--log-level=warn", NULL });
}

static void await_etcd(void)
{
	double end = now_ms() + 1e3 * WAIT_S;
	struct etcd_range *range;

	while (etcd_range(etcd, "/none", false, 1, &range) != 0) {
		if (now_ms() > end)
			die("etcd does not answer: %s", etcd_error(etcd));
		poll(NULL, 0, 20);
	}
	etcd_range_free(range);
}

static void start_broker(char socket[PATH_MAX])
{
	char program[PATH_MAX], config[PATH_MAX], policy[PATH_MAX], rules[PATH_MAX];

	snprintf(program, sizeof(program), "%s/tests/fakebroker", build);
	snprintf(config, sizeof(config), "%s/conf", dir);
	snprintf(policy, sizeof(policy), "%s/policy.d", dir);
	snprintf(rules, sizeof(rules), "%s/policy.d/1.rules", dir);
	snprintf(socket, PATH_MAX, "%s/socket", dir);
	mkdir(policy, 0755);
	write_text(config, "[Limits]\nSessions=10000\nSessionsPerUser=10000\n"
			   "DescriptorsPerUser=40000\n");
	write_text(rules, "allow any\n");
	broker_pid = start(program,
			   (const char *const[]){ program, config, socket, policy, "/none", NULL });
}

/* Ids that listen, so that each host has something to say. */
static struct rdmabroker *listen_on_ports(const char *socket)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	double end = now_ms() + 1e3 * WAIT_S;
	struct rdmabroker *session;
	struct rdmabroker_id *id;

	options.socket = socket;
	while (rdmabroker_open(&options, &session) < 0) {
		if (now_ms() > end)
			die("the daemon does not answer");
		poll(NULL, 0, 20);
	}
	for (unsigned i = 0; i < N_LISTENERS; i++) {
		const struct sockaddr_in addr = { .sin_family = AF_INET,
						  .sin_port = htons((uint16_t)(7471 + i)),
						  .sin_addr.s_addr = htonl(0x0a090001) };

		if (rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id) < 0 ||
		    rdmabroker_bind_addr(id, (const struct sockaddr *)&addr) < 0 ||
		    rdmabroker_listen(id, 0) < 0)
			die("cannot listen");
	}
	return session;
}

/* The agents */

static void *run_agent(void *arg)
{
	struct host *host = arg;
	struct agent *agent;

	if (agent_new(&agent, &host->settings) < 0)
		die("cannot make an agent");
	agent_run(agent, host->stop[0]);
	agent_free(agent);
	return NULL;
}

static void start_agent(size_t i, const char *socket)
{
	struct host *host = &hosts[i];
	struct settings *settings = &host->settings;
	pthread_attr_t attributes;
	char path[PATH_MAX];

	snprintf(host->dir, sizeof(host->dir), "%s/host%zu", dir, i);
	snprintf(host->state_dir, sizeof(host->state_dir), "%s/state", host->dir);
	snprintf(host->result, sizeof(host->result), "%s/result/result", host->dir);
	snprintf(host->site, sizeof(host->site), "%s/site", host->dir);
	mkdir(host->dir, 0755);
	mkdir(host->state_dir, 0755);
	mkdir(host->site, 0755);
	snprintf(path, sizeof(path), "%s/result", host->dir);
	mkdir(path, 0755);
	strcpy(settings->prefix, "/rdmabroker/");
	snprintf(settings->host, sizeof(settings->host), "host%04zu", i);
	snprintf(settings->endpoints[0], sizeof(settings->endpoints[0]), "http://127.0.0.1:%d",
		 PORT);
	settings->n_endpoints = 1;
	settings->ttl_sec = 30;
	settings->report_sec = 300;
	settings->socket = socket;
	settings->state_dir = host->state_dir;
	settings->result = host->result;
	settings->site = host->site;
	if (pipe2(host->stop, O_CLOEXEC) < 0)
		die("cannot make a pipe: %m");
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 512 * 1024);
	if (pthread_create(&host->thread, &attributes, run_agent, host) != 0)
		die("cannot start a thread");
	pthread_attr_destroy(&attributes);
}

/* What root's part does when a version is staged. */
static void install(const struct host *host, const char *version)
{
	char path[PATH_MAX], new[PATH_MAX], text[256];

	snprintf(text, sizeof(text), "versions/%s", version);
	snprintf(path, sizeof(path), "%s/current", host->site);
	snprintf(new, sizeof(new), "%s/.new", host->site);
	if (symlink(text, new) < 0 || rename(new, path) < 0)
		die("cannot make %s", path);
	snprintf(text, sizeof(text), "%s installed\n", version);
	snprintf(new, sizeof(new), "%s.new", host->result);
	write_text(new, text);
	if (rename(new, host->result) < 0)
		die("cannot make %s", host->result);
}

static void take_text(const json_t *state, const char *name, char ret[SITE_NAME_MAX + 1],
		      double *ret_ms, const char *version)
{
	const char *text = json_string_value(json_object_get(state, name)) ?: "";

	if (strcmp(text, version) == 0 && strcmp(ret, version) != 0)
		*ret_ms = now_ms() - begun_ms;
	snprintf(ret, SITE_NAME_MAX + 1, "%s", text);
}

/* Takes the next state of a host. */
static void take_event(const struct etcd_event *event, const char *version)
{
	json_t *state = json_loadb(event->entry.value ?: "", event->entry.len, 0, NULL);
	const char *name = json_string_value(json_object_get(state, "host"));
	unsigned long i = name && strlen(name) > 4 ? strtoul(name + 4, NULL, 10) : n_hosts;
	bool was_staged;

	if (!event->is_delete && i < n_hosts) {
		struct host *host = &hosts[i];

		host->is_there = true;
		was_staged = strcmp(host->staged, version) == 0;
		take_text(state, "staged", host->staged, &host->staged_ms, version);
		take_text(state, "in_force", host->in_force, &host->in_force_ms, version);
		if (*version && !was_staged && strcmp(host->staged, version) == 0)
			install(host, version);
	}
	json_decref(state);
}

static size_t count(const char *version)
{
	size_t n = 0;

	for (size_t i = 0; i < n_hosts; i++)
		n += *version ? strcmp(hosts[i].in_force, version) == 0 : hosts[i].is_there;
	return n;
}

/* Waits until all hosts have VERSION in force (empty: until they are there). */
static void await_hosts(const char *version)
{
	double end = now_ms() + 1e3 * WAIT_S;
	struct etcd_event event;

	while (count(version) < n_hosts) {
		if (now_ms() > end)
			die("%zu of %zu hosts after %d s", count(version), n_hosts, WAIT_S);
		if (etcd_watch_next(watch, 1000, NULL, 0, &event) == ETCD_EVENT) {
			take_event(&event, version);
			etcd_event_done(&event);
		}
	}
}

/* Numbers */

static void print_spread(const char *what, size_t offset)
{
	double *values = calloc(n_hosts, sizeof(*values));

	for (size_t i = 0; i < n_hosts; i++)
		memcpy(&values[i], (const char *)&hosts[i] + offset, sizeof(double));
	printf("%-52s p50 %7.0f ms, p99 %7.0f ms, last %7.0f ms\n", what, median(values, n_hosts),
	       percentile(values, n_hosts, 99), percentile(values, n_hosts, 100));
	free(values);
}

/* CPU time of a process in seconds; 0: this one. */
static double cpu_of(pid_t pid)
{
	unsigned long user = 0, sys = 0;
	struct rusage usage;
	char path[64];
	FILE *f;

	if (pid == 0) {
		getrusage(RUSAGE_SELF, &usage);
		return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
		       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	}
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			 &user, &sys) != 2)
		user = sys = 0;
	if (f)
		fclose(f);
	return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static int64_t revision(void)
{
	struct etcd_range *range;
	int64_t ret;

	if (etcd_range(etcd, "/none", false, 1, &range) != 0)
		die("%s", etcd_error(etcd));
	ret = range->revision;
	etcd_range_free(range);
	return ret;
}

static double database_mib(void)
{
	struct etcd_member member = {};

	etcd_get_member(etcd, 0, &member);
	return (double)member.db_size / (1024 * 1024);
}

static void measure_idle(void)
{
	double etcd_cpu = cpu_of(etcd_pid), agents_cpu = cpu_of(0), size = database_mib();
	int64_t was = revision();
	double begun = now_ms(), s;

	poll(NULL, 0, IDLE_S * 1000);
	s = (now_ms() - begun) / 1e3;
	printf("%-52s etcd %.1f %%, the agents %.3f %% each, of one processor\n", "idle: CPU time",
	       (cpu_of(etcd_pid) - etcd_cpu) / s * 100,
	       (cpu_of(0) - agents_cpu) / s * 100 / (double)n_hosts);
	printf("%-52s %.1f a second; database from %.1f to %.1f MiB\n", "idle: writings",
	       (double)(revision() - was) / s, size, database_mib());
}

static void publish(const char *version, unsigned n_rules)
{
	char key[128], hex[2 * SHA256_SIZE + 1], manifest[512], *text = NULL;
	uint8_t sum[SHA256_SIZE];
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (unsigned i = 0; i < n_rules; i++)
		fprintf(f, "allow connect user %u peer 10.0.0.0/8 port 4420\n", 1000 + i);
	fclose(f);
	sha256(text, len, sum);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		sprintf(hex + 2 * i, "%02x", sum[i]);
	snprintf(key, sizeof(key), "/rdmabroker/versions/%s/10.rules", version);
	if (etcd_put(etcd, key, text, len, 0, NULL) != 0)
		die("%s", etcd_error(etcd));
	snprintf(manifest, sizeof(manifest),
		 "{\"files\":[{\"name\":\"10.rules\",\"size\":%zu,\"sha256\":\"%s\"}]}", len, hex);
	snprintf(key, sizeof(key), "/rdmabroker/versions/%s", version);
	if (etcd_put(etcd, key, manifest, strlen(manifest), 0, NULL) != 0)
		die("%s", etcd_error(etcd));
	free(text);
}

static void roll_out(const char *version)
{
	begun_ms = now_ms();
	if (etcd_put(etcd, "/rdmabroker/rollout/all", version, strlen(version), 0, NULL) != 0)
		die("%s", etcd_error(etcd));
	await_hosts(version);
}

static void measure_rollout(const char *version, unsigned n_rules, const char *what)
{
	char text[128];

	publish(version, n_rules);
	roll_out(version);
	snprintf(text, sizeof(text), "%s: on the host and in its state", what);
	print_spread(text, offsetof(struct host, staged_ms));
	snprintf(text, sizeof(text), "%s: in force and in its state", what);
	print_spread(text, offsetof(struct host, in_force_ms));
}

static void measure_ctl(const char *const *arguments)
{
	const char *argv[8] = { "rdmabrokerctl", "fleet", "--config" };
	char program[PATH_MAX], helper[PATH_MAX], config[PATH_MAX], text[256];
	double ms[5];
	int status;

	snprintf(config, sizeof(config), "%s/fleet.conf", dir);
	snprintf(text, sizeof(text), "[Fleet]\nEndpoints=http://127.0.0.1:%d\n", PORT);
	write_text(config, text);
	argv[3] = config;
	for (size_t i = 0; i < 3 && arguments[i]; i++)
		argv[4 + i] = arguments[i];
	snprintf(program, sizeof(program), "%s/rdmabrokerctl", build);
	snprintf(helper, sizeof(helper), "%s/rdmabroker-fleetctl", build);
	setenv("RDMABROKER_FLEETCTL", helper, 1);
	for (size_t i = 0; i < 5; i++) {
		double begun = now_ms();
		pid_t pid = start(program, argv);

		if (waitpid(pid, &status, 0) != pid || status != 0)
			die("rdmabrokerctl fleet has failed");
		ms[i] = now_ms() - begun;
	}
	snprintf(text, sizeof(text), "rdmabrokerctl fleet %s%s%s", arguments[0],
		 arguments[1] ? " " : "", arguments[1] ?: "");
	printf("%-52s p50 %7.0f ms, last %7.0f ms\n", text, median(ms, 5), percentile(ms, 5, 100));
}

/* etcd is away, and the version is rolled out when it is back. */
static void measure_restart(void)
{
	kill(etcd_pid, SIGKILL);
	waitpid(etcd_pid, NULL, 0);
	poll(NULL, 0, AWAY_S * 1000);
	start_etcd();
	await_etcd();
	measure_rollout("v3", 10, "after 20 s without etcd");
}

static int remove_one(const char *name, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(name);
}

static void connect_etcd(void)
{
	const struct etcd_interval interval = { "/rdmabroker/hosts/", true };
	char endpoint[64];
	const char *endpoints[] = { endpoint };
	const struct etcd_options options = {
		.endpoints = endpoints, .n_endpoints = 1, .call_ms = 10000, .answer_max = 64 << 20
	};

	snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", PORT);
	if (etcd_new(&etcd, &options) != 0)
		die("cannot make a client");
	await_etcd();
	if (etcd_watch_new(&watch, etcd, &interval, 1, revision() + 1) != 0)
		die("cannot watch");
}

static void stop_agents(void)
{
	for (size_t i = 0; i < n_hosts; i++)
		close(hosts[i].stop[1]);
	for (size_t i = 0; i < n_hosts; i++)
		pthread_join(hosts[i].thread, NULL);
}

static void warn_of_inotify(void)
{
	FILE *f = fopen("/proc/sys/fs/inotify/max_user_instances", "re");
	unsigned n = 0;

	if (f && fscanf(f, "%u", &n) == 1 && n < n_hosts)
		printf("Only %u agents see an installation at once; the others, within 10 s. Set "
		       "fs.inotify.max_user_instances to %zu.\n",
		       n, n_hosts + 100);
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	struct rlimit files;
	struct rdmabroker *session;
	char socket[PATH_MAX], log[64];
	double begun;

	if (argc > 1)
		n_hosts = strtoul(argv[1], NULL, 10);
	build = realpath(getenv("O") ?: "build", NULL);
	hosts = calloc(n_hosts, sizeof(*hosts));
	if (n_hosts == 0 || n_hosts > 9999 || !hosts || !build || !mkdtemp(dir))
		die("cannot start: HOSTS must be a number from 1 to 9999");
	/* An agent has two connections to etcd, one to the daemon, a pipe, and an inotify descriptor. */
	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max < 10 * n_hosts + 100)
		die("cannot start: %zu descriptors are needed, see ulimit -Hn", 10 * n_hosts + 100);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	signal(SIGPIPE, SIG_IGN);
	unsetenv("NOTIFY_SOCKET");
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(log, sizeof(log), "%s/agents.log", dir);
	if (!freopen(log, "we", stderr))
		die("cannot write %s", log);
	start_etcd();
	start_broker(socket);
	connect_etcd();
	session = listen_on_ports(socket);
	printf("%zu hosts, %ld processors for all of them, etcd and the daemon\n", n_hosts,
	       sysconf(_SC_NPROCESSORS_ONLN));
	warn_of_inotify();
	begun = now_ms();
	for (size_t i = 0; i < n_hosts; i++)
		start_agent(i, socket);
	await_hosts("");
	printf("%-52s last %7.0f ms\n", "all agents begin at once: in etcd", now_ms() - begun);
	measure_rollout("v1", 10, "a version of 10 rules");
	measure_rollout("v2", 2000, "a version of 2,000 rules");
	measure_idle();
	measure_ctl((const char *const[]){ "status", NULL });
	measure_ctl((const char *const[]){ "list", NULL });
	measure_ctl((const char *const[]){ "list", "listeners", NULL });
	measure_restart();
	stop_agents();
	rdmabroker_close(session);
	kill(broker_pid, SIGTERM);
	waitpid(broker_pid, NULL, 0);
	kill(etcd_pid, SIGKILL);
	waitpid(etcd_pid, NULL, 0);
	etcd_watch_free(watch);
	etcd_free(etcd);
	nftw(dir, remove_one, 32, FTW_DEPTH | FTW_PHYS);
	free(hosts);
	return EXIT_SUCCESS;
}

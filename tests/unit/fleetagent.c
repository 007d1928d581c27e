/* SPDX-License-Identifier: BSD-2-Clause */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleet/sha256.h"
#include "tests/unit/fleetagent.h"

struct etcd *etcd;
struct etcd_watch *hosts; /* the states of the host, since the test began */
pid_t agent, broker;
json_t *state; /* the last one; NULL: the host has none */
const char *build, *source, *before_install = "";

/* Returns a path in the test's directory. Four of them are valid at a time. */
char *path(const char *fmt, ...)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *ret = paths[next++ % 4];
	int n = snprintf(ret, PATH_MAX, "%s/", etcd_service.dir);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret + n, PATH_MAX - (size_t)n, fmt, ap);
	va_end(ap);
	return ret;
}

void write_text(const char *name, const char *text)
{
	FILE *f = fopen(name, "we");

	ck_assert_msg(f != NULL, "%s", name);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

const char *read_text(const char *name)
{
	static char text[65536];
	FILE *f = fopen(name, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	text[n] = 0;
	if (f)
		fclose(f);
	return text;
}

void assert_has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "no '%s' in '%s'", part, text);
}

unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	for (const char *p = text; (p = strstr(p, part)); p++)
		n++;
	return n;
}

void configure(const char *endpoint, const char *more)
{
	char text[2048];

	snprintf(text, sizeof(text), "[Fleet]\nEndpoints=%s\nHost=node7\nTTLSec=5\nReportSec=5\n%s",
		 endpoint, more);
	write_text(path("fleet.conf"), text);
}

void set_up_fleet(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
	build = realpath(getenv("O") ?: "build", NULL);
	source = realpath(getenv("SRCDIR") ?: ".", NULL);
	ck_assert(build && source);
	unsetenv("JOURNAL_STREAM");
	umask(022);
}

/* Makes the test's directories. False: the test has to return. */
bool begin_without_etcd(void)
{
	static const char *const dirs[] = { "state", "results", "site", "policy.d" };
	char text[512];

	if (!set_up_etcd())
		return false;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		ck_assert_int_eq(mkdir(path("%s", dirs[i]), 0755), 0);
	write_text(path("conf"), "");
	write_text(path("policy.d/50.rules"), "allow session user 0\nallow observe user 0\n");
	/* The check of a version reads no configuration of this machine. */
	snprintf(text, sizeof(text),
		 "#!/bin/sh\nexec %s/rdmabrokerd --policy-dir %s/policy.d \"$@\"\n", build,
		 etcd_service.dir);
	write_text(path("check"), text);
	ck_assert_int_eq(chmod(path("check"), 0755), 0);
	setenv("RDMABROKERD", path("check"), 1);
	return true;
}

bool begin(void)
{
	const struct etcd_interval interval = { "/rdmabroker/hosts/", true };

	if (!begin_without_etcd())
		return false;
	start_etcd();
	etcd = new_client(NULL);
	must(etcd, etcd_watch_new(&hosts, etcd, &interval, 1, put_text(etcd, "/begin", "") + 1));
	configure(etcd_service.endpoint, "");
	return true;
}

void start_agent(void)
{
	agent = fork();
	ck_assert_int_ge(agent, 0);
	if (agent == 0) {
		char program[PATH_MAX];
		int out = open(path("agent.log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out, STDERR_FILENO);
		close_range(STDERR_FILENO + 1, ~0U, 0);
		unsetenv("NOTIFY_SOCKET");
		snprintf(program, sizeof(program), "%s/rdmabroker-fleet", build);
		execl(program, program, "--config", path("fleet.conf"), "--state-directory",
		      path("state"), "--result", path("results/result"), "--socket", path("socket"),
		      "--site", strdup(path("site")), NULL);
		_exit(127);
	}
}

void stop_agent(void)
{
	int status;

	ck_assert_int_gt(agent, 0);
	kill(agent, SIGTERM);
	ck_assert_int_eq(waitpid(agent, &status, 0), agent);
	ck_assert_int_eq(status, 0);
	agent = 0;
}

/* The daemon reports to systemd's socket, which is the one of etcd, too. */
void start_broker(void)
{
	char text[1024] = "";
	ssize_t n;

	broker = fork();
	ck_assert_int_ge(broker, 0);
	if (broker == 0) {
		char program[PATH_MAX];
		int out = open(path("broker.log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

		dup2(out, STDERR_FILENO);
		close_range(STDERR_FILENO + 1, ~0U, 0);
		setenv("NOTIFY_SOCKET", path("notify"), 1);
		snprintf(program, sizeof(program), "%s/tests/fakebroker", build);
		execl(program, program, path("conf"), path("socket"), path("policy.d"),
		      path("site/current"), NULL);
		_exit(127);
	}
	while (!strstr(text, "READY=1")) {
		AWAIT_INPUT(etcd_service.notify, "the daemon to be ready, which said '%s'",
			    read_text(path("broker.log")));
		n = recv(etcd_service.notify, text, sizeof(text) - 1, 0);
		ck_assert_int_gt(n, 0);
		text[n] = 0;
	}
}

void stop_broker(void)
{
	kill(broker, SIGTERM);
	ck_assert_int_eq(waitpid(broker, NULL, 0), broker);
	broker = 0;
}

void tear_down_fleet(void)
{
	if (agent > 0)
		kill(agent, SIGKILL);
	if (broker > 0)
		kill(broker, SIGKILL);
	json_decref(state);
	etcd_watch_free(hosts);
	etcd_free(etcd);
	tear_down_etcd();
}

/* The text of a member of the state, which can be in an object ("install.version"); "": null, or not there. */
const char *get(const char *name)
{
	static char text[8192];
	const char *dot = strchr(name, '.');
	char outer[64];
	const json_t *value;

	snprintf(outer, sizeof(outer), "%.*s", dot ? (int)(dot - name) : 0, name);
	value = json_object_get(dot ? json_object_get(state, outer) : state, dot ? dot + 1 : name);
	if (json_is_boolean(value))
		return json_is_true(value) ? "true" : "false";
	if (json_is_integer(value))
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
	else
		snprintf(text, sizeof(text), "%s", json_string_value(value) ?: "");
	return text;
}

bool next_state(int64_t end)
{
	struct etcd_event event;
	int r;

	do {
		if (patience_now_ms() >= end)
			return false;
		r = etcd_watch_next(hosts, 1000, NULL, 0, &event);
	} while (r <= 0);
	ck_assert_int_eq(r, ETCD_EVENT);
	ck_assert_str_eq(event.entry.key, HOST);
	json_decref(state);
	state = event.is_delete ? NULL : json_loadb(event.entry.value, event.entry.len, 0, NULL);
	ck_assert(event.is_delete || state);
	ck_assert_uint_le(event.entry.len, 65536);
	ck_assert(event.is_delete || event.entry.lease != 0);
	etcd_event_done(&event);
	return true;
}

/* Whether the state's member NAME is TEXT ("": null); an error only has to begin with it. */
static bool is_state(const char *name, const char *text)
{
	if (strcmp(name, "error") == 0 && *text)
		return strncmp(get(name), text, strlen(text)) == 0;
	return strcmp(get(name), text) == 0;
}

/* Waits until it is. */
void await_state(const char *name, const char *text)
{
	int64_t end = patience_end();

	while (!state || !is_state(name, text))
		if (!next_state(end))
			WAITED("%s to be '%s', and not '%s', in %s\n%s", name, text, get(name),
			       json_dumps(state, 0), read_text(path("agent.log")));
}

void await_no_state(void)
{
	int64_t end = patience_end();

	do
		if (!next_state(end))
			WAITED("the end of the state %s", json_dumps(state, 0));
	while (state);
}

/* Puts the file NAME of VERSION. Returns its part of the manifest. */
json_t *put_file(const char *version, const char *name, const char *text)
{
	uint8_t sum[SHA256_SIZE];
	char key[256], hex[2 * SHA256_SIZE + 1];

	sha256(text, strlen(text), sum);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	snprintf(key, sizeof(key), "/rdmabroker/versions/%s/%s", version, name);
	put_text(etcd, key, text);
	return json_pack("{s:s, s:I, s:s}", "name", name, "size", (json_int_t)strlen(text),
			 "sha256", hex);
}

void put_manifest(const char *version, json_t *file)
{
	json_t *manifest = json_pack("{s:[o]}", "files", file);
	char *text = json_dumps(manifest, 0), key[256];

	snprintf(key, sizeof(key), "/rdmabroker/versions/%s", version);
	put_text(etcd, key, text);
	free(text);
	json_decref(manifest);
}

void publish(const char *version, const char *rules)
{
	put_manifest(version, put_file(version, "10-site.rules", rules));
}

void roll_out(const char *label, const char *version)
{
	char key[256];

	snprintf(key, sizeof(key), "/rdmabroker/rollout/%s", label);
	if (version)
		put_text(etcd, key, version);
	else
		must(etcd, etcd_delete(etcd, key, false, NULL));
}

int install(void)
{
	char command[4096];
	int status;

	snprintf(
		command, sizeof(command),
		"%s exec %s/client/fleet/rdmabroker-fleet-install %s/state %s/results %s/rdmabrokerctl "
		"--socket %s/socket site --directory %s/site install --unless-held 2>>%s/install.log",
		before_install, source, etcd_service.dir, etcd_service.dir, build, etcd_service.dir,
		etcd_service.dir, etcd_service.dir);
	status = system(command);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

void assert_wanted(const char *version)
{
	char text[128];

	snprintf(text, sizeof(text), "%s%s", version, *version ? "\n" : "");
	ck_assert_str_eq(read_text(path("state/wanted")), text);
}

void assert_logged(unsigned n, const char *part)
{
	const char *text = read_text(path("agent.log"));

	ck_assert_msg(count(text, part) == n, "not %u times '%s' in %s", n, part, text);
}

void await_log(const char *part)
{
	AWAIT(strstr(read_text(path("agent.log")), part), "'%s' in '%s'", part,
	      read_text(path("agent.log")));
}

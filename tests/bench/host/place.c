/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/host/host.h"

#define PLACES_MAX 8

/* The limits are not reached here. All other keys have their defaults. */
static const char config_text[] = "[Daemon]\n"
				  "LogLevel=warning\n"
				  "[Limits]\n"
				  "Sessions=1048576\n"
				  "SessionsPerUser=1048576\n"
				  "IdsPerSession=65536\n"
				  "IdsPerUser=1048576\n"
				  "DescriptorsPerUser=1048576\n";

/* Rules for the user who runs this program. */
static const char rules_text[] = "allow session user %u\n"
				 "allow observe user %u\n"
				 "allow device user %u device fake*\n"
				 "allow listen user %u port 7000-7999\n"
				 "allow accept user %u port 7000-7999 peer 10.0.0.0/8\n"
				 "allow connect user %u peer 10.0.0.0/8 tos-max 32\n";

noreturn void die(const char *fmt, ...)
{
	va_list ap;

	fputs("bench: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

void must(int r, const char *what)
{
	if (r < 0)
		die("%s: %s", what, rdmabroker_last_failure()->text);
}

static void write_file(const char *path, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void write_file(const char *path, const char *fmt, ...)
{
	FILE *f = fopen(path, "we");
	va_list ap;

	if (!f)
		die("%s: %m", path);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	if (fclose(f) != 0)
		die("%s: %m", path);
}

/* The process that made these places removes them when it exits, also after SIGINT or SIGTERM. */
static struct place made[PLACES_MAX];
static pid_t made_by;

static void unlink_place(const struct place *place)
{
	unlink(place->socket);
	unlink(place->rules);
	rmdir(place->policy);
	unlink(place->config);
	rmdir(place->dir);
}

static void unlink_all(void)
{
	for (int i = 0; i < PLACES_MAX && made_by == getpid(); i++)
		if (made[i].dir[0])
			unlink_place(&made[i]);
}

/* Calls only async-signal-safe functions. */
static void on_signal(int signal)
{
	unlink_all();
	_exit(128 + signal);
}

static void remember(const struct place *place)
{
	int i = 0;

	if (!made_by) {
		atexit(unlink_all);
		signal(SIGINT, on_signal);
		signal(SIGTERM, on_signal);
	}
	made_by = getpid();
	while (i < PLACES_MAX && made[i].dir[0])
		i++;
	if (i == PLACES_MAX)
		die("too many daemons at a time");
	made[i] = *place;
}

void place_make(struct place *place)
{
	unsigned uid = geteuid();

	umask(022); /* the daemon refuses files that others can write */
	strcpy(place->dir, "/tmp/rdmabroker-bench-XXXXXX");
	if (!mkdtemp(place->dir))
		die("%s: %m", place->dir);
	snprintf(place->socket, sizeof(place->socket), "%s/socket", place->dir);
	snprintf(place->config, sizeof(place->config), "%s/rdmabrokerd.conf", place->dir);
	snprintf(place->policy, sizeof(place->policy), "%s/policy.d", place->dir);
	snprintf(place->rules, sizeof(place->rules), "%s/bench.rules", place->policy);
	remember(place);
	if (mkdir(place->policy, 0755) < 0)
		die("%s: %m", place->policy);
	write_file(place->config, "%s", config_text);
	write_file(place->rules, rules_text, uid, uid, uid, uid, uid, uid);
}

void place_remove(struct place *place)
{
	for (int i = 0; i < PLACES_MAX; i++)
		if (strcmp(made[i].dir, place->dir) == 0)
			made[i].dir[0] = 0;
	unlink_place(place);
}

/* The broker does not export its loop: this program is linked with --wrap=sd_event_new. */
static sd_event *last_loop;

int __real_sd_event_new(sd_event **ret);
int __wrap_sd_event_new(sd_event **ret);

int __wrap_sd_event_new(sd_event **ret)
{
	int r = __real_sd_event_new(ret);

	last_loop = r < 0 ? NULL : *ret;
	return r;
}

sd_event *place_get_loop(void)
{
	return last_loop;
}

struct broker *place_start_broker(const struct place *place)
{
	struct broker_options options = {
		.config_path = place->config,
		.socket_path = place->socket,
		.policy_dir = place->policy,
	};
	struct broker *broker;

	if (broker_new(&broker, &options) < 0)
		die("the broker does not start");
	return broker;
}

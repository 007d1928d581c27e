/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker.h"
#include "tests/unit/place.h"

static char dir[32];

/* Not ck_assert(): the measurements, which are no tests, use this file too. */
static void need(bool is_done, const char *what)
{
	if (!is_done) {
		fprintf(stderr, "%s: cannot make %s\n", dir, what);
		abort();
	}
}

const char *place_path(const char *name, char ret[64])
{
	snprintf(ret, 64, "%s/%s", dir, name);
	return ret;
}

static void write_file(const char *name, const char *text)
{
	char path[64];
	FILE *f = fopen(place_path(name, path), "w");

	need(f && fputs(text, f) >= 0 && fclose(f) == 0, name);
}

void place_write(const char *rules, const char *config)
{
	char all[512], restricted[64];

	snprintf(all, sizeof(all), "%s\n[Daemon]\nRestrictedDirectory=%s\n", config,
		 place_path("restricted", restricted));
	write_file("policy.d/1.rules", rules);
	write_file("rdmabrokerd.conf", all);
}

void place_make(const char *rules, const char *config)
{
	char path[64];

	umask(022);
	strcpy(dir, "/tmp/rdmabroker-place-XXXXXX");
	need(mkdtemp(dir), "it");
	need(mkdir(place_path("policy.d", path), 0755) == 0, "policy.d");
	place_write(rules, config);
	setenv("RDMABROKER_SOCKET", place_path("socket", path), 1);
}

void place_start(struct broker **ret)
{
	/* The broker reads them again when it reloads. */
	static char config[64], common[64], admin[64], helper[64], rules[64];
	struct broker_options options = {
		.config_path = place_path("rdmabrokerd.conf", config),
		.socket_path = place_path("common", common),
		.admin_socket_path = place_path("socket", admin),
		.helper_socket_path = place_path("helper", helper),
		.policy_dir = place_path("policy.d", rules),
	};

	need(broker_new(ret, &options) == 0, "a broker");
}

void place_remove(void)
{
	static const char *const names[] = { "policy.d/1.rules", "policy.d", "rdmabrokerd.conf",
					     "socket",           "common",   "helper",
					     "restricted",       "" };
	char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove(place_path(names[i], path));
}

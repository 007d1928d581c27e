/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "instance.h"

#define CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

bool instance_is_name(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= INSTANCE_NAME_MAX && name[0] != '.' && strspn(name, CHARACTERS) == n;
}

/* "/etc/rdmabroker/rdmabrokerd.conf" -> "/etc/rdmabroker/rdmabrokerd@NAME.conf" */
static void own_path(char ret[PATH_MAX], const char *path, const char *name)
{
	const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
	size_t n = dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);

	snprintf(ret, PATH_MAX, "%.*s@%s%s", (int)n, path, name, path + n);
}

int instance_configure(struct config *config, const char *path, const char *name, struct diag *diag)
{
	size_t n = sizeof(config->socket_path);
	char own[PATH_MAX];
	int r;

	strcpy(config->initial_socket, config->admin_socket_path);
	snprintf(config->socket_path, n, "/run/rdmabroker@%s/rdmabroker.sock", name);
	snprintf(config->admin_socket_path, n, "/run/rdmabroker-admin@%s/rdmabroker.sock", name);
	own_path(own, path, name);
	r = config_load_over(config, own, /* optional= */ true, diag);
	/* In the directory of the initial instance, which leaves alone what it has not made. */
	n = strlen(config->restricted_dir);
	snprintf(config->restricted_dir + n, sizeof(config->restricted_dir) - n, "/@%s", name);
	return r;
}

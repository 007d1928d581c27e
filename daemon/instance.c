/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "instance.h"
#include "util/util.h"

#define CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

bool instance_is_name(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= INSTANCE_NAME_MAX && name[0] != '.' && strspn(name, CHARACTERS) == n;
}

/* "/etc/rdmabroker/rdmabrokerd.conf" -> "/etc/rdmabroker/rdmabrokerd@NAME.conf" */
static int own_path(char **ret, const char *path, const char *name)
{
	const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
	size_t n = dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);

	return asprintf(ret, "%.*s@%s%s", (int)n, path, name, path + n) < 0 ? -ENOMEM : 0;
}

static int replace(char **value, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int replace(char **value, const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	free(*value);
	*value = text;
	return 0;
}

int instance_configure(struct config *config, const char *path, const char *name, struct diag *diag)
{
	_cleanup_free_ char *own = NULL;
	int r = own_path(&own, path, name);

	if (r == 0)
		r = replace(&config->initial_socket, "%s", config->admin_socket_path);
	if (r == 0)
		r = replace(&config->socket_path, "/run/rdmabroker@%s/rdmabroker.sock", name);
	if (r == 0)
		r = replace(&config->admin_socket_path, "/run/rdmabroker-admin@%s/rdmabroker.sock",
			    name);
	if (r == 0)
		r = config_load_over(config, own, diag);
	/* In the directory of the initial instance, which leaves alone what it has not made. */
	if (r == 0)
		r = replace(&config->restricted_dir, "%s/@%s", config->restricted_dir, name);
	return r;
}

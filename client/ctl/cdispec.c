/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "cdispec.h"
#include "proto/jsonout.h"

#define VERSION "0.5.0"
#define ALL "all"
#define SOCKET_FOLDER \
	"/run/rdmabroker" /* in the container, where the library looks for the socket */
#define DROPIN_FOLDER "/usr/lib/rdmabroker" /* in the container */

bool cdispec_is_name(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || strcmp(name, ALL) == 0 || !isalnum((unsigned char)name[0]) ||
	    !isalnum((unsigned char)name[len - 1]))
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("_-.:", *name))
			return false;
	return true;
}

static void open_spec(struct jsonout *json, const char *kind)
{
	jsonout_open(json, NULL, '{');
	jsonout_string(json, "cdiVersion", VERSION);
	jsonout_string(json, "kind", kind);
}

static void close_spec(struct jsonout *json)
{
	jsonout_close(json, '}');
	putc('\n', json->file);
}

static void print_mount(struct jsonout *json, const char *host, const char *container,
			bool executable)
{
	static const char *const options[] = { "ro", "nosuid", "nodev", "rbind" };

	jsonout_open(json, NULL, '{');
	jsonout_string(json, "hostPath", host);
	jsonout_string(json, "containerPath", container);
	jsonout_open(json, "options", '[');
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		jsonout_string(json, NULL, options[i]);
	if (!executable)
		jsonout_string(json, NULL, "noexec");
	jsonout_close(json, ']');
	jsonout_close(json, '}');
}

/*
 * The mode is that of the node which the runtime makes in the container. It lets every user of the container open the
 * device: the broker's policy decides who may use it. Rootless runtimes bind the host's node instead.
 */
static void print_node(struct jsonout *json, const struct cdispec_device *device)
{
	jsonout_open(json, NULL, '{');
	jsonout_string(json, "path", device->node);
	jsonout_string(json, "permissions", "rw");
	jsonout_number(json, "fileMode", 0666);
	jsonout_close(json, '}');
}

static void print_device(struct jsonout *json, const char *name,
			 const struct cdispec_device *devices, size_t n)
{
	jsonout_open(json, NULL, '{');
	jsonout_string(json, "name", name);
	jsonout_open(json, "containerEdits", '{');
	jsonout_open(json, "deviceNodes", '[');
	for (size_t i = 0; i < n; i++)
		print_node(json, &devices[i]);
	jsonout_close(json, ']');
	jsonout_close(json, '}');
	jsonout_close(json, '}');
}

/* The folder of the socket is mounted, because a socket that the host makes anew would not appear in the container. */
static void print_socket(struct jsonout *json, const char *socket)
{
	const char *slash = strrchr(socket, '/');
	char folder[PATH_MAX], variable[PATH_MAX + 64];

	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - socket), socket);
	snprintf(variable, sizeof(variable), "RDMABROKER_SOCKET=" SOCKET_FOLDER "%s", slash);
	jsonout_open(json, "containerEdits", '{');
	jsonout_open(json, "env", '[');
	jsonout_string(json, NULL, variable);
	jsonout_close(json, ']');
	jsonout_open(json, "mounts", '[');
	print_mount(json, folder, SOCKET_FOLDER, /* executable= */ false);
	jsonout_close(json, ']');
	jsonout_close(json, '}');
}

void cdispec_print_rdma(FILE *file, const struct cdispec_device *devices, size_t n,
			const char *socket)
{
	struct jsonout json = { .file = file };

	open_spec(&json, socket ? CDISPEC_RDMA : CDISPEC_NODE);
	if (socket)
		print_socket(&json, socket);
	jsonout_open(&json, "devices", '[');
	for (size_t i = 0; i < n; i++)
		print_device(&json, devices[i].name, &devices[i], 1);
	print_device(&json, ALL, devices, n);
	jsonout_close(&json, ']');
	close_spec(&json);
}

static void print_preload(struct jsonout *json, const struct cdispec_library *libraries, size_t n)
{
	char variable[1024] = "LD_PRELOAD=";
	size_t len = strlen(variable);

	for (size_t i = 0; i < n && len < sizeof(variable); i++)
		len += (size_t)snprintf(variable + len, sizeof(variable) - len,
					"%s" DROPIN_FOLDER "/%s", i > 0 ? ":" : "",
					libraries[i].name);
	jsonout_string(json, NULL, variable);
}

/* RDMABROKER_DEVICES=all is for programs that open devices by libibverbs, as with the verb run. */
void cdispec_print_dropin(FILE *file, const struct cdispec_library *libraries, size_t n)
{
	struct jsonout json = { .file = file };
	char path[PATH_MAX];

	open_spec(&json, CDISPEC_DROPIN);
	jsonout_open(&json, "devices", '[');
	jsonout_open(&json, NULL, '{');
	jsonout_string(&json, "name", ALL);
	jsonout_open(&json, "containerEdits", '{');
	jsonout_open(&json, "env", '[');
	print_preload(&json, libraries, n);
	jsonout_string(&json, NULL, "RDMABROKER_DEVICES=all");
	jsonout_close(&json, ']');
	jsonout_open(&json, "mounts", '[');
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), DROPIN_FOLDER "/%s", libraries[i].name);
		print_mount(&json, libraries[i].path, path, /* executable= */ true);
	}
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	jsonout_close(&json, '}');
	jsonout_close(&json, ']');
	close_spec(&json);
}

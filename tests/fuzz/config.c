/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "config.h"
#include "tests/fuzz/fuzz.h"
#include "util/diag.h"

/* The input is a configuration file. Accepted values must be within the limits of rdmabrokerd.conf(5). */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

static void check(const struct config *config)
{
	must(config->socket_path[0] == '/');
	must(strlen(config->socket_path) < sizeof(((struct sockaddr_un *)NULL)->sun_path));
	must(config->policy_dir[0] == '/');
	must(strlen(config->policy_dir) < PATH_MAX);
	must(config->log_level >= LOG_ERR && config->log_level <= LOG_DEBUG);
	must(config->max_sessions >= 1 && config->max_sessions <= 1048576);
	must(config->max_sessions_per_user >= 1 && config->max_sessions_per_user <= 1048576);
	must(config->max_ids_per_session >= 1 && config->max_ids_per_session <= 1048576);
	must(config->max_ids_per_user >= 1 && config->max_ids_per_user <= 16777216);
	must(config->max_listeners_per_user >= 1 && config->max_listeners_per_user <= 1048576);
	must(config->max_fds_per_user >= 4 && config->max_fds_per_user <= 1048576);
	must(config->max_queued_bytes_per_user >= 65536);
	must(config->max_queued_bytes >= 65536 && config->max_queued_bytes <= 1073741824);
	must(config->backlog >= 1 && config->backlog <= 65535);
	must(config->tos >= -1 && config->tos <= 255);
	must(config->resolve_timeout_ms >= 1 && config->resolve_timeout_ms <= 600000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	struct config config;
	struct diag *diag;
	int r;

	if (size > 65536)
		return 0;
	if (fd < 0) {
		fd = memfd_create("config", MFD_CLOEXEC);
		must(fd >= 0 && fchmod(fd, 0600) == 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	must(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	must(diag_new(&diag) == 0);
	config_init(&config);
	r = config_load(&config, path, true, diag);
	must((r == 0) == (diag->errors.n == 0));
	if (r == 0)
		check(&config);
	config_done(&config);
	diag_free(diag);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The settings, from fleet.conf (INI). */

#include <stddef.h>

#include "common/conffile.h"
#include "etcd/etcd.h"

#define SETTINGS_LABELS_MAX 16
#define SETTINGS_NAME_MAX 64 /* of a label */
#define SETTINGS_PATH_MAX 256

struct settings {
	char endpoints[ETCD_ENDPOINTS_MAX][SETTINGS_PATH_MAX];
	size_t n_endpoints;
	char prefix[SETTINGS_PATH_MAX]; /* begins and ends with '/' */
	char host[SETTINGS_PATH_MAX];
	char labels[SETTINGS_LABELS_MAX]
		   [SETTINGS_NAME_MAX + 1]; /* in the order of their importance */
	size_t n_labels;
	char ca[SETTINGS_PATH_MAX], certificate[SETTINGS_PATH_MAX],
		key[SETTINGS_PATH_MAX]; /* empty: none */
	/* empty: none */
	char user[SETTINGS_PATH_MAX], password_file[SETTINGS_PATH_MAX], password[SETTINGS_PATH_MAX];
	unsigned ttl_sec, report_sec;
	/* From the command line: */
	const char *socket; /* of the broker; NULL: the library's default */
	const char *state_dir; /* staged versions, and the name of the wanted one */
	const char *result; /* the file with the result of the installation */
	const char *site; /* where versions are installed */
};

/*
 * Reads the file PATH, and the password from its PasswordFile=. Sets all but the last four members. Returns 0 or a
 * negative errno, after reporting each error.
 */
int settings_read(struct settings *settings, const char *path);
/*
 * Makes a client of the etcd in SETTINGS, which have to exist longer, because the file of the password is read again when
 * the password is refused; see struct etcd_options for the limits. Returns 0, -EINVAL (an endpoint is not
 * valid) or another negative errno.
 */
int settings_new_etcd(const struct settings *settings, unsigned call_ms, size_t answer_max,
		      struct etcd **ret);
/* The text for -EINVAL. */
#define SETTINGS_INVALID_ENDPOINTS \
	"Endpoints= is not valid: each must be http://HOST:PORT or https://HOST:PORT"

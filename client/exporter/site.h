/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What `rdmabrokerctl site` and rdmabroker-pull have written about the version of the site's policy on this host, as metrics. Both
 * write small files of lines "KEY VALUE"; the second one's is another user's, so nothing in it is trusted.
 */

#include <stdio.h>

struct site_paths {
	const char *site, *pull; /* directories; a file that is not there gives no metrics */
};

/* Prints OpenMetrics, without an end. */
void site_print(FILE *f, const struct site_paths *paths);

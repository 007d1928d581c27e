/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Seals: a text that only another rdmabroker-peerd of the cluster can read, and only one can have made. MUNGE makes them:
 * all hosts have its key, and a seal names the user who made it. Another engine, such as TLS with certificates of hosts,
 * would replace seal.c.
 *
 * Both calls can block for some seconds, if munged does, so they are called in threads.
*/

struct seal {
	const char *socket; /* of munged; NULL: libmunge's default */
};

#define SEAL_ERROR_MAX 200
/* Seconds: an older seal is refused. So the clocks of two hosts may differ by almost as much. */
#define SEAL_SECONDS 30

/* NULL: it has failed, and ERROR says why. The caller frees the result. */
char *seal_close(const struct seal *seal, const char *text, char error[SEAL_ERROR_MAX]);
/*
 * The text in SEALED, if it was sealed by this process's user on a host of the cluster, is not old, and was not opened
 * before on this host. NULL: ERROR says why not. The caller frees the result.
 */
char *seal_open(const struct seal *seal, const char *sealed, char error[SEAL_ERROR_MAX]);

/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A version of a policy, as it comes from etcd, and as it is staged on this host.
 *
 * The manifest is JSON, with other members ignored:
 *
 *   {"files": [{"name": "10-site.rules", "size": 123, "sha256": "<64 hexadecimal digits>"}, ...]}
 *
 * A staged version is a directory STAGED/NAME with exactly the files of the manifest. It appears as a whole, and never
 * changes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sitename.h"
#include "sha256.h"

#define VERSION_REASON_MAX 512

struct manifest_file {
	char name[SITE_NAME_MAX + 1];
	size_t size;
	uint8_t sha256[SHA256_SIZE];
};

struct manifest {
	size_t n; /* at least 1 */
	struct manifest_file files[];
};

/* -EBADMSG: TEXT is not a manifest, and REASON says why; -ENOMEM. Free *RET with free(). */
int manifest_parse(const char *text, size_t len, struct manifest **ret,
		   char reason[VERSION_REASON_MAX]);
/* False: the file does not have this size and checksum, and REASON says so. */
bool manifest_verify(const struct manifest_file *file, const void *data, size_t len,
		     char reason[VERSION_REASON_MAX]);

enum version_match {
	VERSION_ABSENT, /* it is not staged */
	VERSION_SAME, /* it is staged, with the files of the manifest */
	VERSION_OTHER, /* it is staged, with other files */
	VERSION_UNKNOWN, /* it cannot be read now: errno says why */
};

/* Compares what is staged as NAME in the directory STAGED with MANIFEST. */
enum version_match version_compare(const char *staged, const char *name,
				   const struct manifest *manifest);

/* A version that is being staged. */
struct staging {
	const char *staged;
	char name[SITE_NAME_MAX + 1];
	int fd; /* of the directory; -1: none */
};

/*
 * Begins to stage NAME, in a directory of another name. Remains of an earlier attempt are removed. STAGED is not copied.
 * These calls return 0 or a negative errno. Call staging_done() in any case.
 */
int staging_begin(struct staging *staging, const char *staged, const char *name);
int staging_add(struct staging *staging, const char *name, const void *data, size_t len);
/* Makes it a staged version, which survives a crash of the host. */
int staging_commit(struct staging *staging);
/* Removes what was not committed. */
void staging_done(struct staging *staging);

/* Removes all staged versions but the newest KEEP, and never NAME. */
void version_forget_old(const char *staged, size_t keep, const char *name);
/* Replaces the file NAME in DIR by TEXT, as a whole. 0 or a negative errno. */
int version_write_file(const char *dir, const char *name, const char *text);

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd.h"
#include "proto/clock.h"
#include "take.h"

#define MANIFEST_MAX (128 * 1024) /* bytes */
#define TAKE_MS (60 * 1000) /* the deadline for all files of a version */
#define KEEP 8 /* staged versions */

__attribute__((format(printf, 3, 4))) static enum taken fail(struct take *take, enum taken taken,
							     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(take->error, sizeof(take->error), fmt, ap);
	va_end(ap);
	return taken;
}

/* Reads the value of KEY, which must not be larger than MAX. Free *RET with etcd_range_free(). */
static enum taken get_value(struct take *take, const char *key, size_t max, struct etcd_range **ret)
{
	int r = etcd_range(take->etcd, key, /* is_prefix= */ false, 1, ret);

	if (r == -EMSGSIZE)
		return fail(take, TAKE_SOURCE, "%s is too large", key);
	if (r != 0)
		return fail(take, TAKE_ETCD, "cannot read %s: %s", key, etcd_error(take->etcd));
	if ((*ret)->n == 1 && (*ret)->entries[0].len <= max)
		return TAKEN;
	fail(take, TAKE_SOURCE, (*ret)->n == 1 ? "%s is too large" : "there is no %s", key);
	*ret = etcd_range_free(*ret);
	return TAKE_SOURCE;
}

static enum taken get_manifest(struct take *take, const char *name, struct manifest **ret)
{
	char key[PATH_MAX], reason[VERSION_REASON_MAX];
	struct etcd_range *range;
	enum taken taken;
	int r;

	snprintf(key, sizeof(key), "%sversions/%s", take->settings->prefix, name);
	taken = get_value(take, key, MANIFEST_MAX, &range);
	if (taken != TAKEN)
		return taken;
	r = manifest_parse(range->entries[0].value, range->entries[0].len, ret, reason);
	etcd_range_free(range);
	if (r == -EBADMSG)
		return fail(take, TAKE_SOURCE, "%s", reason);
	return r < 0 ? fail(take, TAKE_HOST, "out of memory") : TAKEN;
}

static enum taken stage_file(struct take *take, struct staging *staging,
			     const struct manifest_file *file)
{
	char key[PATH_MAX], reason[VERSION_REASON_MAX];
	struct etcd_range *range = NULL;
	enum taken taken;
	int r;

	snprintf(key, sizeof(key), "%sversions/%s/%s", take->settings->prefix, staging->name,
		 file->name);
	taken = get_value(take, key, SITE_SIZE_MAX, &range);
	if (taken != TAKEN)
		return taken;
	if (!manifest_verify(file, range->entries[0].value, range->entries[0].len, reason)) {
		taken = fail(take, TAKE_SOURCE, "%s", reason);
	} else {
		r = staging_add(staging, file->name, range->entries[0].value,
				range->entries[0].len);
		if (r < 0)
			taken = fail(take, TAKE_HOST, "cannot write %s: %s", file->name,
				     strerror(-r));
	}
	etcd_range_free(range);
	return taken;
}

static enum taken stage_files(struct take *take, struct staging *staging,
			      const struct manifest *manifest)
{
	int64_t deadline = now_ms() + TAKE_MS;
	enum taken taken = TAKEN;
	int r;

	for (size_t i = 0; taken == TAKEN && i < manifest->n; i++) {
		if (now_ms() > deadline || take->is_ending(take->arg))
			return fail(take, TAKE_ETCD, "the files did not come within %d s",
				    TAKE_MS / 1000);
		taken = stage_file(take, staging, &manifest->files[i]);
		take->keep_alive(take->arg);
	}
	if (taken != TAKEN)
		return taken;
	r = staging_commit(staging);
	return r < 0 ? fail(take, TAKE_HOST, "cannot write the version: %s", strerror(-r)) : TAKEN;
}

static enum taken stage(struct take *take, const char *name, const struct manifest *manifest)
{
	char staged[PATH_MAX];
	struct staging staging;
	enum taken taken;
	int r;

	snprintf(staged, sizeof(staged), "%s/staged", take->settings->state_dir);
	switch (version_compare(staged, name, manifest)) {
	case VERSION_SAME:
		return TAKEN;
	case VERSION_OTHER:
		return fail(
			take, TAKE_SOURCE,
			"%s/%s has other files; a version cannot be changed, so give the new one "
			"another name",
			staged, name);
	case VERSION_UNKNOWN:
		return fail(take, TAKE_HOST, "cannot read %s/%s: %s", staged, name,
			    strerror(errno));
	case VERSION_ABSENT:
		break;
	}
	r = staging_begin(&staging, staged, name);
	taken = r < 0 ? fail(take, TAKE_HOST, "cannot write to %s: %s", staged, strerror(-r)) :
			stage_files(take, &staging, manifest);
	staging_done(&staging);
	if (taken == TAKEN)
		version_forget_old(staged, KEEP, name);
	return taken;
}

enum taken take_version(struct take *take, const char *name)
{
	struct manifest *manifest = NULL;
	enum taken taken;

	*take->error = 0;
	taken = get_manifest(take, name, &manifest);
	if (taken == TAKEN)
		taken = stage(take, name, manifest);
	free(manifest);
	return taken;
}

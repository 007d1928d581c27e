/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/text.h"
#include "version.h"

#define refuse(reason, ...) (snprintf(reason, VERSION_REASON_MAX, __VA_ARGS__), false)
#define NEW ".new" /* a directory whose name no version can have */

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m && strcmp(name + n - m, suffix) == 0;
}

static bool parse_hex(const char *text, uint8_t ret[SHA256_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	if (!text || strlen(text) != 2 * SHA256_SIZE)
		return false;
	for (size_t i = 0; i < 2 * SHA256_SIZE; i++) {
		const char *digit = strchr(digits, text[i]);

		if (!digit)
			return false;
		ret[i / 2] = (uint8_t)(ret[i / 2] << 4 | (digit - digits));
	}
	return true;
}

/* LEFT: the most bytes that the file may have. */
static bool parse_file(const json_t *object, struct manifest_file *file, size_t left, char *reason)
{
	const char *name = json_string_value(json_object_get(object, "name"));
	const json_t *size = json_object_get(object, "size");
	const char *hex = json_string_value(json_object_get(object, "sha256"));

	if (!name || !site_is_name(name) || (!ends_in(name, ".rules") && !ends_in(name, ".tests")))
		return refuse(reason, "a name of a file is not NAME.rules or NAME.tests");
	strcpy(file->name, name);
	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    (uint64_t)json_integer_value(size) > left)
		return refuse(reason,
			      "%s has no valid size, or the files have more than %d bytes together",
			      name, SITE_SIZE_MAX);
	file->size = (size_t)json_integer_value(size);
	return parse_hex(hex, file->sha256) || refuse(reason, "%s has no valid sha256", name);
}

static bool has_file(const struct manifest *manifest, const char *name)
{
	for (size_t i = 0; i < manifest->n; i++)
		if (strcmp(manifest->files[i].name, name) == 0)
			return true;
	return false;
}

static bool parse_files(const json_t *files, struct manifest *manifest, char *reason)
{
	size_t n = json_array_size(files), left = SITE_SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		struct manifest_file *file = &manifest->files[i];

		if (!parse_file(json_array_get(files, i), file, left, reason))
			return false;
		if (has_file(manifest, file->name))
			return refuse(reason, "%s is listed twice", file->name);
		left -= file->size;
		manifest->n++;
	}
	return true;
}

int manifest_parse(const char *text, size_t len, struct manifest **ret,
		   char reason[VERSION_REASON_MAX])
{
	json_error_t error;
	json_t *json = json_loadb(text, len, 0, &error), *files = json_object_get(json, "files");
	size_t n = json_array_size(files);
	struct manifest *manifest = NULL;
	int r = -EBADMSG;

	if (!json) {
		snprintf(reason, VERSION_REASON_MAX, "the manifest is not JSON");
	} else if (n == 0 || n > SITE_FILES_MAX) {
		snprintf(reason, VERSION_REASON_MAX,
			 "the manifest has no \"files\" with 1 to %d elements", SITE_FILES_MAX);
	} else {
		manifest = calloc(1, sizeof(*manifest) + n * sizeof(manifest->files[0]));
		r = !manifest ? -ENOMEM : parse_files(files, manifest, reason) ? 0 : -EBADMSG;
	}
	json_decref(json);
	if (r < 0)
		free(manifest);
	else
		*ret = manifest;
	return r;
}

bool manifest_verify(const struct manifest_file *file, const void *data, size_t len,
		     char reason[VERSION_REASON_MAX])
{
	uint8_t sum[SHA256_SIZE];

	if (len != file->size)
		return refuse(reason, "%s has %zu bytes, but %zu in the manifest", file->name, len,
			      file->size);
	return (sha256(data, len, sum) && memcmp(sum, file->sha256, sizeof(sum)) == 0) ||
	       refuse(reason, "%s does not have the sha256 of the manifest", file->name);
}

static bool read_all(int fd, char *data, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size) {
		n = read(fd, data + len, size - len);
		if (n <= 0)
			return false;
		len += (size_t)n;
	}
	return true;
}

/* Whether what has failed with ERROR is about this host, and not about the file. */
static bool can_pass(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO ||
	       error == ENOTDIR || error == EACCES;
}

/* RET_ERROR: errno, if the file cannot be read; else 0. */
static bool is_same_file(int dir, const struct manifest_file *file, int *ret_error)
{
	int fd = openat(dir, file->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char *data = malloc(file->size + 1), reason[VERSION_REASON_MAX];
	struct stat st;
	bool same;

	*ret_error = fd < 0 ? errno : data ? 0 : ENOMEM;
	same = fd >= 0 && data && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (size_t)st.st_size == file->size && read_all(fd, data, file->size) &&
	       manifest_verify(file, data, file->size, reason);
	if (fd >= 0)
		close(fd);
	free(data);
	return same;
}

enum version_match version_compare(const char *staged, const char *name,
				   const struct manifest *manifest)
{
	enum version_match match = VERSION_SAME;
	const struct dirent *entry;
	char path[PATH_MAX];
	size_t n = 0;
	int error = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", staged, name);
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? VERSION_ABSENT :
		       can_pass(errno) ? VERSION_UNKNOWN :
					 VERSION_OTHER;
	while ((entry = readdir(d)))
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	if (n != manifest->n)
		match = VERSION_OTHER;
	for (size_t i = 0; match == VERSION_SAME && i < manifest->n; i++) {
		if (!is_same_file(dirfd(d), &manifest->files[i], &error))
			match = can_pass(error) ? VERSION_UNKNOWN : VERSION_OTHER;
	}
	closedir(d);
	errno = error;
	return match;
}

static int remove_version(const char *staged, const char *name)
{
	const struct dirent *entry;
	char path[PATH_MAX];
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", staged, name);
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while ((entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(d), entry->d_name, 0);
	closedir(d);
	return rmdir(path) < 0 ? -errno : 0;
}

int staging_begin(struct staging *staging, const char *staged, const char *name)
{
	char path[PATH_MAX];
	int r;

	*staging = (struct staging){ .staged = staged, .fd = -1 };
	text_copy(staging->name, sizeof(staging->name), name);
	if (mkdir(staged, 0755) < 0 && errno != EEXIST)
		return -errno;
	r = remove_version(staged, NEW);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/" NEW, staged);
	if (mkdir(path, 0755) < 0)
		return -errno;
	staging->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return staging->fd < 0 ? -errno : 0;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

int staging_add(struct staging *staging, const char *name, const void *data, size_t len)
{
	int fd = openat(staging->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : write_all(fd, data, len);

	if (fd >= 0)
		close(fd);
	return r;
}

static int sync_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 || fsync(fd) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return r;
}

int staging_commit(struct staging *staging)
{
	char from[PATH_MAX], to[PATH_MAX];

	if (fsync(staging->fd) < 0)
		return -errno;
	snprintf(from, sizeof(from), "%s/" NEW, staging->staged);
	snprintf(to, sizeof(to), "%s/%s", staging->staged, staging->name);
	/* This fails if there is a version of this name. */
	if (rename(from, to) < 0)
		return -errno;
	return sync_dir(staging->staged);
}

void staging_done(struct staging *staging)
{
	if (staging->fd < 0)
		return;
	close(staging->fd);
	staging->fd = -1;
	remove_version(staging->staged, NEW);
}

void version_forget_old(const char *staged, size_t keep, const char *name)
{
	struct site_known *known;
	size_t n = site_list(staged, &known);

	for (size_t i = keep; i < n; i++)
		if (strcmp(known[i].name, name) != 0)
			remove_version(staged, known[i].name);
	free(known);
}

int version_write_file(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX], new[PATH_MAX];
	int fd, r;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(new, sizeof(new), "%s/.%s" NEW, dir, name);
	unlink(new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	r = write_all(fd, text, strlen(text));
	close(fd);
	if (r == 0 && rename(new, path) < 0)
		r = -errno;
	return r < 0 ? r : sync_dir(dir);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"
#include "grow.h"
#include "newfile.h"
#include "output.h"
#include "siteversion.h"

#define CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+"

bool site_is_name(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= SITE_NAME_MAX && name[0] != '.' && name[0] != '-' &&
	       strspn(name, CHARACTERS) == n;
}

static int compare_age(const void *a, const void *b)
{
	const struct site_known *x = a, *y = b;

	if (x->since.tv_sec != y->since.tv_sec)
		return x->since.tv_sec > y->since.tv_sec ? -1 : 1;
	return x->since.tv_nsec > y->since.tv_nsec ? -1 : x->since.tv_nsec < y->since.tv_nsec;
}

size_t site_list(const char *dir, struct site_known **ret)
{
	struct site_known *known = NULL;
	const struct dirent *entry;
	struct stat st;
	size_t n = 0;
	DIR *d = opendir(dir);

	while (d && (entry = readdir(d))) {
		if (!site_is_name(entry->d_name) ||
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		known = grow(known, n, sizeof(*known));
		strcpy(known[n].name, entry->d_name);
		known[n++].since = st.st_mtim;
	}
	if (d)
		closedir(d);
	if (n > 0)
		qsort(known, n, sizeof(*known), compare_age);
	*ret = known;
	return n;
}

void siteversion_get_name(char ret[SITE_NAME_MAX + 1], const char *dir, const char *given)
{
	char *copy = strdupa(dir), *slash;
	const char *name = given;

	/* Completion of a shell adds a slash. */
	for (size_t end = strlen(copy); end > 1 && copy[end - 1] == '/';)
		copy[--end] = 0;
	slash = strrchr(copy, '/');
	if (!given)
		name = slash ? slash + 1 : copy;
	if (!site_is_name(name))
		die(EXIT_USAGE,
		    "invalid name of a version \"%s\": it must have at most %d letters, digits, '.', "
		    "'_', '-' and '+', and not begin with '.' or '-'; give another one with --name",
		    name, SITE_NAME_MAX);
	strcpy(ret, name);
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), k = strlen(suffix);

	return n > k && strcmp(name + n - k, suffix) == 0;
}

bool siteversion_is_test(const struct site_file *file)
{
	return ends_in(file->name, ".tests");
}

static int compare(const void *a, const void *b)
{
	const struct site_file *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static bool read_all(int fd, struct site_file *file, size_t max)
{
	ssize_t n;

	file->text = malloc(max + 1);
	if (!file->text)
		return false;
	do {
		n = read(fd, file->text + file->len, max + 1 - file->len);
		if (n > 0)
			file->len += (size_t)n;
	} while ((n > 0 && file->len <= max) || (n < 0 && errno == EINTR));
	return n >= 0;
}

/* They print the error, and set errno: that of this host's failure, or EINVAL for what is wrong in the version. */
#define fail(fmt, ...) (complain_errno(errno, fmt, ##__VA_ARGS__), false)
#define refuse(...) (complain(__VA_ARGS__), errno = EINVAL, false)

__attribute__((format(printf, 2, 3))) static void complain_errno(int error, const char *fmt, ...)
{
	char text[PATH_MAX + 128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	complain("%s: %s", text, strerror(error));
	errno = error;
}

/* LEFT: the most bytes that the file may have. */
static bool read_file(int dirfd, const char *dir, struct site_file *file, size_t left)
{
	/* O_NONBLOCK: a FIFO must not make this wait. */
	int fd = openat(dirfd, file->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	bool good = true;

	if (fd < 0 && errno == ELOOP)
		good = refuse("cannot open %s/%s: %s", dir, file->name, strerror(ELOOP));
	else if (fd < 0 || fstat(fd, &st) < 0)
		good = fail("cannot open %s/%s", dir, file->name);
	else if (!S_ISREG(st.st_mode))
		good = refuse("%s/%s is not a plain file", dir, file->name);
	else if (!read_all(fd, file, left))
		good = fail("cannot read %s/%s", dir, file->name);
	else if (file->len > left)
		good = refuse("%s: the files have more than %d bytes", dir, SITE_SIZE_MAX);
	else
		file->mode = st.st_mode & ALLPERMS;
	if (fd >= 0)
		close(fd);
	return good;
}

static bool add_name(struct site_version *version, const char *dir, const char *name)
{
	if (!site_is_name(name) || (!ends_in(name, ".rules") && !ends_in(name, ".tests")))
		return refuse("%s/%s: a version has only files NAME.rules and NAME.tests", dir,
			      name);
	if (version->n == SITE_FILES_MAX)
		return refuse("%s: there are more than %d files", dir, SITE_FILES_MAX);
	strcpy(version->files[version->n++].name, name);
	return true;
}

static bool list(struct site_version *version, DIR *d, const char *dir)
{
	const struct dirent *entry;

	for (errno = 0; (entry = readdir(d)); errno = 0) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (!add_name(version, dir, entry->d_name))
			return false;
	}
	return errno == 0 || fail("cannot read %s", dir);
}

struct site_version *siteversion_free(struct site_version *version)
{
	for (size_t i = 0; version && i < version->n; i++)
		free(version->files[i].text);
	free(version);
	return NULL;
}

struct site_version *siteversion_read(const char *dir)
{
	struct site_version *version;
	size_t left = SITE_SIZE_MAX;
	DIR *d = opendir(dir);
	bool good = d || fail("cannot open %s", dir);
	int error;

	if (!good)
		return NULL;
	version = calloc(1, sizeof(*version));
	good = (version || fail("cannot read %s", dir)) && list(version, d, dir);
	if (good)
		qsort(version->files, version->n, sizeof(*version->files), compare);
	for (size_t i = 0; good && i < version->n; i++) {
		good = read_file(dirfd(d), dir, &version->files[i], left);
		left -= good ? version->files[i].len : 0;
	}
	if (good && version->n == 0)
		good = refuse("%s has no files", dir);
	error = errno;
	closedir(d);
	errno = error;
	return good ? version : siteversion_free(version);
}

bool siteversion_equal(const struct site_version *a, const struct site_version *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct site_file *x = &a->files[i], *y = &b->files[i];

		if (strcmp(x->name, y->name) != 0 || x->len != y->len ||
		    memcmp(x->text, y->text, x->len) != 0)
			return false;
	}
	return true;
}

bool siteversion_is_safe(const struct site_version *version)
{
	for (size_t i = 0; i < version->n; i++)
		if (version->files[i].mode & (S_IWGRP | S_IWOTH))
			return false;
	return true;
}

bool siteversion_digest(const struct site_version *version, char ret[SHA256_TEXT])
{
	char sum[SHA256_TEXT], *list = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&list, &size);
	bool good = file;

	for (size_t i = 0; good && i < version->n; i++) {
		good = sha256_text(version->files[i].text, version->files[i].len, sum);
		fprintf(file, "%s  %s\n", sum, version->files[i].name);
	}
	good = file && fclose(file) == 0 && good && sha256_text(list, size, ret);
	free(list);
	if (!good)
		complain("out of memory");
	return good;
}

static bool write_file(const char *dir, const struct site_file *file)
{
	struct newfile to;

	if (!newfile_begin(&to, dir, file->name))
		return false;
	fwrite(file->text, 1, file->len, to.file);
	return newfile_end(&to);
}

bool siteversion_write(const struct site_version *version, const char *dir)
{
	bool good = mkdir(dir, 0755) == 0 && chmod(dir, 0755) == 0;

	if (!good)
		complain("cannot make %s: %m", dir);
	for (size_t i = 0; good && i < version->n; i++)
		good = write_file(dir, &version->files[i]);
	if (!good)
		siteversion_remove(dir);
	return good;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

bool siteversion_remove(const char *dir)
{
	if (nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
		return true;
	complain("cannot remove %s: %m", dir);
	return false;
}

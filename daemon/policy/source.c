/* SPDX-License-Identifier: BSD-2-Clause */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/source.h"
#include "proto/text.h"
#include "util/daemonuser.h"
#include "util/diag.h"

struct source {
	char *name;
	char *text;
	size_t size;
	struct text_line line; /* the one that source_next() has returned last */
};

static int complain(struct diag *diag, const char *path, int error, const char *what)
{
	diag_add(diag, path, 0, 0, NULL, 0, "%s", what);
	return error;
}

static int complain_errno(struct diag *diag, const char *path, const char *what)
{
	int error = errno;

	diag_add(diag, path, 0, 0, NULL, 0, "%s: %s", what, strerror(error));
	return -error;
}

static bool is_daemon_user(void)
{
	uid_t uid;
	gid_t gid;

	return daemonuser_find(&uid, &gid) && uid == geteuid();
}

int source_complain_open(const char *path, int error, bool is_dir, struct diag *diag)
{
	const char *bits = is_dir ? "a+rx" : "a+r";
	char closed[PATH_MAX], *slash = NULL;
	bool knows = error == EACCES && is_daemon_user();

	/* If a directory on the way is closed, CLOSED becomes what could not be looked up in it. */
	if (knows && !realpath(path, closed)) {
		knows = errno == EACCES && (slash = strrchr(closed, '/'));
		bits = "a+x";
	}
	errno = error;
	if (!knows)
		return complain_errno(diag, path, "cannot open");
	if (slash)
		slash[slash == closed] = '\0';
	diag_add(diag, path, 0, 0, NULL, 0,
		 "cannot open: %s for the user %s; to permit it: chmod %s %s", strerror(error),
		 DAEMON_USER, bits, closed);
	return -error;
}

/* The mode suffices: if an ACL gives others write access, it shows in the mode's group bits. */
static int check_owner(const struct stat *st, const char *path, struct diag *diag)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return complain(diag, path, -EPERM,
				"refused: neither root nor the daemon's user owns it");
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return complain(diag, path, -EPERM, "refused: group or others can write it");
	return 0;
}

static int too_big(struct diag *diag, const char *path)
{
	diag_add(diag, path, 0, 0, NULL, 0, "refused: larger than %u bytes",
		 (unsigned)SOURCE_SIZE_MAX);
	return -EFBIG;
}

static int source_new(struct source **ret, const char *name)
{
	struct source *source;

	source = calloc(1, sizeof(*source));
	if (!source)
		return -ENOMEM;

	source->name = strdup(name);
	if (!source->name) {
		source_free(source);
		return -ENOMEM;
	}

	*ret = source;
	return 0;
}

static int source_read(struct source *source, int fd, struct diag *diag)
{
	ssize_t n;

	/* Read one byte more than is allowed, to detect a file that is too large. */
	source->text = malloc(SOURCE_SIZE_MAX + 1);
	if (!source->text)
		return -ENOMEM;

	while (source->size <= SOURCE_SIZE_MAX) {
		n = read(fd, source->text + source->size, SOURCE_SIZE_MAX + 1 - source->size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return complain_errno(diag, source->name, "cannot read");
		if (n == 0)
			return 0;
		source->size += n;
	}

	return too_big(diag, source->name);
}

int source_new_file(struct source **ret, const char *path, bool optional, struct diag *diag)
{
	struct source *source = NULL;
	struct stat st;
	int fd, r;

	/* O_NONBLOCK: opening a FIFO must not block until someone writes to it. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT && optional)
		return -ENOENT;
	if (fd < 0)
		return source_complain_open(path, errno, /* is_dir= */ false, diag);

	if (fstat(fd, &st) < 0) {
		r = complain_errno(diag, path, "cannot stat");
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		r = complain(diag, path, -EINVAL, "refused: not a regular file");
		goto out;
	}
	r = check_owner(&st, path, diag);
	if (r < 0)
		goto out;

	r = source_new(&source, path);
	if (r < 0)
		goto out;
	r = source_read(source, fd, diag);
	if (r < 0)
		goto out;

	*ret = source;
	source = NULL;
out:
	source_free(source);
	close(fd);
	return r;
}

int source_new_text(struct source **ret, const char *name, const char *text, size_t len,
		    struct diag *diag)
{
	struct source *source;
	int r;

	if (len > SOURCE_SIZE_MAX)
		return too_big(diag, name);

	r = source_new(&source, name);
	if (r < 0)
		return r;

	source->text = malloc(len ? len : 1);
	if (!source->text) {
		source_free(source);
		return -ENOMEM;
	}
	if (len)
		memcpy(source->text, text, len);
	source->size = len;

	*ret = source;
	return 0;
}

int source_copy(struct source **ret, const struct source *source)
{
	return source_new_text(ret, source->name, source->text, source->size, /* diag= */ NULL);
}

struct source *source_free(struct source *source)
{
	if (!source)
		return NULL;

	free(source->name);
	free(source->text);
	free(source);
	return NULL;
}

const char *source_name(const struct source *source)
{
	return source->name;
}

const char *source_text(const struct source *source, size_t *ret_size)
{
	*ret_size = source->size;
	return source->text;
}

bool source_next(struct source *source, struct text_line *ret)
{
	if (!text_next_line(source->text, source->size, &source->line))
		return false;
	*ret = source->line;
	return true;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_wanted(const char *name, const char *suffix)
{
	size_t len = strlen(name), suffix_len = strlen(suffix);

	return name[0] != '.' && len > suffix_len && !strcmp(name + len - suffix_len, suffix);
}

struct list {
	char **items; /* ends with NULL */
	size_t n;
};

static int list_add(struct list *list, const char *dir, const char *name)
{
	size_t size = strlen(dir) + strlen(name) + 2;
	char **grown, *path = malloc(size);

	if (!path)
		return -ENOMEM;
	snprintf(path, size, "%s/%s", dir, name);
	grown = reallocarray(list->items, list->n + 2, sizeof(*grown));
	if (!grown) {
		free(path);
		return -ENOMEM;
	}
	list->items = grown;
	grown[list->n++] = path;
	grown[list->n] = NULL;
	return 0;
}

static void list_sort(struct list *list)
{
	if (list->n > 0)
		qsort(list->items, list->n, sizeof(*list->items), compare_paths);
}

/* False: backups of editors and package managers, and what was put aside or is no rules on purpose. */
static bool may_be_meant(const char *name)
{
	static const char *const ends[] = {
		"~",    "#",     ".bak", ".disabled", ".md",  ".new",   ".off",
		".old", ".orig", ".rej", ".save",     ".swp", ".tests", ".tmp",
	};
	static const char *const extensions[] = { "dpkg-", "pacnew", "pacsave", "rpm", "ucf-" };
	const char *extension = strrchr(name, '.');
	size_t len = strlen(name);

	if (name[0] == '.' || name[0] == '#' || strncasecmp(name, "README", 6) == 0)
		return false;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (len >= strlen(ends[i]) && !strcmp(name + len - strlen(ends[i]), ends[i]))
			return false;
	for (size_t i = 0; extension && i < sizeof(extensions) / sizeof(extensions[0]); i++)
		if (!strncmp(extension + 1, extensions[i], strlen(extensions[i])))
			return false;
	return true;
}

/* Warns of the file PATH in a directory of whose files only those that end in SUFFIX are read. */
static void warn_of_ignored(const char *path, const char *suffix, struct diag *diag)
{
	const char *name = strrchr(path, '/') + 1, *dot = strrchr(name, '.');
	int len = dot && dot > name ? (int)(dot - name) : (int)strlen(name);

	/* "a.rules.txt" */
	if ((size_t)len > strlen(suffix) &&
	    !strncmp(name + len - strlen(suffix), suffix, strlen(suffix)))
		len -= (int)strlen(suffix);
	diag_warn(diag, path, 0, 0, NULL, 0,
		  "this file is not read, because its name does not end in '%s'; did you mean "
		  "'%.*s%s'?",
		  suffix, len, name, suffix);
}

static int list_read(struct list *wanted, struct list *ignored, DIR *d, const char *dir,
		     const char *suffix, struct diag *diag)
{
	struct dirent *entry;
	struct stat st;
	int r = 0;

	while (r == 0) {
		errno = 0;
		entry = readdir(d);
		if (!entry)
			return errno ? complain_errno(diag, dir, "cannot read") : 0;
		if (is_wanted(entry->d_name, suffix))
			r = list_add(wanted, dir, entry->d_name);
		else if (may_be_meant(entry->d_name) &&
			 fstatat(dirfd(d), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
			r = list_add(ignored, dir, entry->d_name);
	}
	return r;
}

int source_list_new(char ***ret, const char *dir, const char *suffix, bool optional,
		    struct diag *diag)
{
	struct list wanted = { .items = calloc(1, sizeof(*wanted.items)) }, ignored = {};
	struct stat st;
	DIR *d;
	int r;

	if (!wanted.items)
		return -ENOMEM;

	d = opendir(dir);
	if (!d) {
		r = errno == ENOENT && optional ? -ENOENT :
						  source_complain_open(dir, errno, true, diag);
		goto out;
	}

	if (fstat(dirfd(d), &st) < 0) {
		r = complain_errno(diag, dir, "cannot stat");
		goto out;
	}
	r = check_owner(&st, dir, diag);
	if (r < 0)
		goto out;
	r = list_read(&wanted, &ignored, d, dir, suffix, diag);
	if (r < 0)
		goto out;

	list_sort(&wanted);
	list_sort(&ignored);
	for (size_t i = 0; i < ignored.n; i++)
		warn_of_ignored(ignored.items[i], suffix, diag);
	*ret = wanted.items;
	wanted.items = NULL;
out:
	if (d)
		closedir(d);
	source_list_free(wanted.items);
	source_list_free(ignored.items);
	return r;
}

char **source_list_free(char **paths)
{
	if (!paths)
		return NULL;

	for (size_t i = 0; paths[i]; i++)
		free(paths[i]);
	free(paths);
	return NULL;
}

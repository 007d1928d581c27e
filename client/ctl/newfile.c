/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "newfile.h"
#include "output.h"
#include "proto/text.h"

bool newfile_read(const char *folder, const char *name, char ret[NEWFILE_TEXT_MAX])
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	ret[0] = 0;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, ret, NEWFILE_TEXT_MAX - 1);
	close(fd);
	ret[n > 0 ? n : 0] = 0;
	return n >= 0;
}

/* Another process can write the same file, and one that was killed leaves its own: so no name is used twice. */
static FILE *make(int folder, const char *name)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (fd >= 0 && !file) {
		unlinkat(folder, name, 0);
		close(fd);
	}
	return file;
}

static int begin(struct newfile *ret, const char *folder, const char *name)
{
	uint32_t number = 0;
	int r;

	ret->path = folder;
	getrandom(&number, sizeof(number), 0);
	text_copy(ret->name, sizeof(ret->name), name);
	snprintf(ret->temporary, sizeof(ret->temporary), ".%.200s.%08x.new", name, number);
	ret->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->folder < 0)
		return -errno;
	ret->file = make(ret->folder, ret->temporary);
	if (ret->file)
		return 0;
	r = -errno;
	close(ret->folder);
	return r;
}

static int end_file(struct newfile *file)
{
	int fd = fileno(file->file), r = 0;

	errno = 0;
	if (fflush(file->file) != 0 || ferror(file->file) || fchmod(fd, 0644) < 0 ||
	    fsync(fd) < 0 || renameat(file->folder, file->temporary, file->folder, file->name) < 0)
		r = -(errno ?: EIO);
	if (r < 0)
		unlinkat(file->folder, file->temporary, 0);
	fclose(file->file);
	close(file->folder);
	return r;
}

static bool complain_of(const char *folder, const char *name, int r)
{
	if (r < 0)
		complain("cannot write %s/%s: %s", folder, name, strerror(-r));
	return r == 0;
}

bool newfile_begin(struct newfile *ret, const char *folder, const char *name)
{
	return complain_of(folder, name, begin(ret, folder, name));
}

bool newfile_end(struct newfile *file)
{
	return complain_of(file->path, file->name, end_file(file));
}

static int print(const char *folder, const char *name, const char *fmt, va_list ap)
{
	struct newfile file;
	int r = begin(&file, folder, name);

	if (r < 0)
		return r;
	vfprintf(file.file, fmt, ap);
	return end_file(&file);
}

int newfile_print(const char *folder, const char *name, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = print(folder, name, fmt, ap);
	va_end(ap);
	return r;
}

void newfile_configure(const char *folder, const char *name, const char *fmt, ...)
{
	va_list ap;
	int r;

	if (mkdir(folder, 0755) < 0 && errno != EEXIST)
		die(EXIT_FAILURE, "cannot make %s: %m", folder);
	va_start(ap, fmt);
	r = print(folder, name, fmt, ap);
	va_end(ap);
	if (!complain_of(folder, name, r))
		end(EXIT_FAILURE);
}

bool newfile_remove(const char *path)
{
	if (unlink(path) == 0 || errno == ENOENT)
		return true;
	complain("cannot remove %s: %m", path);
	return false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "newfile.h"
#include "proto/text.h"

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

int newfile_begin(struct newfile *ret, const char *folder, const char *name)
{
	uint32_t number = 0;
	int r;

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

int newfile_end(struct newfile *file)
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

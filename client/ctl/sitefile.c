/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "newfile.h"
#include "sitefile.h"

bool sitefile_read(const char *dir, const char *name, char ret[SITEFILE_MAX])
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	ret[0] = 0;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, ret, SITEFILE_MAX - 1);
	close(fd);
	ret[n > 0 ? n : 0] = 0;
	return n >= 0;
}

int sitefile_write(const char *dir, const char *name, const char *text)
{
	struct newfile file;
	int r = newfile_begin(&file, dir, name);

	if (r < 0)
		return r;
	fputs(text, file.file);
	return newfile_end(&file);
}

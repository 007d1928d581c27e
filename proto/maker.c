/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/maker.h"
#include "proto/text.h"

/*
 * Copies the text between KEY and the next line break to LINE, truncated to SIZE. NULL: TEXT does not contain
 * KEY.
 */
static const char *find_line(const char *text, const char *key, char *line, size_t size)
{
	const char *found = strstr(text, key);

	if (!found)
		return NULL;
	snprintf(line, size, "%.*s", (int)strcspn(found + strlen(key), "\n"), found + strlen(key));
	return line;
}

/* In the status file of a thread, line breaks in the thread's name are escaped. */
void maker_read(pid_t tid, struct maker *ret)
{
	char path[64], text[1024], line[128], *end;
	ssize_t n = -1;
	int fd;

	*ret = (struct maker){ .pid = tid, .uid = (uid_t)-1 };
	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return;
	text[n] = '\0';
	if (find_line(text, "Name:\t", line, sizeof(line)))
		text_copy(ret->name, sizeof(ret->name), line);
	text_make_printable(ret->name, strlen(ret->name));
	if (find_line(text, "\nTgid:\t", line, sizeof(line)))
		ret->pid = (pid_t)strtol(line, NULL, 10);
	/* The line has first the real, then the effective uid. */
	if (find_line(text, "\nUid:\t", line, sizeof(line))) {
		strtoul(line, &end, 10);
		ret->uid = (uid_t)strtoul(end, NULL, 10);
	}
}

/* In the place that its number gives it. Returns how many there are then. */
static size_t insert_gid(uint32_t *gids, size_t n, size_t max, uint32_t gid)
{
	size_t at = 0;

	while (at < n && gids[at] < gid)
		at++;
	if (at == max || (at < n && gids[at] == gid))
		return n;
	if (n == max)
		n--;
	memmove(&gids[at + 1], &gids[at], (n - at) * sizeof(*gids));
	gids[at] = gid;
	return n + 1;
}

size_t maker_read_gids(pid_t pid, uint32_t *ret, size_t max)
{
	char path[64], *line = NULL, *at, *end;
	size_t size = 0, n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (getline(&line, &size, file) > 0) {
		/* The line has first the real, then the effective gid. */
		if (strncmp(line, "Gid:\t", 5) == 0) {
			strtoul(line + 5, &end, 10);
			n = insert_gid(ret, n, max, (uint32_t)strtoul(end, NULL, 10));
		}
		if (strncmp(line, "Groups:\t", 8) != 0)
			continue;
		for (at = line + 8; at += strspn(at, " "), *at >= '0' && *at <= '9'; at = end)
			n = insert_gid(ret, n, max, (uint32_t)strtoul(at, &end, 10));
	}
	free(line);
	fclose(file);
	return n;
}

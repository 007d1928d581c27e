/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/maker.h"
#include "proto/text.h"

static FILE *open_status(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return fopen(path, "re");
}

/* The text of LINE behind NAME; NULL: it is another line. */
static const char *value_of(const char *line, const char *name)
{
	size_t len = strlen(name);

	return strncmp(line, name, len) == 0 ? line + len : NULL;
}

/* The real number is the first one, the effective number the second one. */
static uint32_t effective(const char *value)
{
	char *end;

	strtoul(value, &end, 10);
	return (uint32_t)strtoul(end, NULL, 10);
}

/* In the status file of a thread, line breaks in the thread's name are escaped. */
void maker_read(pid_t tid, struct maker *ret)
{
	FILE *file = open_status(tid);
	char *line = NULL;
	const char *value;
	size_t size = 0;

	*ret = (struct maker){ .pid = tid, .uid = (uid_t)-1 };
	while (file && ret->uid == (uid_t)-1 && getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		if ((value = value_of(line, "Name:\t")))
			text_copy(ret->name, sizeof(ret->name), value);
		else if ((value = value_of(line, "Tgid:\t")))
			ret->pid = (pid_t)strtol(value, NULL, 10);
		else if ((value = value_of(line, "Uid:\t")))
			ret->uid = effective(value);
	}
	text_make_printable(ret->name, strlen(ret->name));
	free(line);
	if (file)
		fclose(file);
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
	FILE *file = open_status(pid);
	char *line = NULL, *end;
	const char *at;
	size_t size = 0, n = 0;

	while (file && getline(&line, &size, file) > 0) {
		if ((at = value_of(line, "Gid:\t")))
			n = insert_gid(ret, n, max, effective(at));
		if (!(at = value_of(line, "Groups:\t")))
			continue;
		for (; at += strspn(at, " "), *at >= '0' && *at <= '9'; at = end)
			n = insert_gid(ret, n, max, (uint32_t)strtoul(at, &end, 10));
	}
	free(line);
	if (file)
		fclose(file);
	return n;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/facts/enclosure.h"
#include "util/util.h"

/* The mount at "/" is among the first. A process can have so many mounts that it would take long to read them all. */
#define MOUNTS_MAX 1024
#define STATUS_LINES_MAX 64

static FILE *open_proc(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, "re");
}

static void closefp(FILE **file)
{
	if (*file)
		fclose(*file);
}

/*
 * A line is "36 35 98:0 /mnt1 /mnt2 rw,noatime ...": two ids, the device, the directory on it, the mount point. Spaces
 * in names are escaped. Only the first characters of the mount point are read.
 */
void enclosure_get_root(struct enclosure_root *ret, pid_t pid)
{
	_cleanup_(closefp) FILE *file = open_proc(pid, "mountinfo");
	_cleanup_free_ char *line = NULL;
	char device[32], directory[200], point[4];
	size_t size = 0;

	*ret = (struct enclosure_root){ 0 };
	for (unsigned i = 0; file && i < MOUNTS_MAX && getline(&line, &size, file) > 0; i++)
		if (sscanf(line, "%*s %*s %31s %199s %3s", device, directory, point) == 3 &&
		    strcmp(point, "/") == 0) {
			snprintf(ret->text, sizeof(ret->text), "%s %s", device, directory);
			return;
		}
}

/* The number of pid namespaces from that of /proc down to the process's own; 0: not known. */
static unsigned count_pid_namespaces(pid_t pid)
{
	_cleanup_(closefp) FILE *file = open_proc(pid, "status");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	unsigned n = 0;

	for (unsigned i = 0; file && i < STATUS_LINES_MAX && getline(&line, &size, file) > 0; i++) {
		if (strncmp(line, "NSpid:", strlen("NSpid:")) != 0)
			continue;
		for (char *save, *word = strtok_r(line + strlen("NSpid:"), " \t\n", &save); word;
		     word = strtok_r(NULL, " \t\n", &save))
			n++;
		break;
	}
	return n;
}

enum enclosure enclosure_find(pid_t pid, const struct enclosure_root *own)
{
	unsigned n = count_pid_namespaces(pid);
	struct enclosure_root root;

	if (n != 1)
		return n == 0 ? ENCLOSURE_UNKNOWN : ENCLOSURE_PIDS;
	enclosure_get_root(&root, pid);
	if (!root.text[0] || strcmp(root.text, own->text) != 0)
		return ENCLOSURE_ROOT;
	return ENCLOSURE_NONE;
}

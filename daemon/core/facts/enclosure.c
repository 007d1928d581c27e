/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/facts/enclosure.h"
#include "core/facts/proc.h"
#include "util/util.h"

/* The mount at "/" is among the first. A process can have so many mounts that it would take long to read them all. */
#define MOUNTS_MAX 1024

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
	_cleanup_(closefp) FILE *file = proc_open(pid, "mountinfo");
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

enum enclosure enclosure_find(pid_t pid, const struct enclosure_root *own)
{
	struct enclosure_root root;
	/* The pids of the process, from the namespace of /proc down to its own. */
	int outer, inner, n = proc_scan(pid, "status", "NSpid: %d %d", &outer, &inner);

	if (n != 1)
		return n == 0 ? ENCLOSURE_UNKNOWN : ENCLOSURE_PIDS;
	enclosure_get_root(&root, pid);
	if (!root.text[0] || strcmp(root.text, own->text) != 0)
		return ENCLOSURE_ROOT;
	return ENCLOSURE_NONE;
}

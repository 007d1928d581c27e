/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sitename.h"

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
	struct site_known *known = NULL, *more;
	const struct dirent *entry;
	struct stat st;
	size_t n = 0;
	DIR *d = opendir(dir);

	while (d && (entry = readdir(d))) {
		if (!site_is_name(entry->d_name) ||
		    fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		more = realloc(known, (n + 1) * sizeof(*known));
		if (!more)
			break;
		known = more;
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

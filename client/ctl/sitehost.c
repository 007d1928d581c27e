/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "output.h"
#include "sitecheck.h"
#include "sitehost.h"

/* What is known of a file without reading it. Links are followed. */
static void add_file(FILE *to, const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0)
		fprintf(to, "%s %llu %lld %o %u %lld.%09ld %lld.%09ld\n", path,
			(unsigned long long)st.st_ino, (long long)st.st_size, st.st_mode, st.st_uid,
			(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
			(long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

/* The last value of PolicyDir= in the file PATH. The daemon is strict about this file, this is not. */
static void find_policy_dir(const char *path, char ret[PATH_MAX])
{
	FILE *file = fopen(path, "re");
	char line[PATH_MAX + 64];

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, " PolicyDir = %4095[^\n]", ret);
	if (file)
		fclose(file);
}

/* The files of DIR, sorted. POLICY_DIR: NULL, or the files are of configuration, and can name another one. */
static void add_dir(FILE *to, const char *dir, char policy_dir[PATH_MAX])
{
	char path[PATH_MAX];
	struct dirent **entries;
	int n = scandir(dir, &entries, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.') {
			add_file(to, path);
			if (policy_dir)
				find_policy_dir(path, policy_dir);
		}
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

void sitehost_digest(char ret[SHA256_TEXT])
{
	const char *config = path_from("RDMABROKERD_CONFIG", RDMABROKER_CONFIG);
	char dropins[PATH_MAX], policy_dir[PATH_MAX], *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	ret[0] = 0;
	if (!file)
		return;
	snprintf(policy_dir, sizeof(policy_dir), "%s/policy.d", dirname(strdupa(config)));
	snprintf(dropins, sizeof(dropins), "%s.d", config);
	add_file(file, config);
	find_policy_dir(config, policy_dir);
	add_dir(file, dropins, policy_dir);
	add_dir(file, policy_dir, NULL);
	add_file(file, "/etc/passwd");
	add_file(file, "/etc/group");
	add_file(file, sitecheck_program());
	if (fclose(file) == 0)
		sha256_text(text, size, ret);
	free(text);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "site.h"

#define FILE_MAX 8192 /* bytes that are read of a file, with the NUL */
#define VALUE_MAX 128 /* of a label, with the NUL */

/* False: there is no such file. No link is followed, and nothing but a plain file is read. */
static bool read_file(const char *dir, const char *name, char ret[FILE_MAX])
{
	char path[PATH_MAX];
	struct stat st;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = read(fd, ret, FILE_MAX - 1);
	close(fd);
	ret[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* The value of KEY. Empty: there is none. */
static const char *find(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (strncmp(text, key, len) == 0 && text[len] == ' ')
			return text + len + 1;
	}
	return "";
}

static void print_label(FILE *f, const char *label, const char *text, const char *key)
{
	const char *value = find(text, key);

	fprintf(f, "%s=\"", label);
	for (size_t i = 0; i < VALUE_MAX && value[i] && value[i] != '\n'; i++)
		fputc(isalnum((unsigned char)value[i]) || strchr("._+-/", value[i]) ? value[i] :
										      '?',
		      f);
	fputc('"', f);
}

static bool is(const char *text, const char *key, const char *value)
{
	const char *found = find(text, key);
	size_t len = strlen(value);

	return strncmp(found, value, len) == 0 && (found[len] == '\n' || !found[len]);
}

static void print_gauge(FILE *f, const char *name, const char *help, long long value)
{
	fprintf(f, "# TYPE %s gauge\n# HELP %s %s\n%s %lld\n", name, name, help, name, value);
}

static void print_site(FILE *f, const char *site, const char *pull)
{
	static const char *const labels[] = { "version", "sha256", "wanted", "state", "code" };

	fputs("# TYPE rdmabroker_site info\n"
	      "# HELP rdmabroker_site The version of the site's policy, and what became of the wanted one.\n"
	      "rdmabroker_site_info{",
	      f);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		print_label(f, labels[i], site, labels[i]);
		fputc(',', f);
	}
	print_label(f, "branch", pull, "branch");
	fputs("} 1\n", f);
	print_gauge(f, "rdmabroker_site_in_force", "1 if the wanted version is in force, else 0.",
		    is(site, "state", "in-force") || is(site, "state", "drift-put-back"));
	print_gauge(f, "rdmabroker_site_since_timestamp_seconds",
		    "When the version or its state last changed.",
		    strtoll(find(site, "since"), NULL, 10));
}

static void print_pull(FILE *f, const char *pull)
{
	print_gauge(f, "rdmabroker_pull_success_timestamp_seconds",
		    "When a fetch of rdmabroker-pull last succeeded.",
		    strtoll(find(pull, "succeeded"), NULL, 10));
	print_gauge(f, "rdmabroker_pull_code", "Exit status of its last fetch, 0 if it succeeded.",
		    strtoll(find(pull, "code"), NULL, 10));
}

void site_print(FILE *f, const struct site_paths *paths)
{
	char site[FILE_MAX], pull[FILE_MAX];
	bool has_pull = read_file(paths->pull, "status", pull);

	if (read_file(paths->site, "state", site))
		print_site(f, site, has_pull ? pull : "");
	if (has_pull)
		print_pull(f, pull);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "sitecheck.h"

#define CHECK_SECONDS 60
#define EXIT_NOT_RUN \
	126 /* of the child that could not become rdmabrokerd; which exits with 1 for an error in rules */

#ifndef RDMABROKERD
#define RDMABROKERD "/usr/sbin/rdmabrokerd"
#endif

const char *sitecheck_program(void)
{
	return path_from("RDMABROKERD", RDMABROKERD);
}

static void run_check(const char *dir, const struct site_version *version, int errors)
{
	const char *program = sitecheck_program();
	char *absolute = realpath(program, NULL);
	const char *argv[2 * SITE_FILES_MAX + 16] = { "rdmabrokerd", "--check", "--site-policy-dir",
						      "." };
	size_t n = 4;

	dup2(errors, STDERR_FILENO);
	if (!absolute) {
		complain("cannot run %s: %m", program);
		_exit(EXIT_NOT_RUN);
	}
	if (chdir(dir) < 0) {
		complain("cannot enter %s: %m", dir);
		_exit(EXIT_NOT_RUN);
	}
	for (size_t i = 0; i < version->n; i++)
		if (siteversion_is_test(&version->files[i])) {
			argv[n++] = "--test";
			argv[n++] = version->files[i].name;
		}
	/* The default action of SIGALRM ends the check, if a look-up of names does not. */
	signal(SIGALRM, SIG_DFL);
	alarm(CHECK_SECONDS);
	execv(absolute, (char *const *)argv);
	complain("cannot run %s: %m", program);
	_exit(EXIT_NOT_RUN);
}

/* Prints what the check says. Its errors begin in the first column, which source lines and carets do not. */
static void pass_errors(int fd)
{
	FILE *file = fdopen(fd, "re");
	char *line = NULL;
	size_t size = 0;

	while (file && getline(&line, &size, file) > 0) {
		fputs(line, stderr);
		if (line[0] != ' ' && line[0] != '\t' && !strstr(line, ": warning: "))
			remember_error(line);
	}
	free(line);
	if (file)
		fclose(file);
	else
		close(fd);
}

enum sitecheck sitecheck_run(const char *dir, const struct site_version *version)
{
	int status, errors[2];
	pid_t pid;

	if (pipe2(errors, O_CLOEXEC) < 0) {
		complain("cannot make a pipe: %m");
		return SITECHECK_NOT_RUN;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_check(dir, version, errors[1]);
	close(errors[1]);
	pass_errors(errors[0]);
	status = wait_for(pid);
	if (pid > 0 && status < 0)
		complain("the check did not end within %d s", CHECK_SECONDS);
	if (status == EXIT_SUCCESS)
		return SITECHECK_VALID;
	return status == EXIT_FAILURE ? SITECHECK_REFUSED : SITECHECK_NOT_RUN;
}

enum sitecheck sitecheck_run_copy(const struct site_version *version, const char *name)
{
	enum sitecheck ret = SITECHECK_NOT_RUN;
	char work[PATH_MAX], dir[PATH_MAX + SITE_NAME_MAX];

	snprintf(work, sizeof(work), "%s/rdmabrokerctl-XXXXXX", path_from("TMPDIR", "/tmp"));
	if (!mkdtemp(work)) {
		complain("cannot make %s: %m", work);
		return ret;
	}
	snprintf(dir, sizeof(dir), "%s/%s", work, name);
	if (siteversion_write(version, dir)) {
		ret = sitecheck_run(dir, version);
		siteversion_remove(dir);
	}
	rmdir(work);
	return ret;
}

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

void sitecheck_digest_host(char ret[SHA256_TEXT])
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

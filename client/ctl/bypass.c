/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "bypass.h"
#include "finddropin.h"
#include "output.h"

#define LIBRARY "librdmacm.so"
#define ABI_FILE \
	"misc/rdma_cm/abi_version" /* librdmacm reads it, in all its versions, and nothing else does */

bool bypass_find_program(const char *name, char ret[PATH_MAX])
{
	const char *folder = getenv("PATH") ?: "/bin:/usr/bin";
	struct stat st;

	for (;;) {
		int len = strcspn(folder, ":");

		if (strchr(name, '/'))
			len = snprintf(ret, PATH_MAX, "%s", name);
		else
			len = snprintf(ret, PATH_MAX, "%.*s/%s", len ?: 1, len ? folder : ".",
				       name);
		if (len < PATH_MAX && access(ret, X_OK) == 0 && stat(ret, &st) == 0 &&
		    S_ISREG(st.st_mode))
			return true;
		folder += strcspn(folder, ":");
		if (strchr(name, '/') || !*folder++)
			return false;
	}
}

const char *bypass_secure(const char *program)
{
	struct stat st;

	if (stat(program, &st) < 0)
		return NULL;
	if ((st.st_mode & S_ISUID) && st.st_uid != geteuid())
		return "is set-user-ID";
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid())
		return "is set-group-ID";
	if (geteuid() != 0 && getxattr(program, "security.capability", NULL, 0) > 0)
		return "has file capabilities";
	return NULL;
}

struct look {
	const char *program;
	bool (*is_reached)(const char *copy, void *arg);
	void (*found)(const struct bypass *bypass, void *arg);
	void *arg;
};

/* The path that ends in what is at AT, such as "/opt/lib/librdmacm.so.1". False: there is only a name. */
static bool find_path(const char *text, const char *at, const char *end, char ret[PATH_MAX])
{
	const char *begin = at;

	while (begin > text && isprint((unsigned char)begin[-1]) && begin[-1] != ' ')
		begin--;
	while (at < end && isprint((unsigned char)*at) && *at != ' ')
		at++;
	if (*begin != '/' || strncmp(begin, "/" LIBRARY, strlen("/" LIBRARY)) == 0 ||
	    at - begin >= PATH_MAX)
		return false;
	snprintf(ret, PATH_MAX, "%.*s", (int)(at - begin), begin);
	return true;
}

static void look_at_text(const struct look *look, const char *file, const char *text, size_t size)
{
	const char *end = text + size, *at = text;
	char path[PATH_MAX], before[PATH_MAX] = "";

	if (memmem(text, size, ABI_FILE, strlen(ABI_FILE)))
		look->found(&(struct bypass){ file, "static", file }, look->arg);
	while ((at = memmem(at, end - at, LIBRARY, strlen(LIBRARY)))) {
		if (find_path(text, at, end, path) && strcmp(path, before) != 0)
			look->found(&(struct bypass){ file, "path", path }, look->arg);
		snprintf(before, sizeof(before), "%s", path);
		at += strlen(LIBRARY);
	}
}

/* False: FILE cannot be read, and errno is set; ENOEXEC: it is no ELF file. */
static bool look_at_file(const struct look *look, const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), error = 0;
	struct stat st;
	char *text = MAP_FAILED;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) < 0)
		error = errno;
	else if (st.st_size < SELFMAG)
		error = ENOEXEC;
	else if ((text = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
		error = errno;
	else if (memcmp(text, ELFMAG, SELFMAG) != 0)
		error = ENOEXEC;
	else
		look_at_text(look, file, text, st.st_size);
	if (text != MAP_FAILED)
		munmap(text, st.st_size);
	close(fd);
	errno = error;
	return error == 0;
}

/* "	libX.so.1 => /usr/lib/libX.so.1 (0x...)" */
static void look_at_line(const struct look *look, char *line)
{
	char *path = strstr(line, " => "), *name = line + strspn(line, "\t ");

	if (!path)
		return;
	path += strlen(" => ");
	path[strcspn(path, " \n")] = 0;
	if (strncmp(name, LIBRARY, strlen(LIBRARY)) == 0) {
		if (!look->is_reached(path, look->arg))
			look->found(&(struct bypass){ look->program, "needed", path }, look->arg);
	} else if (!strstr(path, "/" DROPIN)) {
		look_at_file(look, path);
	}
}

/* The loader lists what it would load. It does not run the program, as ldd(1) may. A static program needs nothing. */
static bool look_at_needed(const struct look *look)
{
	char line[2 * PATH_MAX];
	int fds[2], status;
	Dl_info loader;
	FILE *file;
	pid_t pid;

	if (!dladdr((void *)getauxval(AT_BASE), &loader) || pipe2(fds, O_CLOEXEC) < 0) {
		complain("cannot find the loader of programs");
		return false;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		execl(loader.dli_fname, loader.dli_fname, "--list", look->program, NULL);
		_exit(EXIT_FAILURE);
	}
	close(fds[1]);
	file = fdopen(fds[0], "r");
	while (file && fgets(line, sizeof(line), file))
		look_at_line(look, line);
	if (file)
		fclose(file);
	else
		close(fds[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return pid > 0 && file;
}

bool bypass_look(const char *program, bool (*is_reached)(const char *copy, void *arg),
		 void (*found)(const struct bypass *bypass, void *arg), void *arg)
{
	struct look look = { program, is_reached, found, arg };

	if (look_at_file(&look, program))
		return look_at_needed(&look);
	if (errno == ENOEXEC)
		complain("%s is no ELF file: for a script, name its interpreter", program);
	else
		complain("cannot read %s: %m", program);
	return false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <dlfcn.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bypass.h"
#include "ctl.h"
#include "finddropin.h"
#include "newfile.h"
#include "output.h"
#include "proto/maker.h"
#include "read.h"
#include "table.h"

/*
 * The verb dropin: whether programs get the drop-in in place of librdmacm by themselves, without a word before them.
 *
 *   LIBDIR/rdmabroker/default/librdmacm.so.1   a link to the drop-in; librdmacm.so, which some programs load, is a link to it
 *   /etc/ld.so.conf.d/00-rdmabroker.conf       this folder, so that ldconfig puts it first into ld.so's cache
 */

#define SONAME "librdmacm.so.1"
#define CONF_FOLDER "/etc/ld.so.conf.d"
#define CONF_NAME "00-rdmabroker.conf"
#define CONF CONF_FOLDER "/" CONF_NAME
#define CACHED_MAX 64
#define DEPTH_MAX 12 /* of folders that are searched for copies */

enum { ENABLE, DISABLE, STATUS };
const char *const dropin_actions[] = { "enable", "disable", "status", NULL };

/* The drop-in's place for ld.so. Prints an error if it is missing, or is no link to the drop-in. */
static bool find_link(char ret[PATH_MAX], char folder[PATH_MAX], bool complains)
{
	char path[PATH_MAX], real[PATH_MAX], target[PATH_MAX];

	if (!dropin_find(path) || !realpath(path, real) || !dropin_find_folder(path, folder)) {
		if (complains)
			complain("%s is not installed", DROPIN);
		return false;
	}
	if (snprintf(ret, PATH_MAX, "%s/" SONAME, folder) >= PATH_MAX)
		return false;
	if (realpath(ret, target) && strcmp(target, real) == 0)
		return true;
	if (complains)
		complain("%s is no link to %s: install the drop-in again", ret, real);
	return false;
}

/* What ld.so's cache has for librdmacm, in the order of the search. */

struct cached {
	char kind[64]; /* "libc6,x86-64": programs of another kind do not use it */
	char path[PATH_MAX];
	bool by_processor; /* a copy in glibc-hwcaps, which only some processors use, and before the others */
};

struct cache {
	struct cached entries[CACHED_MAX];
	size_t n;
};

/* "	librdmacm.so.1 (libc6,x86-64, hwcap: "x86-64-v3") => /usr/lib/..." */
static bool parse_cached(const char *line, struct cached *ret)
{
	const char *begin = strchr(line, '('), *arrow = strstr(line, " => ");
	size_t len;

	line += strspn(line, " \t");
	if (strncmp(line, SONAME " ", strlen(SONAME " ")) != 0 || !begin || !arrow)
		return false;
	ret->by_processor = strstr(begin, "hwcap:");
	len = strcspn(begin + 1, " )");
	if (len > 0 && begin[len] == ',')
		len--;
	snprintf(ret->kind, sizeof(ret->kind), "%.*s", (int)len, begin + 1);
	snprintf(ret->path, sizeof(ret->path), "%.*s", (int)strcspn(arrow + 4, "\n"), arrow + 4);
	return true;
}

static bool cache_read(struct cache *ret)
{
	FILE *file = popen("PATH=$PATH:/usr/sbin:/sbin ldconfig -p", "re");
	char line[2 * PATH_MAX];

	ret->n = 0;
	if (!file) {
		complain("cannot run ldconfig: %m");
		return false;
	}
	while (fgets(line, sizeof(line), file))
		if (ret->n < CACHED_MAX && parse_cached(line, &ret->entries[ret->n]))
			ret->n++;
	if (pclose(file) != 0) {
		complain("\"ldconfig -p\" has failed");
		return false;
	}
	return true;
}

/* Whether programs get the drop-in, whose link is LINK: it is the first of its kind, on every processor. */
static bool is_default(const struct cache *cache, const char *link)
{
	const struct cached *end = cache->entries + cache->n, *own = cache->entries, *first;

	while (own < end && strcmp(own->path, link) != 0)
		own++;
	if (own == end)
		return false;
	for (first = cache->entries; first->by_processor || strcmp(first->kind, own->kind) != 0;)
		if (++first == end)
			return false;
	return first == own;
}

/* Changes */

static bool run_ldconfig(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execlp("ldconfig", "ldconfig", NULL);
		execl("/sbin/ldconfig", "ldconfig", NULL);
		complain("cannot run ldconfig: %m");
		_exit(EXIT_FAILURE);
	}
	return wait_for(pid) == 0;
}

/* With a drop-in that cannot be loaded, no program of librdmacm would start. */
static bool can_load(const char *link)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		/* It is not to open a session. */
		setenv("RDMABROKER_DEVICES", "none", 1);
		if (dlopen(link, RTLD_NOW | RTLD_LOCAL))
			_exit(EXIT_SUCCESS);
		complain("cannot load the drop-in, so nothing was changed: %s", dlerror());
		_exit(EXIT_FAILURE);
	}
	return wait_for(pid) == 0;
}

/* A copy that some processors prefer is not changed by the order of folders. */
static void warn_of_processors(const struct cache *cache)
{
	for (size_t i = 0; i < cache->n; i++)
		if (cache->entries[i].by_processor)
			complain("%s comes first on the processors for which it is made",
				 cache->entries[i].path);
}

/* Whether programs get the drop-in now. False also if that cannot be told, after an error. */
static bool is_in_cache(const char *link)
{
	struct cache cache;

	if (!cache_read(&cache) || !is_default(&cache, link))
		return false;
	warn_of_processors(&cache);
	return true;
}

static int enable(void)
{
	char link[PATH_MAX], folder[PATH_MAX];

	if (!find_link(link, folder, /* complains= */ true) || !can_load(link))
		return EXIT_FAILURE;
	newfile_configure(
		CONF_FOLDER, CONF_NAME,
		"# The drop-in for librdmacm, before librdmacm itself: see \"dropin\" in rdmabrokerctl(1).\n"
		"%s\n",
		folder);
	if (run_ldconfig() && is_in_cache(link)) {
		puts("Programs that are started from now on use the drop-in in place of librdmacm.");
		return EXIT_SUCCESS;
	}
	complain("ld.so does not find %s first, so the change was taken back; does /etc/ld.so.conf "
		 "include " CONF_FOLDER "/*.conf?",
		 link);
	if (newfile_remove(CONF))
		run_ldconfig();
	return EXIT_FAILURE;
}

static int disable(void)
{
	char link[PATH_MAX], folder[PATH_MAX];

	if (!newfile_remove(CONF) || !run_ldconfig())
		return EXIT_FAILURE;
	if (find_link(link, folder, /* complains= */ false) && is_in_cache(link))
		die(EXIT_FAILURE, "ld.so still finds %s first: see the other files in " CONF_FOLDER,
		    link);
	puts("Programs that are started from now on use librdmacm itself. Those that run go on as they are.");
	return EXIT_SUCCESS;
}

/* Status: copies of librdmacm that programs could find before the drop-in, and programs that have. */

static struct table *copies; /* nftw() passes nothing on */

static const struct column copy_columns[] = {
	{ "COPY", "path", .type = COLUMN_TEXT },
	{ NULL },
};

static int take_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;

	if (type == FTW_D && ftw->level > DEPTH_MAX)
		return FTW_SKIP_SUBTREE;
	/* Not the names for linking: no program loads them. */
	if ((type == FTW_F || type == FTW_SL) && strcmp(name, SONAME) == 0)
		table_add(copies, &path);
	return FTW_CONTINUE;
}

/* Copies outside of the distribution's folders, which programs find by RPATH or LD_LIBRARY_PATH. */
static void find_copies(struct table *table)
{
	static const char *const folders[] = { "/opt", "/usr/local", "/usr/mpi" };

	copies = table;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		nftw(folders[i], take_file, 16, FTW_PHYS | FTW_MOUNT | FTW_ACTIONRETVAL);
}

struct program {
	const char *name, *path;
	int pid;
};

static const struct column program_columns[] = {
	{ "PROGRAM", "name", COLUMN_OF(struct program, name) },
	{ "PID", "pid", COLUMN_OF(struct program, pid) },
	{ "LIBRARY", "library", COLUMN_OF(struct program, path) },
	{ NULL },
};

/* The copy of librdmacm that the process has loaded; false: none, or the drop-in, too. */
static bool find_loaded(int pid, char ret[PATH_MAX])
{
	char path[64], line[2 * PATH_MAX];
	bool found = false, has_dropin = false;
	const char *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		at = strchr(line, '/');
		if (!at)
			continue;
		has_dropin = has_dropin || strstr(at, "/" DROPIN);
		if (!found && strstr(at, "/librdmacm.so.")) {
			snprintf(ret, PATH_MAX, "%s", at);
			found = true;
		}
	}
	if (file)
		fclose(file);
	return found && !has_dropin;
}

static void find_programs(struct table *table)
{
	const struct dirent *entry;
	char library[PATH_MAX];
	DIR *dir = opendir("/proc");
	struct maker maker;

	while (dir && (entry = readdir(dir))) {
		int pid = atoi(entry->d_name);

		if (pid <= 0 || !find_loaded(pid, library))
			continue;
		maker_read(pid, &maker);
		/* The daemon has to have librdmacm itself. */
		if (strcmp(maker.name, "rdmabrokerd") != 0)
			table_add(table, &(struct program){ maker.name, library, pid });
	}
	if (dir)
		closedir(dir);
}

/* A table under a HEADING, or an array KEY in JSON. An empty table is not printed. */
static void print_found(void (*find)(struct table *table), const struct column *columns,
			struct jsonout *json, const char *key, const char *heading)
{
	struct table table;

	table_begin(&table, columns, json, key);
	find(&table);
	if (!json && table.n_rows == 0) {
		table_done(&table);
		return;
	}
	if (!json)
		puts(heading);
	table_end(&table, stdout);
}

static int print_status(const struct ctl *ctl)
{
	char link[PATH_MAX], folder[PATH_MAX];
	bool is_installed = find_link(link, folder, /* complains= */ false), is_first;
	struct jsonout json, *to = ctl->json ? &json : NULL;
	struct cache cache;

	if (!cache_read(&cache))
		return EXIT_FAILURE;
	is_first = is_installed && is_default(&cache, link);
	if (ctl->json) {
		json_begin(&json);
		jsonout_bool(&json, "default", is_first);
		jsonout_string(&json, "link", is_installed ? link : NULL);
	} else {
		printf("default: %s\n", is_first ? escaped(link) : "librdmacm itself");
		warn_of_processors(&cache);
	}
	print_found(find_programs, program_columns, to, "without_dropin",
		    "\nThese programs run with librdmacm itself:");
	print_found(find_copies, copy_columns, to, "copies",
		    "\nPrograms that find one of these copies do not use the drop-in by default:");
	if (ctl->json)
		json_end(&json);
	return EXIT_SUCCESS;
}

/* The status of a program */

struct question {
	struct cache cache;
	const char *dropin; /* its path */
	bool is_default;
	struct table table;
};

static const struct column bypass_columns[] = {
	{ "FILE", "file", COLUMN_OF(struct bypass, file) },
	{ "WAY", "way", COLUMN_OF(struct bypass, way) },
	{ "COPY", "copy", COLUMN_OF(struct bypass, copy) },
	{ NULL },
};

/* As long as the drop-in is not the default, what ld.so finds by its cache is what the drop-in would come before. */
static bool is_reached(const char *copy, void *arg)
{
	const struct question *question = arg;
	char real[PATH_MAX];

	if (question->dropin && realpath(copy, real) && strcmp(real, question->dropin) == 0)
		return true;
	for (size_t i = 0; !question->is_default && i < question->cache.n; i++)
		if (strcmp(question->cache.entries[i].path, copy) == 0)
			return true;
	return false;
}

static void add_bypass(const struct bypass *bypass, void *arg)
{
	struct question *question = arg;

	table_add(&question->table, bypass);
}

static int print_program_status(const struct ctl *ctl, const char *name)
{
	char link[PATH_MAX], folder[PATH_MAX], dropin[PATH_MAX], program[PATH_MAX];
	struct question question = { 0 };
	struct jsonout json;
	const char *secure;
	bool done;

	/* Libraries, such as plug-ins, need not be executable. */
	if (!bypass_find_program(name, program))
		snprintf(program, sizeof(program), "%s", name);
	secure = bypass_secure(program);
	if (!cache_read(&question.cache))
		return EXIT_FAILURE;
	if (find_link(link, folder, /* complains= */ false) && realpath(link, dropin)) {
		question.dropin = dropin;
		question.is_default = is_default(&question.cache, link);
	}
	if (ctl->json) {
		json_begin(&json);
		jsonout_string(&json, "program", program);
		jsonout_string(&json, "not_preloaded", secure);
	}
	table_begin(&question.table, bypass_columns, ctl->json ? &json : NULL, "bypasses");
	done = bypass_look(program, is_reached, add_bypass, &question);
	if (!ctl->json && secure)
		printf("%s %s: \"rdmabrokerctl run\" does not reach it, \"dropin enable\" does.\n",
		       escaped(program), secure);
	if (!ctl->json && done)
		puts(question.table.n_rows > 0 ?
			     "It can get librdmacm itself, past the drop-in:" :
			     "Nothing in it, and in the libraries that it needs, gets past the drop-in.");
	if (ctl->json || question.table.n_rows > 0)
		table_end(&question.table, stdout);
	else
		table_done(&question.table);
	if (ctl->json)
		json_end(&json);
	return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

int verb_dropin(struct ctl *ctl)
{
	int action = read_action(ctl);

	if (ctl->arguments[1] && action != STATUS)
		ctl_misused(ctl, "unexpected argument \"%s\": dropin %s takes none",
			    ctl->arguments[1], dropin_actions[action]);
	if (ctl->arguments[1])
		return print_program_status(ctl, ctl->arguments[1]);
	if (action == STATUS)
		return print_status(ctl);
	if (geteuid() != 0)
		die(EXIT_FAILURE, "dropin %s has to be used by root", dropin_actions[action]);
	return action == ENABLE ? enable() : disable();
}

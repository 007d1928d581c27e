/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
 *   LIBDIR/rdmabroker/default/librdmacm.so.1   a link to the drop-in; the only file in its folder
 *   /etc/ld.so.conf.d/00-rdmabroker.conf       this folder, so that ldconfig puts it first into ld.so's cache
 */

#define SONAME "librdmacm.so.1"
#define FOLDER "default"
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
	char path[PATH_MAX], real[PATH_MAX], target[PATH_MAX], *slash;

	if (!dropin_find(path) || !realpath(path, real)) {
		if (complains)
			complain("%s is not installed", DROPIN);
		return false;
	}
	slash = strrchr(real, '/');
	if (snprintf(folder, PATH_MAX, "%.*s/" FOLDER, (int)(slash - real), real) >= PATH_MAX ||
	    snprintf(ret, PATH_MAX, "%s/" SONAME, folder) >= PATH_MAX)
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
	struct cached *entries;
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

	*ret = (struct cache){ .entries = calloc(CACHED_MAX, sizeof(struct cached)) };
	if (!file || !ret->entries) {
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

static void cache_done(struct cache *cache)
{
	free(cache->entries);
}

static const struct cached *find_path(const struct cache *cache, const char *path)
{
	for (size_t i = 0; i < cache->n; i++)
		if (strcmp(cache->entries[i].path, path) == 0)
			return &cache->entries[i];
	return NULL;
}

/* What programs get that are of the kind of ENTRY, on every processor. */
static const struct cached *find_first(const struct cache *cache, const struct cached *entry)
{
	for (size_t i = 0; i < cache->n; i++)
		if (!cache->entries[i].by_processor &&
		    strcmp(cache->entries[i].kind, entry->kind) == 0)
			return &cache->entries[i];
	return NULL;
}

/* Whether programs get the drop-in, whose link is LINK. */
static bool is_default(const struct cache *cache, const char *link)
{
	const struct cached *own = find_path(cache, link);

	return own && find_first(cache, own) == own;
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

static bool write_conf(const char *folder)
{
	struct newfile file;
	int r;

	if (mkdir(CONF_FOLDER, 0755) < 0 && errno != EEXIST) {
		complain("cannot make %s: %m", CONF_FOLDER);
		return false;
	}
	r = newfile_begin(&file, CONF_FOLDER, CONF_NAME);
	if (r == 0) {
		fprintf(file.file,
			"# The drop-in for librdmacm, before librdmacm itself: see \"dropin\" in rdmabrokerctl(1).\n"
			"%s\n",
			folder);
		r = newfile_end(&file);
	}
	if (r < 0)
		complain("cannot write %s: %s", CONF, strerror(-r));
	return r == 0;
}

static bool remove_conf(void)
{
	if (unlink(CONF) == 0 || errno == ENOENT)
		return true;
	complain("cannot remove %s: %m", CONF);
	return false;
}

/* A copy that some processors prefer is not changed by the order of folders. */
static void warn_of_processors(const struct cache *cache)
{
	for (size_t i = 0; i < cache->n; i++)
		if (cache->entries[i].by_processor)
			complain("%s comes first on the processors for which it is made",
				 cache->entries[i].path);
}

/* Whether programs get the drop-in now. */
static bool check_cache(const char *link, bool *ret)
{
	struct cache cache;
	bool done = cache_read(&cache);

	if (done) {
		*ret = is_default(&cache, link);
		if (*ret)
			warn_of_processors(&cache);
	}
	cache_done(&cache);
	return done;
}

static int enable(void)
{
	char link[PATH_MAX], folder[PATH_MAX];
	bool is_first = false;

	if (!find_link(link, folder, /* complains= */ true) || !can_load(link) ||
	    !write_conf(folder))
		return EXIT_FAILURE;
	if (run_ldconfig() && check_cache(link, &is_first) && is_first) {
		puts("Programs that are started from now on use the drop-in in place of librdmacm.");
		return EXIT_SUCCESS;
	}
	complain("ld.so does not find %s first, so the change was taken back; does /etc/ld.so.conf "
		 "include " CONF_FOLDER "/*.conf?",
		 link);
	if (remove_conf())
		run_ldconfig();
	return EXIT_FAILURE;
}

static int disable(void)
{
	char link[PATH_MAX], folder[PATH_MAX];
	bool is_first = false;

	if (!remove_conf() || !run_ldconfig())
		return EXIT_FAILURE;
	if (find_link(link, folder, /* complains= */ false) && check_cache(link, &is_first) &&
	    is_first) {
		complain("ld.so still finds %s first: see the other files in " CONF_FOLDER, link);
		return EXIT_FAILURE;
	}
	puts("Programs that are started from now on use librdmacm itself. Those that run go on as they are.");
	return EXIT_SUCCESS;
}

/* Status: copies of librdmacm that programs could find before the drop-in, and programs that have. */

static struct {
	struct table *table;
	size_t n;
} search;

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
	if ((type == FTW_F || type == FTW_SL) && strcmp(name, SONAME) == 0) {
		table_add(search.table, &path);
		search.n++;
	}
	return FTW_CONTINUE;
}

/* Copies outside of the distribution's folders, which programs find by RPATH or LD_LIBRARY_PATH. */
static void find_copies(struct table *table)
{
	static const char *const folders[] = { "/opt", "/usr/local", "/usr/mpi" };

	search.table = table;
	search.n = 0;
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

static size_t find_programs(struct table *table)
{
	const struct dirent *entry;
	char library[PATH_MAX];
	DIR *dir = opendir("/proc");
	struct maker maker;
	size_t n = 0;

	while (dir && (entry = readdir(dir))) {
		int pid = atoi(entry->d_name);

		if (pid <= 0 || !find_loaded(pid, library))
			continue;
		maker_read(pid, &maker);
		/* The daemon has to have librdmacm itself. */
		if (strcmp(maker.name, "rdmabrokerd") == 0)
			continue;
		table_add(table, &(struct program){ maker.name, library, pid });
		n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static void print_text(const struct cache *cache, const char *link, bool is_first)
{
	struct table table;

	printf("default: %s\n", is_first ? escaped(link) : "librdmacm itself");
	warn_of_processors(cache);
	table_begin(&table, program_columns);
	if (find_programs(&table) > 0) {
		puts("\nThese programs run with librdmacm itself:");
		table_print(&table, stdout);
	}
	table_done(&table);
	table_begin(&table, copy_columns);
	find_copies(&table);
	if (search.n > 0) {
		puts("\nPrograms that find one of these copies do not use the drop-in by default:");
		table_print(&table, stdout);
	}
	table_done(&table);
}

static void print_as_json(const char *link, bool is_first)
{
	struct jsonout json = { .file = stdout };
	struct table programs = { .columns = program_columns, .json = &json };
	struct table copies = { .columns = copy_columns, .json = &json };

	jsonout_open(&json, NULL, '{');
	jsonout_bool(&json, "default", is_first);
	jsonout_string(&json, "link", link[0] ? link : NULL);
	jsonout_open(&json, "without_dropin", '[');
	find_programs(&programs);
	jsonout_close(&json, ']');
	jsonout_open(&json, "copies", '[');
	find_copies(&copies);
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	putchar('\n');
}

static int print_status(const struct ctl *ctl)
{
	char link[PATH_MAX] = "", folder[PATH_MAX];
	bool is_installed = find_link(link, folder, /* complains= */ false);
	struct cache cache;
	bool done = cache_read(&cache);

	if (!is_installed)
		link[0] = 0;
	if (done && ctl->json)
		print_as_json(link, is_installed && is_default(&cache, link));
	else if (done)
		print_text(&cache, link, is_installed && is_default(&cache, link));
	cache_done(&cache);
	return done ? EXIT_SUCCESS : EXIT_FAILURE;
}

int verb_dropin(struct ctl *ctl)
{
	int action = read_word("action", ctl->arguments[0], dropin_actions);

	if (action < 0)
		return ctl_see_help(ctl->verb);
	if (action == STATUS)
		return print_status(ctl);
	if (geteuid() != 0) {
		complain("dropin %s has to be used by root", dropin_actions[action]);
		return EXIT_FAILURE;
	}
	return action == ENABLE ? enable() : disable();
}

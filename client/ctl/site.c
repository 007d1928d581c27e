/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "proto/text.h"
#include "sitecheck.h"
#include "siteheld.h"
#include "siteversion.h"
#include "table.h"

/*
 * The policy of a site, for many hosts. Whole versions are installed, and one of them is in force:
 *
 *   DIRECTORY/versions/NAME/   *.rules, *.tests; root's
 *   DIRECTORY/current          a link to the version in force, which the daemon reads (SitePolicyDir=)
 *
 * A version is checked before it is put in force, together with the rules of this host and with its own tests. If the
 * daemon refuses it nevertheless, the version before it is in force again. What is in force already is checked, and
 * nothing is written or reloaded, so that configuration management can run this again and again.
 *
 * DIRECTORY/.unconfirmed exists from before the link changes until the daemon has taken what the link names. A process
 * that was killed in between leaves it, and the daemon may then have another version than the link says.
 */

#define DIRECTORY "/var/lib/rdmabroker/site"
#define KEEP 8 /* versions that are kept, with the one in force */

enum {
	OPTION_NAME,
	OPTION_DIRECTORY,
	OPTION_DRY_RUN,
	OPTION_UNLESS_HELD,
};

const struct verb_option site_options[] = {
	[OPTION_NAME] = { "name", "NAME", "name of the version (default: that of its directory)" },
	[OPTION_DIRECTORY] = { "directory", "DIR",
			       "where versions are installed (default " DIRECTORY ")" },
	[OPTION_DRY_RUN] = { "dry-run", NULL,
			     "check the version, change nothing, and print what would change" },
	[OPTION_UNLESS_HELD] = { "unless-held", NULL,
				 "install nothing while \"site hold\" is in effect" },
	{ NULL },
};

const char *const site_actions[] = { "install", "use", "hold", "release", "status", NULL };

struct site {
	struct ctl *ctl;
	const char *dir;
	bool dry_run;
	int lock;
};

__attribute__((format(printf, 3, 4))) static void
make_path(char ret[PATH_MAX], const struct site *site, const char *fmt, ...)
{
	char name[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	snprintf(ret, PATH_MAX, "%s/%s", site->dir, name);
}

/* The name of the version in force. False: there is none. */
static bool get_current(const struct site *site, char ret[SITE_NAME_MAX + 1])
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *name;
	ssize_t n;

	make_path(path, site, "current");
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = 0;
	name = strncmp(target, "versions/", 9) == 0 ? target + 9 : "";
	if (!site_is_name(name))
		return false;
	strcpy(ret, name);
	return true;
}

/* NAME NULL: no version. The link is replaced as a whole, so that there is no moment without one. */
static bool set_current(const struct site *site, const char *name)
{
	char path[PATH_MAX], new[PATH_MAX], target[SITE_NAME_MAX + 16];
	bool good;

	make_path(path, site, "current");
	make_path(new, site, ".current.new");
	unlink(new);
	if (name) {
		snprintf(target, sizeof(target), "versions/%s", name);
		good = symlink(target, new) == 0 && rename(new, path) == 0;
	} else {
		good = unlink(path) == 0 || errno == ENOENT;
	}
	if (!good)
		complain("cannot replace %s: %m", path);
	return good;
}

/*
 * Whether the daemon has the version that is current now. It reads it at its start, if it does not run. RET_HANGS: it has
 * not answered, so it has not refused the version either.
 */
static bool reload(const struct site *site, bool *ret_runs, bool *ret_hangs)
{
	struct rdmabroker_reload_result *result;
	struct ctl *ctl = site->ctl;
	int r = ctl_connect(ctl, /* as_admin= */ true);
	bool good;

	*ret_runs = r != -ENOENT && r != -ECONNREFUSED;
	*ret_hangs = r < 0;
	if (r < 0) {
		if (*ret_runs)
			ctl_complain_failure(ctl, r);
		return !*ret_runs;
	}
	r = rdmabroker_reload(ctl->session, &result);
	good = r == 0 && result->ok;
	*ret_hangs = r < 0;
	if (r < 0)
		ctl_complain_failure(ctl, r);
	for (size_t i = 0; r == 0 && i < result->n_complaints; i++)
		fprintf(stderr, "%s\n", escaped(result->complaints[i]));
	if (r == 0)
		rdmabroker_free_reload_result(result);
	ctl->session = rdmabroker_close(ctl->session);
	return good;
}

/* The daemon may not have what the link says. False: an error was printed. */
static bool mark_unconfirmed(const struct site *site)
{
	char path[PATH_MAX];
	int fd;

	make_path(path, site, ".unconfirmed");
	fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		complain("cannot make %s: %m", path);
		return false;
	}
	close(fd);
	return true;
}

static void confirm(const struct site *site)
{
	char path[PATH_MAX];

	make_path(path, site, ".unconfirmed");
	unlink(path);
}

/*
 * Whether the daemon has the version that is current, as far as can be told: it took the version, and no reload has
 * failed since. A daemon that does not run reads the version at its start.
 */
static bool is_confirmed(const struct site *site)
{
	struct rdmabroker_status *status;
	struct ctl *ctl = site->ctl;
	char path[PATH_MAX];
	bool good;
	int r;

	make_path(path, site, ".unconfirmed");
	if (access(path, F_OK) == 0)
		return false;
	r = ctl_connect(ctl, /* as_admin= */ true);
	if (r < 0)
		return r == -ENOENT || r == -ECONNREFUSED;
	r = rdmabroker_get_status(ctl->session, &status);
	good = r == 0 && !status->policy_error;
	if (r == 0)
		rdmabroker_free_status(status);
	ctl->session = rdmabroker_close(ctl->session);
	return good;
}

struct result {
	const char *version, *previous;
	bool changed, reloaded;
};

static void print_result(const struct site *site, const struct result *result)
{
	static const struct column columns[] = {
		{ NULL, "version", COLUMN_OF(struct result, version) },
		{ NULL, "previous", COLUMN_OF(struct result, previous) },
		{ NULL, "changed", COLUMN_OF(struct result, changed) },
		{ NULL, "reloaded", COLUMN_OF(struct result, reloaded) },
		{ NULL },
	};
	const char *name = result->version, *was = result->previous;
	bool same = was && strcmp(was, name) == 0;

	if (site->ctl->json)
		print_json(columns, result);
	else if (!result->changed)
		printf("version %s is in force already, nothing has changed\n", name);
	else if (site->dry_run && same)
		printf("version %s is in force, and would be reloaded\n", name);
	else if (site->dry_run)
		printf("version %s would be in force, now %s%s\n", name,
		       was ? "it is " : "no version is", was ?: "");
	else if (same)
		printf("version %s is in force%s\n", name,
		       result->reloaded ? ", and was reloaded" : " when the daemon starts");
	else
		printf("version %s is in force%s%s%s\n", name, was ? ", before it was " : "",
		       was ?: "", result->reloaded ? "" : " when the daemon starts");
}

/*
 * The daemon did not take the version NAME, which is current now. Returns to the version WAS; NULL: to none. HANGS: it has not
 * refused it either. Returns the exit status.
 */
static int go_back(const struct site *site, const char *name, const char *was, bool hangs)
{
	int status = hangs ? EXIT_LATER : EXIT_FAILURE;
	bool ignored[2];

	if (was && strcmp(was, name) == 0) {
		complain("the daemon cannot reload version %s", name);
		return status;
	}
	if (set_current(site, was) && reload(site, &ignored[0], &ignored[1]))
		confirm(site);
	complain("version %s is %s; %s%s", name, hangs ? "not in force" : "refused",
		 was ? "in force is still version " : "no version is in force", was ?: "");
	return status;
}

/* Puts the version NAME in force, which was checked. IS_NEW: it was not installed before. */
static int put_in_force(const struct site *site, const char *name, bool is_new)
{
	char current[SITE_NAME_MAX + 1];
	struct result result = { .version = name };
	bool hangs;

	if (get_current(site, current))
		result.previous = current;
	result.changed = is_new || !result.previous || strcmp(current, name) != 0 ||
			 !is_confirmed(site);
	if (result.changed && !site->dry_run) {
		if (!mark_unconfirmed(site) || !set_current(site, name))
			return EXIT_LATER;
		if (!reload(site, &result.reloaded, &hangs))
			return go_back(site, name, result.previous, hangs);
		confirm(site);
	}
	print_result(site, &result);
	return EXIT_SUCCESS;
}

/* The installed versions, the newest first. The caller frees *RET. */
static size_t list_versions(const struct site *site, struct site_known **ret)
{
	char path[PATH_MAX];

	make_path(path, site, "versions");
	return site_list(path, ret);
}

/* Removes the oldest versions, but not the one in force. */
static void forget_old(const struct site *site)
{
	char current[SITE_NAME_MAX + 1] = "", path[PATH_MAX];
	struct site_known *known;
	size_t n = list_versions(site, &known);

	get_current(site, current);
	for (size_t i = KEEP; i < n; i++) {
		if (strcmp(known[i].name, current) == 0)
			continue;
		make_path(path, site, "versions/%s", known[i].name);
		siteversion_remove(path);
	}
	free(known);
}

/* The exit status after siteversion_read() has failed. */
static int status_of_read(void)
{
	return errno == EINVAL || errno == ENOENT ? EXIT_FAILURE : EXIT_LATER;
}

/* True: the version NAME is installed already, as VERSION. A version never changes. RET_STATUS: of the failure, or 0. */
static bool is_installed(const char *path, const char *name, const struct site_version *version,
			 int *ret_status)
{
	bool is_there = access(path, F_OK) == 0;
	struct site_version *installed = is_there ? siteversion_read(path) : NULL;
	bool same = installed && siteversion_equal(installed, version);

	*ret_status = EXIT_SUCCESS;
	if (is_there && !installed)
		*ret_status = status_of_read();
	else if (is_there && !same)
		*ret_status = EXIT_FAILURE;
	if (*ret_status == EXIT_FAILURE)
		complain(
			"version %s is installed already, with other contents; a version cannot be "
			"changed, so give the new one another name",
			name);
	siteversion_free(installed);
	return same;
}

/* RESULT is that of the check of version NAME. Returns the exit status. */
static int tell_check(const char *name, enum sitecheck result)
{
	if (result == SITECHECK_VALID)
		return EXIT_SUCCESS;
	complain("version %s is %s, nothing has changed", name,
		 result == SITECHECK_REFUSED ? "refused" : "not checked");
	return result == SITECHECK_REFUSED ? EXIT_FAILURE : EXIT_LATER;
}

/* Writes the version NAME to its directory PATH, if it passes its check. Returns the exit status. */
static int add_version(const struct site *site, const char *name,
		       const struct site_version *version, const char *path)
{
	char new[PATH_MAX];
	int status;

	make_path(new, site, ".version.new");
	if (!siteversion_remove(new) || !siteversion_write(version, new))
		return EXIT_LATER;
	status = tell_check(name, sitecheck_run(new, version));
	if (status == EXIT_SUCCESS) {
		if (rename(new, path) == 0)
			return EXIT_SUCCESS;
		complain("cannot install %s: %m", path);
		status = EXIT_LATER;
	}
	siteversion_remove(new);
	return status;
}

static int install_version(const struct site *site, const char *name,
			   const struct site_version *version)
{
	char path[PATH_MAX];
	bool is_new;
	int status;

	make_path(path, site, "versions/%s", name);
	is_new = !is_installed(path, name, version, &status);
	if (status != EXIT_SUCCESS)
		return status;
	if (!is_new)
		status = tell_check(name, sitecheck_run(path, version));
	else if (site->dry_run)
		status = tell_check(name, sitecheck_run_copy(version, name));
	else
		status = add_version(site, name, version, path);
	return status == EXIT_SUCCESS ? put_in_force(site, name, is_new) : status;
}

static int install(const struct site *site, const char *dir)
{
	char name[SITE_NAME_MAX + 1];
	struct site_version *version;
	int status;

	if (!siteversion_get_name(name, dir, site->ctl->given[OPTION_NAME]))
		return EXIT_USAGE;
	if (site->ctl->given[OPTION_UNLESS_HELD] && siteheld_refuses(site->dir))
		return EXIT_LATER;
	version = siteversion_read(dir);
	status = version ? install_version(site, name, version) : status_of_read();
	siteversion_free(version);
	if (status == EXIT_SUCCESS && !site->dry_run)
		forget_old(site);
	return status;
}

static int use(const struct site *site, const char *name)
{
	struct site_version *version;
	char path[PATH_MAX];
	int status;

	if (!site_is_name(name)) {
		complain("invalid name of a version \"%s\"", name);
		return EXIT_USAGE;
	}
	make_path(path, site, "versions/%s", name);
	version = siteversion_read(path);
	status = version ? tell_check(name, sitecheck_run(path, version)) : status_of_read();
	if (status == EXIT_SUCCESS)
		status = put_in_force(site, name, /* is_new= */ false);
	siteversion_free(version);
	return status;
}

static int print_status(const struct site *site)
{
	char current[SITE_NAME_MAX + 1] = "";
	struct jsonout json = { .file = stdout };
	struct site_known *known;
	size_t n = list_versions(site, &known);
	bool has = get_current(site, current);

	if (site->ctl->json) {
		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, "version", has ? current : NULL);
		jsonout_open(&json, "installed", '[');
		for (size_t i = 0; i < n; i++)
			jsonout_string(&json, NULL, known[i].name);
		jsonout_close(&json, ']');
		siteheld_print_json(site->dir, &json);
		jsonout_close(&json, '}');
		putchar('\n');
	} else {
		printf("in force: %s\n", has ? current : "no version");
		siteheld_print(site->dir);
		for (size_t i = 0; i < n; i++)
			printf("%s %s\n", i == 0 ? "installed:" : "          ", known[i].name);
	}
	free(known);
	return EXIT_SUCCESS;
}

/* Makes the directory PATH and those above it, which a fresh host does not have. */
static bool make_directories(const char *path)
{
	char part[PATH_MAX];

	text_copy(part, sizeof(part), path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return false;
		*slash = '/';
	}
	return mkdir(part, 0755) == 0 || errno == EEXIST;
}

/* Whoever can write there chooses the rules of this host, and what is removed as an old version. */
static bool is_own(const char *path, int flags)
{
	struct stat st;

	if (fstatat(AT_FDCWD, path, &st, flags) == 0 && S_ISDIR(st.st_mode) &&
	    (st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return true;
	complain("%s must be a directory of this user, which nobody else can write", path);
	return false;
}

/* Only one process changes the versions at a time. */
static bool lock(struct site *site)
{
	char path[PATH_MAX];

	make_path(path, site, "versions");
	if (!make_directories(path)) {
		complain("cannot make %s: %m", path);
		return false;
	}
	if (!is_own(site->dir, 0) || !is_own(path, AT_SYMLINK_NOFOLLOW))
		return false;
	make_path(path, site, ".lock");
	site->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (site->lock >= 0 && flock(site->lock, LOCK_EX | LOCK_NB) == 0)
		return true;
	complain("cannot lock %s: %s", path,
		 errno == EWOULDBLOCK ? "another process changes the versions" : strerror(errno));
	if (site->lock >= 0)
		close(site->lock);
	return false;
}

/* The actions that change something, with the lock. */
static int change(const struct site *site, const char *action, const char *what)
{
	if (strcmp(action, "install") == 0)
		return install(site, what);
	if (strcmp(action, "use") == 0)
		return use(site, what);
	return strcmp(action, "hold") == 0 ? siteheld_hold(site->dir, what ?: "") :
					     siteheld_release(site->dir);
}

int verb_site(struct ctl *ctl)
{
	struct site site = { .ctl = ctl,
			     .dir = ctl->given[OPTION_DIRECTORY] ?: DIRECTORY,
			     .dry_run = ctl->given[OPTION_DRY_RUN] };
	const char *action = ctl->arguments[0], *what = ctl->arguments[1];
	bool installs = strcmp(action, "install") == 0 || strcmp(action, "use") == 0;
	int status;

	if (strcmp(action, "status") == 0 && !what)
		return print_status(&site);
	if (installs ? !what :
		       strcmp(action, "hold") != 0 && (strcmp(action, "release") != 0 || what)) {
		complain(
			"site takes \"install DIR\", \"use VERSION\", \"hold [REASON]\", \"release\" "
			"or \"status\"");
		return ctl_see_help(ctl->verb);
	}
	if (strlen(site.dir) > PATH_MAX - 512) {
		complain("the path of the directory is too long");
		return EXIT_USAGE;
	}
	if (site.dry_run && !installs) {
		complain("--dry-run is for \"site install\" and \"site use\"");
		return EXIT_USAGE;
	}
	umask(022);
	if (!site.dry_run && !lock(&site))
		return EXIT_LATER;
	status = change(&site, action, what);
	if (!site.dry_run)
		close(site.lock);
	return status;
}

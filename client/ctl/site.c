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
#include "newfile.h"
#include "proto/text.h"
#include "site.h"
#include "sitecheck.h"
#include "siteforce.h"
#include "sitehold.h"
#include "sitelog.h"
#include "siteversion.h"
#include "table.h"

/*
 * The policy of a site, for many hosts. Whole versions are installed, and one of them is in force:
 *
 *   DIRECTORY/versions/NAME/         *.rules, *.tests; root's
 *   DIRECTORY/versions/.NAME.sha256  the digest of what was installed as NAME, to see whether it was edited since
 *   DIRECTORY/current, .unconfirmed  see siteforce.h
 *   DIRECTORY/hold, state, log       see sitehold.h, sitestate.h, sitelog.h
 *
 * A version is checked before it is put in force, together with the rules of this host and with its own tests. If the
 * daemon refuses it nevertheless, the version before it is in force again.
 *
 * Configuration management and rdmabroker-pull run `site install` again and again. Each run makes of what it finds what should
 * be: the version that it was given, with exactly its contents, in force and confirmed by the daemon. If that is so already,
 * nothing is written or reloaded. What was refused is not tried again before it, or this host, has changed.
 */

#define DIRECTORY "/var/lib/rdmabroker/site"
#define KEEP 8 /* versions that are kept, with the one in force */
/*
 * So long the result of a check holds if neither the version nor this host has changed: the users of a directory service can
 * change without a trace on this host.
 */
#define CHECK_SECONDS_MAX 3600

static const char *name_given, *directory, *dry_run, *unless_held, *again, *by;

const struct verb_option site_options[] = {
	{ "name", "NAME", "name of the version (default: that of its directory)",
	  .given = &name_given },
	{ "directory", "DIR", "where versions are installed (default " DIRECTORY ")",
	  .given = &directory },
	{ "dry-run", NULL, "check the version, change nothing, and print what would change",
	  .given = &dry_run },
	{ "unless-held", NULL, "install nothing while \"site hold\" is in effect",
	  .given = &unless_held },
	{ "again", NULL, "try a version that was refused, though nothing has changed",
	  .given = &again },
	{ "by", "TEXT", "who makes the change, for \"site log\" (default: you)", .given = &by },
	{ NULL },
};

const char *const site_actions[] = { "install", "use", "hold", "release", "status", "log", NULL };

const char *site_path(const struct site *site, const char *fmt, ...)
{
	static char paths[8][PATH_MAX];
	static unsigned i;
	char name[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	i = (i + 1) % 8;
	snprintf(paths[i], sizeof(paths[i]), "%s/%s", site->dir, name);
	return paths[i];
}

int site_fail(struct site *site, const char *code, int status)
{
	site->code = code;
	return status;
}

/* Removes what processes that were killed have left: nobody else writes here, because this one has the lock. */
static void remove_leftovers(const struct site *site)
{
	const struct dirent *entry;
	DIR *d = opendir(site->dir);

	while (d && (entry = readdir(d))) {
		size_t n = strlen(entry->d_name);

		if (entry->d_name[0] == '.' && n >= 5 && strcmp(entry->d_name + n - 4, ".new") == 0)
			siteversion_remove(site_path(site, "%s", entry->d_name));
	}
	if (d)
		closedir(d);
}

/* Removes the oldest versions, but not the one in force, or on its way there. */
static void forget_old(const struct site *site)
{
	char kept[SITE_NAME_MAX + 1] = "";
	struct site_known *known;
	size_t n = site_list(site_path(site, SITE_VERSIONS), &known);

	remove_leftovers(site);
	siteforce_get(site, kept);
	for (size_t i = KEEP; i < n; i++) {
		if (strcmp(known[i].name, kept) == 0 || strcmp(known[i].name, site->wanted) == 0)
			continue;
		siteversion_remove(site_path(site, SITE_VERSIONS "/%s", known[i].name));
		unlink(site_path(site, SITE_VERSIONS "/.%s.sha256", known[i].name));
	}
	free(known);
}

/* Reads the version in DIR, which is to be in force as WANTED. NULL: an error was printed, and *RET_STATUS is set. */
static struct site_version *read_wanted(struct site *site, const char *dir, int *ret_status)
{
	struct site_version *version = siteversion_read(dir);
	bool is_wrong = !version && (errno == EINVAL || errno == ENOENT);

	sitecheck_digest_host(site->host);
	if (version && siteversion_digest(version, site->digest))
		return version;
	*ret_status = is_wrong ? site_fail(site, CODE_CONTENT, EXIT_FAILURE) :
				 site_fail(site, CODE_HOST, EXIT_LATER);
	return siteversion_free(version);
}

/* Whether the last check was of the same contents, on a host that has not changed since. */
static bool is_checked(const struct site *site)
{
	const struct sitestate *was = &site->was;

	return *site->host && strcmp(was->host, site->host) == 0 &&
	       strcmp(was->wanted_sha256, site->digest) == 0 &&
	       time(NULL) - was->checked < CHECK_SECONDS_MAX;
}

/* The version is the one in force, so it has passed its check. */
static bool was_valid(const struct site *site)
{
	return strcmp(site->was.code, CODE_OK) == 0 &&
	       strcmp(site->was.sha256, site->digest) == 0 && is_checked(site);
}

static bool was_refused(const struct site *site)
{
	const struct sitestate *was = &site->was;

	return strcmp(was->state, SITE_REFUSED) == 0 && strcmp(was->wanted, site->wanted) == 0 &&
	       is_checked(site) && !again;
}

enum found {
	FOUND_NONE,
	FOUND_SAME,
	FOUND_EDITED, /* what was installed is the same, but its files were changed since */
	FOUND_OTHER,
	FOUND_UNREADABLE, /* for a reason that can pass; an error was printed */
};

/* What was installed as NAME, as a digest. */
static bool has_digest(const struct site *site, const char *name, const char *digest)
{
	char file[SITE_NAME_MAX + 16], text[NEWFILE_TEXT_MAX];

	snprintf(file, sizeof(file), ".%s.sha256", name);
	return newfile_read(site_path(site, SITE_VERSIONS), file, text) &&
	       strcmp(text, digest) == 0;
}

/* How what is installed as WANTED compares with VERSION. */
static enum found find_installed(const struct site *site, const struct site_version *version)
{
	const char *path = site_path(site, SITE_VERSIONS "/%s", site->wanted);
	struct site_version *installed;
	bool same, safe;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return FOUND_NONE;
	installed = siteversion_read(path);
	if (!installed && errno != EINVAL && errno != ENOENT)
		return FOUND_UNREADABLE;
	same = installed && siteversion_equal(installed, version);
	safe = installed && siteversion_is_safe(installed);
	siteversion_free(installed);
	if (same && safe)
		return FOUND_SAME;
	return same || has_digest(site, site->wanted, site->digest) ? FOUND_EDITED : FOUND_OTHER;
}

/* RESULT is that of a check of WANTED. Returns the exit status. */
static int tell_check(struct site *site, enum sitecheck result)
{
	site->was_checked = true;
	if (result == SITECHECK_VALID)
		return EXIT_SUCCESS;
	complain("version %s is %s, nothing has changed", site->wanted,
		 result == SITECHECK_REFUSED ? "refused" : "not checked");
	return result == SITECHECK_REFUSED ? site_fail(site, CODE_RULES, EXIT_FAILURE) :
					     site_fail(site, CODE_HOST, EXIT_LATER);
}

/* Checks VERSION, which is installed as WANTED, if that is not known to be valid. Returns the exit status. */
static int check_installed(struct site *site, const struct site_version *version)
{
	const char *path = site_path(site, SITE_VERSIONS "/%s", site->wanted);

	return was_valid(site) ? EXIT_SUCCESS : tell_check(site, sitecheck_run(path, version));
}

/* Puts the directory NEW at PATH. What is there already is exchanged, so that there is no moment without the version. */
static bool put_directory(const char *new, const char *path, bool exists)
{
	if (!exists)
		return rename(new, path) == 0;
	if (renameat2(AT_FDCWD, new, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
		return true;
	/* Some file systems cannot exchange. */
	return errno == EINVAL && siteversion_remove(path) && rename(new, path) == 0;
}

/* Writes VERSION to the directory of WANTED, if it passes its check. EXISTS: it has other files. Returns the exit status. */
static int add_version(struct site *site, const struct site_version *version, bool exists)
{
	const char *new = site_path(site, ".version.new"), *dir = site_path(site, SITE_VERSIONS),
		   *path = site_path(site, SITE_VERSIONS "/%s", site->wanted);
	char file[SITE_NAME_MAX + 16];
	int status, r;

	if (!siteversion_remove(new) || !siteversion_write(version, new))
		return site_fail(site, CODE_HOST, EXIT_LATER);
	status = was_valid(site) ? EXIT_SUCCESS : tell_check(site, sitecheck_run(new, version));
	if (status == EXIT_SUCCESS) {
		snprintf(file, sizeof(file), ".%s.sha256", site->wanted);
		r = newfile_print(dir, file, "%s", site->digest);
		if (r < 0 || !put_directory(new, path, exists)) {
			complain("cannot install %s: %s", path, strerror(r < 0 ? -r : errno));
			status = site_fail(site, CODE_HOST, EXIT_LATER);
		}
	}
	siteversion_remove(new);
	return status;
}

/* Makes the files of WANTED those of VERSION, which passes its check. Returns the exit status. */
static int make_files(struct site *site, const struct site_version *version, bool *ret_is_new)
{
	enum found found = find_installed(site, version);

	*ret_is_new = found != FOUND_SAME;
	if (found == FOUND_UNREADABLE)
		return site_fail(site, CODE_HOST, EXIT_LATER);
	if (found == FOUND_OTHER) {
		complain(
			"version %s is installed already, with other contents; a version cannot be changed, so "
			"give the new one another name",
			site->wanted);
		site->was_checked = true;
		return site_fail(site, CODE_NAME, EXIT_FAILURE);
	}
	if (found == FOUND_EDITED) {
		complain(
			"the files of version %s were changed on this host since it was installed; %s",
			site->wanted,
			site->dry_run ? "they would be put back" : "they are put back");
		site->has_drifted = true;
	}
	if (found == FOUND_SAME)
		return check_installed(site, version);
	if (site->dry_run)
		return tell_check(site, sitecheck_run_copy(version, site->wanted));
	/* The daemon may have read the files that are replaced. */
	if (found == FOUND_EDITED && !siteforce_mark_unconfirmed(site))
		return site_fail(site, CODE_HOST, EXIT_LATER);
	return add_version(site, version, found == FOUND_EDITED);
}

static int install_version(struct site *site, const struct site_version *version)
{
	bool is_new;
	int status;

	if (was_refused(site)) {
		complain(
			"version %s was refused, and neither it nor this host has changed since; --again tries it: %s",
			site->wanted, site->was.error);
		site->keeps_state = true;
		return site_fail(site, site->was.code, EXIT_FAILURE);
	}
	status = make_files(site, version, &is_new);
	return status == EXIT_SUCCESS ? siteforce_put(site, is_new) : status;
}

static int install(struct site *site, const char *dir)
{
	struct site_version *version;
	int status;

	siteversion_get_name(site->wanted, dir, name_given);
	if (unless_held && sitehold_refuses(site->dir))
		return site_fail(site, CODE_HELD, EXIT_LATER);
	version = read_wanted(site, dir, &status);
	if (version)
		status = install_version(site, version);
	siteversion_free(version);
	if (status == EXIT_SUCCESS && !site->dry_run)
		forget_old(site);
	return status;
}

static int use(struct site *site, const char *name)
{
	struct site_version *version;
	int status;

	if (!site_is_name(name))
		die(EXIT_USAGE, "invalid name of a version \"%s\"", name);
	strcpy(site->wanted, name);
	version = read_wanted(site, site_path(site, SITE_VERSIONS "/%s", name), &status);
	if (version && !has_digest(site, name, site->digest)) {
		complain(
			"the files of version %s were changed on this host since it was installed; install it again",
			name);
		status = site_fail(site, CODE_NAME, EXIT_FAILURE);
	} else if (version) {
		status = check_installed(site, version);
		if (status == EXIT_SUCCESS)
			status = siteforce_put(site, /* is_new= */ false);
	}
	siteversion_free(version);
	/* What an admin has tried by hand says nothing about what is wanted on this host. */
	site->keeps_state = status == EXIT_FAILURE && !siteforce_is_unconfirmed(site);
	return status;
}

/* The digest of what is installed as NAME now. Empty: it cannot be read; an error was printed. */
static void digest_installed(const struct site *site, const char *name, char ret[SHA256_TEXT])
{
	struct site_version *version = siteversion_read(site_path(site, SITE_VERSIONS "/%s", name));

	if (!version || !siteversion_digest(version, ret))
		ret[0] = 0;
	siteversion_free(version);
}

/* The state and its code after an action that ended with STATUS. */
static void judge(const struct site *site, int status, struct sitestate *now)
{
	const struct sitestate *was = &site->was;
	bool was_drift = strcmp(was->state, SITE_DRIFT) == 0;
	const char *state, *code = site->code ?: CODE_OK, *error = site->code ? first_error() : "";
	struct sitehold hold;

	if ((!site->code || strcmp(site->code, CODE_HELD) == 0) &&
	    sitehold_read(site->dir, &hold)) {
		state = SITE_HELD;
		code = CODE_HELD;
		error = hold.why;
	} else if (siteforce_is_unconfirmed(site) && status != EXIT_FAILURE) {
		state = SITE_UNCONFIRMED;
		code = CODE_DAEMON;
		error = site->code ? error : "the daemon does not run";
	} else if (status != EXIT_SUCCESS) {
		state = status == EXIT_FAILURE ? SITE_REFUSED : SITE_FAILED;
	} else if (site->has_drifted || (was_drift && !site->result.changed && *site->wanted)) {
		state = SITE_DRIFT;
		error = site->has_drifted ? first_error() : was->error;
	} else {
		state = *now->version ? SITE_IN_FORCE : "";
	}
	text_copy(now->state, sizeof(now->state), state);
	text_copy(now->code, sizeof(now->code), code);
	text_copy(now->error, sizeof(now->error), error);
}

/* Writes what an action has changed, for `site status` and the exporter. 0 or a negative errno. */
static int record(struct site *site, int status)
{
	struct sitestate now = site->was;
	struct sitehold hold;

	if (!siteforce_get(site, now.version))
		now.version[0] = 0;
	if (*site->wanted) {
		strcpy(now.wanted, site->wanted);
		strcpy(now.wanted_sha256, site->digest);
	} else if (strcmp(now.state, SITE_HELD) == 0) {
		/* It is released: what is wanted now, the next run says. */
		strcpy(now.wanted, now.version);
		now.wanted_sha256[0] = 0;
	}
	if (strcmp(now.version, now.wanted) == 0 && *site->digest && status == EXIT_SUCCESS)
		strcpy(now.sha256, site->digest);
	else if (*now.version)
		digest_installed(site, now.version, now.sha256);
	else
		now.sha256[0] = 0;
	if (site->was_checked) {
		strcpy(now.host, site->host);
		now.checked = time(NULL);
	}
	judge(site, status, &now);
	if (!sitestate_is_same(&now, &site->was))
		now.since = strcmp(now.state, SITE_HELD) == 0 && sitehold_read(site->dir, &hold) ?
				    hold.since :
				    time(NULL);
	site->was = now;
	return sitestate_write(site->dir, &now);
}

static void print_result(const struct site *site, int status)
{
	static const struct column columns[] = {
		{ NULL, "version", COLUMN_OF(struct site_result, version) },
		{ NULL, "previous", COLUMN_OF(struct site_result, previous) },
		{ NULL, "changed", COLUMN_OF(struct site_result, changed) },
		{ NULL, "reloaded", COLUMN_OF(struct site_result, reloaded) },
		{ NULL, "state", COLUMN_OF(struct site_result, state) },
		{ NULL, "code", COLUMN_OF(struct site_result, code) },
		{ NULL, "error", COLUMN_OF(struct site_result, error) },
		{ NULL },
	};
	const struct site_result *result = &site->result;
	const char *name = result->version, *was = result->previous;
	bool same = was && strcmp(was, name) == 0;

	if (site->ctl->json) {
		print_json(columns, result);
		return;
	}
	if (status != EXIT_SUCCESS)
		return;
	if (!result->changed && siteforce_is_unconfirmed(site))
		printf("version %s is in force when the daemon starts, nothing has changed\n",
		       name);
	else if (!result->changed)
		printf("version %s is in force already, nothing has changed\n", name);
	else if (site->dry_run && same)
		printf("version %s is in force, and would be %s\n", name,
		       site->has_drifted ? "put back" : "reloaded");
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

/* Whether the files of NAME are not those that were installed. */
static bool is_edited(const struct site *site, const char *name)
{
	char digest[SHA256_TEXT];

	digest_installed(site, name, digest);
	return !has_digest(site, name, digest);
}

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static void print_status_json(const struct site *site, const char *version, bool edited,
			      const struct site_known *known, size_t n)
{
	const struct sitestate *state = &site->was;
	struct jsonout json;

	json_begin(&json);
	jsonout_string(&json, "version", or_null(version));
	jsonout_string(&json, "state", or_null(state->state));
	jsonout_string(&json, "sha256", or_null(state->sha256));
	jsonout_string(&json, "wanted", or_null(state->wanted));
	jsonout_string(&json, "code", or_null(state->code));
	jsonout_string(&json, "error", or_null(state->error));
	jsonout_signed(&json, "since", state->since);
	jsonout_bool(&json, "edited", edited);
	jsonout_open(&json, "installed", '[');
	for (size_t i = 0; i < n; i++)
		jsonout_string(&json, NULL, known[i].name);
	jsonout_close(&json, ']');
	sitehold_print_json(site->dir, &json);
	json_end(&json);
}

static void print_state(const struct sitestate *state)
{
	char text[TIME_TEXT_MAX];

	printf("state: %s since %s", state->state, time_to_text(text, state->since));
	if (strcmp(state->wanted, state->version) != 0)
		printf(", wanted is %s", state->wanted);
	printf("%s%s\n", *state->error ? ": " : "", escaped(state->error));
}

static int print_status(struct site *site)
{
	char version[SITE_NAME_MAX + 1] = "";
	struct site_known *known;
	size_t n = site_list(site_path(site, SITE_VERSIONS), &known);
	bool edited = siteforce_get(site, version) && is_edited(site, version);

	sitestate_read(site->dir, &site->was);
	if (site->ctl->json) {
		print_status_json(site, version, edited, known, n);
	} else {
		printf("in force: %s%s\n", *version ? version : "no version",
		       edited ? ", but its files were changed on this host" : "");
		if (*site->was.state)
			print_state(&site->was);
		sitehold_print(site->dir);
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
static void refuse_others(const char *path, int flags)
{
	struct stat st;

	if (fstatat(AT_FDCWD, path, &st, flags) < 0 || !S_ISDIR(st.st_mode) ||
	    (st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		die(EXIT_LATER, "%s must be a directory of this user, which nobody else can write",
		    path);
}

/* Only one process changes the versions at a time. The lock ends with the process. */
static void lock(const struct site *site)
{
	const char *versions = site_path(site, SITE_VERSIONS), *path = site_path(site, ".lock");
	int fd;

	if (!make_directories(versions))
		die(EXIT_LATER, "cannot make %s: %m", versions);
	refuse_others(site->dir, 0);
	refuse_others(versions, AT_SYMLINK_NOFOLLOW);
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		die(EXIT_LATER, "cannot lock %s: %s", path,
		    errno == EWOULDBLOCK ? "another process changes the versions" :
					   strerror(errno));
}

/* What could not be recorded is recorded by the next run. Returns the exit status. */
static int finish(struct site *site, int status)
{
	int r = site->keeps_state ? 0 : record(site, status);

	if (r == 0)
		return status;
	complain("cannot write the state to %s: %s", site->dir, strerror(-r));
	return site_fail(site, CODE_HOST, EXIT_LATER);
}

/* `install` and `use`. */
static int change(struct site *site, bool installs, const char *what)
{
	struct site_result *result = &site->result;
	int status;

	sitestate_read(site->dir, &site->was);
	result->version = site->wanted;
	site->action = installs ? "installed" : "used";
	site->by = by;
	status = installs ? install(site, what) : use(site, what);
	if (status != EXIT_SUCCESS)
		result->changed = result->reloaded = false;
	if (!site->dry_run) {
		status = finish(site, status);
		result->state = or_null(site->was.state);
	}
	result->code = site->code ?: CODE_OK;
	result->error = site->code ? first_error() : NULL;
	print_result(site, status);
	if (!installs && status == EXIT_SUCCESS && !site->dry_run && !site->ctl->json)
		puts("what brings versions to this host puts its own in force again in its next run, unless \"site hold\"");
	return status;
}

/* `hold` and `release`. */
static int hold(struct site *site, bool holds, const char *why)
{
	char version[SITE_NAME_MAX + 1];
	bool has;

	if (holds)
		sitehold_hold(site->dir, why ?: "");
	else
		sitehold_release(site->dir);
	has = siteforce_get(site, version);
	if (sitelog_add(site->dir, holds ? "held" : "released", has ? version : NULL, NULL, NULL) <
	    0)
		complain("cannot write %s/" SITELOG_FILE ": %m", site->dir);
	sitestate_read(site->dir, &site->was);
	return finish(site, EXIT_SUCCESS);
}

int verb_site(struct ctl *ctl)
{
	struct site site = { .ctl = ctl, .dir = directory ?: DIRECTORY, .dry_run = dry_run };
	const char *action = ctl->arguments[0], *what = ctl->arguments[1];
	bool installs = strcmp(action, "install") == 0, uses = strcmp(action, "use") == 0;
	bool holds = strcmp(action, "hold") == 0;

	if (strlen(site.dir) > PATH_MAX - 512)
		die(EXIT_USAGE, "the path of the directory is too long");
	if (strcmp(action, "status") == 0 && !what)
		return print_status(&site);
	if (strcmp(action, "log") == 0 && !what) {
		sitelog_print(site.dir, ctl->json);
		return EXIT_SUCCESS;
	}
	if (installs || uses ? !what : !holds && (strcmp(action, "release") != 0 || what))
		ctl_misused(
			ctl,
			"site takes \"install DIR\", \"use VERSION\", \"hold [REASON]\", \"release\", "
			"\"status\" or \"log\"");
	if (dry_run && !installs && !uses)
		die(EXIT_USAGE, "--dry-run is for \"site install\" and \"site use\"");
	umask(022);
	if (!dry_run)
		lock(&site);
	return installs || uses ? change(&site, installs, what) : hold(&site, holds, what);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/author.h"
#include "ctl/output.h"
#include "ctl/sitecheck.h"
#include "fleet/sha256.h"
#include "names.h"
#include "proto/jsonout.h"
#include "proto/text.h"
#include "versions.h"

/* The versions of a policy: from a directory to etcd and back. */

#define MANIFEST_MAX (128 * 1024) /* bytes; agents take no larger one */

static bool is_name(const char *name)
{
	if (!site_is_name(name))
		complain(
			"invalid name of a version \"%s\": it must have at most %d letters, digits, "
			"'.', '_', '-' and '+', and not begin with '.' or '-'",
			name, SITE_NAME_MAX);
	return site_is_name(name);
}

static void make_file_key(const struct fleetctl *ctl, char ret[FLEETCTL_KEY_MAX], const char *name,
			  const char *file)
{
	snprintf(ret, FLEETCTL_KEY_MAX, "%sversions/%s/%s", ctl->settings.prefix, name, file);
}

static bool download_file(struct fleetctl *ctl, const char *name, const struct manifest_file *from,
			  struct site_version *version)
{
	struct site_file *file = &version->files[version->n];
	char key[FLEETCTL_KEY_MAX], reason[VERSION_REASON_MAX];
	struct etcd_range *range;
	bool good;
	int r;

	make_file_key(ctl, key, name, from->name);
	r = fleetctl_get(ctl, key, &range);
	if (r <= 0) {
		if (r == 0)
			complain("etcd has no %s", key);
		return false;
	}
	good = manifest_verify(from, range->entries[0].value, range->entries[0].len, reason);
	if (good) {
		strcpy(file->name, from->name);
		file->text = range->entries[0].value;
		file->len = range->entries[0].len;
		range->entries[0].value = NULL;
		version->n++;
	} else {
		complain("version %s: %s", name, reason);
	}
	etcd_range_free(range);
	return good;
}

static bool download(struct fleetctl *ctl, const char *name, struct site_version *version)
{
	char key[FLEETCTL_KEY_MAX], reason[VERSION_REASON_MAX];
	struct manifest *manifest = NULL;
	struct etcd_range *range;
	bool good;
	int r;

	fleetctl_key(ctl, key, "versions", name);
	r = fleetctl_get(ctl, key, &range);
	if (r <= 0) {
		if (r == 0)
			complain("etcd has no version %s", name);
		return false;
	}
	r = manifest_parse(range->entries[0].value, range->entries[0].len, &manifest, reason);
	etcd_range_free(range);
	if (r < 0)
		complain("version %s: %s", name, r == -EBADMSG ? reason : "out of memory");
	good = r == 0;
	for (size_t i = 0; good && i < manifest->n; i++)
		good = download_file(ctl, name, &manifest->files[i], version);
	free(manifest);
	return good;
}

struct site_version *version_load(struct fleetctl *ctl, const char *what)
{
	struct site_version *version;

	if (strchr(what, '/'))
		return siteversion_read(what);
	version = siteversion_new();
	if (version && is_name(what) && (ctl->etcd || fleetctl_connect(ctl)) &&
	    download(ctl, what, version))
		return version;
	return siteversion_free(version);
}

/* An empty policy and an empty configuration in WORK, in names that no version can have. */
static bool make_empty(const char *work, char dir[PATH_MAX], char config[PATH_MAX])
{
	int fd;

	snprintf(dir, PATH_MAX, "%.*s/.policy", PATH_MAX - 16, work);
	snprintf(config, PATH_MAX, "%.*s/.conf", PATH_MAX - 16, work);
	fd = mkdir(dir, 0700) < 0 ? -1 :
				    open(config, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		complain("cannot write to %s: %m", work);
		return false;
	}
	close(fd);
	return true;
}

/* Checks VERSION, which is in DIR, as the options say. */
static bool check_as_told(const struct fleetctl *ctl, const char *work, const char *dir,
			  const struct site_version *version)
{
	char empty[PATH_MAX] = "", config[PATH_MAX] = "", policy[PATH_MAX];
	struct sitecheck_how how = { .names_dir = true,
				     .is_foreign = ctl->only_syntax || ctl->policy_dir,
				     .skips_tests = ctl->only_syntax };
	bool good = true;

	if (ctl->only_syntax) {
		good = make_empty(work, empty, config);
		how.policy_dir = empty;
		how.config = config;
	} else if (ctl->policy_dir) {
		good = realpath(ctl->policy_dir, policy);
		if (!good)
			complain("cannot read the rules in %s: %m", ctl->policy_dir);
		how.policy_dir = policy;
	}
	good = good && sitecheck_run(dir, version, &how) == SITECHECK_VALID;
	if (*empty) {
		rmdir(empty);
		unlink(config);
	}
	return good;
}

bool version_check(const struct fleetctl *ctl, const struct site_version *version, const char *name)
{
	char work[PATH_MAX], dir[PATH_MAX + SITE_NAME_MAX];
	bool good;

	if (!siteversion_make_work(work))
		return false;
	snprintf(dir, sizeof(dir), "%s/%s", work, name);
	good = siteversion_write(version, dir);
	if (good) {
		good = check_as_told(ctl, work, dir, version);
		siteversion_remove(dir);
	}
	rmdir(work);
	return good;
}

/* The name under which the files of WHAT, a directory or a version, are shown. */
static void get_shown_name(char ret[SITE_NAME_MAX + 1], const char *what)
{
	char path[PATH_MAX];

	/* "." and "..", too. */
	if (!strchr(what, '/') || !realpath(what, path) ||
	    strlen(strrchr(path, '/') + 1) > SITE_NAME_MAX)
		text_copy(path, sizeof(path), what);
	text_copy(ret, SITE_NAME_MAX + 1, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	if (!site_is_name(ret))
		strcpy(ret, "version");
}

static void tell_check(const struct fleetctl *ctl, const char *what, bool is_valid)
{
	struct jsonout json = { .file = stdout };

	if (ctl->json) {
		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, "what", what);
		jsonout_bool(&json, "valid", is_valid);
		jsonout_close(&json, '}');
		putchar('\n');
	} else if (is_valid) {
		printf("%s is valid%s\n", what,
		       ctl->only_syntax ? " in its syntax" :
		       ctl->policy_dir  ? " with these rules" :
					  " on this host");
	}
	if (!is_valid)
		complain("%s is not valid", what);
}

int action_check(struct fleetctl *ctl, char **arguments)
{
	struct site_version *version = version_load(ctl, arguments[0]);
	char name[SITE_NAME_MAX + 1];
	bool is_valid;

	get_shown_name(name, arguments[0]);
	is_valid = version && version_check(ctl, version, name);
	siteversion_free(version);
	tell_check(ctl, arguments[0], is_valid);
	return is_valid ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* push */

static json_t *new_manifest(const struct site_version *version)
{
	char author[AUTHOR_MAX];
	json_t *files = json_array();

	for (size_t i = 0; i < version->n; i++) {
		const struct site_file *file = &version->files[i];
		char hex[2 * SHA256_SIZE + 1];
		uint8_t sum[SHA256_SIZE];

		if (!sha256(file->text, file->len, sum)) {
			json_decref(files);
			return NULL;
		}
		for (size_t j = 0; j < SHA256_SIZE; j++)
			sprintf(hex + 2 * j, "%02x", sum[j]);
		json_array_append_new(files,
				      json_pack("{s:s, s:I, s:s}", "name", file->name, "size",
						(json_int_t)file->len, "sha256", hex));
	}
	author_text(author);
	return json_pack("{s:o, s:I, s:s}", "files", files, "time", (json_int_t)time(NULL), "by",
			 author);
}

/* Puts a key that must not exist, or have the same value. */
static bool put_once(struct fleetctl *ctl, const char *key, const char *value, size_t len,
		     bool *ret_differs)
{
	const struct etcd_change change = {
		.kind = ETCD_PUT, .key = key, .value = value, .len = len
	};
	int r = fleetctl_change(ctl, &change, 1);

	*ret_differs = r == ETCD_CHANGED;
	if (r != 0 && r != ETCD_CHANGED)
		fleetctl_complain(ctl);
	return r == 0;
}

/* The key of a file has other contents. Only what is no version yet may be removed without a thought. */
static void tell_difference(struct fleetctl *ctl, const char *key, const char *name)
{
	char manifest[FLEETCTL_KEY_MAX];
	struct etcd_range *range;
	int r;

	fleetctl_key(ctl, manifest, "versions", name);
	r = fleetctl_get(ctl, manifest, &range);
	if (r > 0)
		etcd_range_free(range);
	if (r == 0)
		complain("etcd has %s already, with other contents, of a push that did not end; "
			 "\"rdmabrokerctl fleet remove %s\" removes it",
			 key, name);
	else
		complain(
			"etcd has %s already, with other contents; a version cannot be changed, so "
			"give the new one another name",
			key);
}

static bool upload_files(struct fleetctl *ctl, const char *name, const struct site_version *version)
{
	char key[FLEETCTL_KEY_MAX];
	bool differs;

	for (size_t i = 0; i < version->n; i++) {
		const struct site_file *file = &version->files[i];

		make_file_key(ctl, key, name, file->name);
		if (put_once(ctl, key, file->text, file->len, &differs))
			continue;
		if (differs)
			tell_difference(ctl, key, name);
		return false;
	}
	return true;
}

/* Whether the version of etcd has the files of VERSION: 1: yes; 0: no; negative: not known, an error was printed. */
static int is_same(struct fleetctl *ctl, const char *key, const struct site_version *version)
{
	char reason[VERSION_REASON_MAX];
	struct manifest *manifest = NULL;
	struct etcd_range *range;
	bool same = false;
	int r = fleetctl_get(ctl, key, &range);

	if (r <= 0)
		return r;
	if (manifest_parse(range->entries[0].value, range->entries[0].len, &manifest, reason) == 0)
		same = manifest->n == version->n;
	for (size_t i = 0; same && i < version->n; i++)
		same = strcmp(manifest->files[i].name, version->files[i].name) == 0 &&
		       manifest_verify(&manifest->files[i], version->files[i].text,
				       version->files[i].len, reason);
	free(manifest);
	etcd_range_free(range);
	return same;
}

/* The manifest is written last, so an upload that stops halfway is no version. */
static bool upload_manifest(struct fleetctl *ctl, const char *key, const char *name,
			    const struct site_version *version)
{
	json_t *manifest = new_manifest(version);
	char *text = manifest ? json_dumps(manifest, JSON_COMPACT) : NULL;
	bool differs = false, good = false;

	json_decref(manifest);
	if (!text)
		complain("out of memory");
	else if (strlen(text) > MANIFEST_MAX)
		complain("the version has too many files");
	else
		good = put_once(ctl, key, text, strlen(text), &differs);
	if (differs)
		complain("etcd has version %s already, with other contents; a version cannot "
			 "be changed, so give the new one another name",
			 name);
	free(text);
	return good;
}

static bool upload(struct fleetctl *ctl, const char *name, const struct site_version *version,
		   bool *ret_was_there)
{
	char key[FLEETCTL_KEY_MAX];
	int r;

	fleetctl_key(ctl, key, "versions", name);
	/* The manifest has who pushed it first, and when, so it is not written again. */
	r = is_same(ctl, key, version);
	*ret_was_there = r > 0;
	return r >= 0 && upload_files(ctl, name, version) &&
	       (*ret_was_there || upload_manifest(ctl, key, name, version));
}

static bool has_warn_rule(const struct site_version *version)
{
	for (size_t i = 0; i < version->n; i++) {
		struct text_line line = { 0 };

		while (text_next_line(version->files[i].text, version->files[i].len, &line)) {
			size_t blanks = 0;

			while (blanks < line.len && strchr(" \t", line.text[blanks]))
				blanks++;
			if (line.len - blanks > strlen("warn ") &&
			    strncmp(line.text + blanks, "warn ", strlen("warn ")) == 0)
				return true;
		}
	}
	return false;
}

/* Whoever does not report how many warn rules there are refuses a version that has one. */
static void tell_who_refuses_warn(struct fleetctl *ctl, const struct site_version *version)
{
	struct fleet fleet = { 0 };
	struct names names = { 0 };

	if (!has_warn_rule(version))
		return;
	if (fleet_read(&fleet, ctl->etcd, ctl->settings.prefix) != 0)
		complain("it is not known which hosts are too old for warn rules: %s",
			 etcd_error(ctl->etcd));
	for (size_t i = 0; i < fleet.n_hosts; i++) {
		const json_t *daemon = json_object_get(fleet.hosts[i].state, "daemon");

		if (json_object_get(daemon, "warn_rules"))
			continue;
		names_add(&names, fleet.hosts[i].name);
	}
	fleet_done(&fleet);
	if (names.n > 0)
		complain(
			"the version has warn rules, which rdmabroker before 0.2.0 refuses; %u host%s "
			"not known to have a later one, and can stay with the version in force: "
			"%s",
			names.n, names.n == 1 ? " is" : "s are", names_text(&names));
}

static void tell_push(const struct fleetctl *ctl, const char *name, bool was_there)
{
	struct jsonout json = { .file = stdout };

	if (ctl->json) {
		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, "version", name);
		jsonout_bool(&json, "was_there", was_there);
		jsonout_close(&json, '}');
		putchar('\n');
		return;
	}
	printf("version %s is in etcd%s; \"rdmabrokerctl fleet use %s\" rolls it out\n", name,
	       was_there ? " already, with the same contents" : "", name);
}

int action_push(struct fleetctl *ctl, char **arguments)
{
	char name[SITE_NAME_MAX + 1];
	const char *dir = arguments[0];
	struct site_version *version;
	int status = EXIT_FAILURE;
	bool was_there = false;

	if (!siteversion_get_name(name, dir, ctl->name))
		return EXIT_USAGE;
	version = siteversion_read(dir);
	if (version && !version_check(ctl, version, name))
		complain("version %s is not valid, nothing has changed", name);
	else if (version && fleetctl_connect(ctl) && upload(ctl, name, version, &was_there))
		status = EXIT_SUCCESS;
	if (status == EXIT_SUCCESS)
		tell_who_refuses_warn(ctl, version);
	siteversion_free(version);
	if (status != EXIT_SUCCESS)
		return status;
	if (ctl->label)
		return rollout_use(ctl, name);
	tell_push(ctl, name, was_there);
	return EXIT_SUCCESS;
}

/* diff */

#define DIFF_TROUBLE 2

/* What lies in etcd need not have come by push, which refuses such files. */
static bool can_be_shown(const struct site_version *version, const char *what)
{
	for (size_t i = 0; i < version->n; i++) {
		const struct site_file *file = &version->files[i];

		for (size_t at = 0, n; at < file->len; at += n) {
			n = strchr("\n\t", file->text[at]) && file->text[at] ?
				    1 :
				    text_printable(file->text + at, file->len - at);
			if (n > 0)
				continue;
			complain("%s: %s has control characters, so it is not shown", what,
				 file->name);
			return false;
		}
	}
	return true;
}

/* Writes what is compared to the directory SIDE. LETTER: both sides can have the same name. */
static bool write_side(struct fleetctl *ctl, const char *work, const char *what, char letter,
		       char *side, size_t size)
{
	struct site_version *version = version_load(ctl, what);
	char dir[PATH_MAX + 256], name[SITE_NAME_MAX + 1];
	bool good = version;

	if (!strchr(what, '/'))
		snprintf(side, size, "%c-%s", letter, what);
	else if (siteversion_get_name(name, what, NULL))
		snprintf(side, size, "%c-%s", letter, name);
	else
		good = false;
	snprintf(dir, sizeof(dir), "%s/%s", work, side);
	good = good && can_be_shown(version, what) && siteversion_write(version, dir);
	siteversion_free(version);
	return good;
}

/* Returns the status of diff(1): 0: no difference; 1: differences; others, also negative ones: it has failed. */
static int run_diff(const char *work, const char *a, const char *b)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (chdir(work) == 0)
			execlp("diff", "diff", "-ruN", a, b, NULL);
		complain("cannot run diff: %m");
		_exit(127);
	}
	return wait_for(pid);
}

/* The version that the roll-out names now. */
static bool find_current(struct fleetctl *ctl, char ret[SITE_NAME_MAX + 1])
{
	const char *label = ctl->label ?: "all";
	char key[FLEETCTL_KEY_MAX];
	struct etcd_range *range;
	bool good;
	int r;

	if (!ctl->etcd && !fleetctl_connect(ctl))
		return false;
	fleetctl_key(ctl, key, "rollout", label);
	r = fleetctl_get(ctl, key, &range);
	if (r == 0)
		complain("no version is rolled out to label %s", label);
	if (r <= 0)
		return false;
	text_copy(ret, SITE_NAME_MAX + 1, range->entries[0].value);
	ret[strcspn(ret, "\n")] = 0;
	etcd_range_free(range);
	good = site_is_name(ret);
	if (!good)
		complain("%s has no name of a version", key);
	return good;
}

/* One argument is compared with the version that is rolled out. Returns the exit statuses of diff(1). */
int action_diff(struct fleetctl *ctl, char **arguments)
{
	char work[PATH_MAX], dir[PATH_MAX + 256], sides[2][128] = {}, current[SITE_NAME_MAX + 1];
	const char *what[2] = { arguments[0], arguments[1] };
	int status = DIFF_TROUBLE;
	bool good;

	if (!what[1]) {
		if (!find_current(ctl, current))
			return DIFF_TROUBLE;
		what[0] = current;
		what[1] = arguments[0];
	}
	if (!siteversion_make_work(work))
		return DIFF_TROUBLE;
	good = write_side(ctl, work, what[0], 'a', sides[0], sizeof(sides[0])) &&
	       write_side(ctl, work, what[1], 'b', sides[1], sizeof(sides[1]));
	if (good)
		status = run_diff(work, sides[0], sides[1]);
	if (status < 0 || status > DIFF_TROUBLE)
		status = DIFF_TROUBLE;
	for (size_t i = 0; i < 2 && *sides[i]; i++) {
		snprintf(dir, sizeof(dir), "%s/%s", work, sides[i]);
		siteversion_remove(dir);
	}
	rmdir(work);
	return status;
}

/* remove */

static bool is_unused(const struct fleet *fleet, const char *name)
{
	char label[256];

	for (size_t i = 0; i < fleet->n_rollouts; i++)
		if (fleet->rollouts[i].revision > 0 &&
		    strcmp(fleet->rollouts[i].version, name) == 0) {
			printable(label, sizeof(label), fleet->rollouts[i].label);
			complain("version %s is rolled out to label %s, so it is not removed", name,
				 label);
			return false;
		}
	return true;
}

static void tell_removal(const struct fleetctl *ctl, const char *name)
{
	struct jsonout json = { .file = stdout };

	if (!ctl->json) {
		printf("version %s is removed from etcd; hosts that have it keep it\n", name);
		return;
	}
	jsonout_open(&json, NULL, '{');
	jsonout_string(&json, "version", name);
	jsonout_close(&json, '}');
	putchar('\n');
}

/* The manifest and the files together, unless a roll-out is written meanwhile. */
static int remove_version(struct fleetctl *ctl, const struct fleet *fleet, const char *name)
{
	char manifest[FLEETCTL_KEY_MAX], files[FLEETCTL_KEY_MAX + 1], rollout[FLEETCTL_KEY_MAX];
	const struct etcd_change changes[] = {
		{ .kind = ETCD_UNCHANGED, .key = rollout, .revision = fleet->revision },
		{ .kind = ETCD_DELETE, .key = manifest },
		{ .kind = ETCD_DELETE, .key = files, .is_prefix = true },
	};
	struct etcd_range *range;
	int r;

	fleetctl_key(ctl, manifest, "versions", name);
	snprintf(files, sizeof(files), "%s/", manifest);
	fleetctl_key(ctl, rollout, "rollout", "");
	if (etcd_range(ctl->etcd, files, /* is_prefix= */ true, 1, &range) != 0)
		return fleetctl_complain(ctl);
	r = range->n == 0 && !fleet_has_version(fleet, name);
	etcd_range_free(range);
	if (r) {
		complain("etcd has no version %s", name);
		return EXIT_FAILURE;
	}
	r = etcd_change(ctl->etcd, changes, 3, NULL);
	if (r == ETCD_CHANGED) {
		complain(
			"somebody else has just rolled out a version, so nothing was removed; try again");
		return EXIT_FAILURE;
	}
	if (r != 0)
		return fleetctl_complain(ctl);
	tell_removal(ctl, name);
	return EXIT_SUCCESS;
}

int action_remove(struct fleetctl *ctl, char **arguments)
{
	const char *name = arguments[0];
	int status = EXIT_FAILURE;
	struct fleet fleet;

	if (!is_name(name))
		return EXIT_USAGE;
	if (!fleetctl_connect(ctl))
		return EXIT_FAILURE;
	if (fleet_read(&fleet, ctl->etcd, ctl->settings.prefix) != 0)
		fleetctl_complain(ctl);
	else if (is_unused(&fleet, name))
		status = remove_version(ctl, &fleet, name);
	fleet_done(&fleet);
	return status;
}

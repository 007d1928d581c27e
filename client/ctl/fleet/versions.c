/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/output.h"
#include "ctl/sitecheck.h"
#include "fleet/sha256.h"
#include "proto/text.h"
#include "versions.h"

/* The versions of a policy: from a directory to etcd and back. */

#define MANIFEST_MAX (128 * 1024) /* bytes; agents take no larger one */

static bool is_name(const char *name)
{
	if (!site_is_name(name))
		complain(
			"invalid name of a version \"%s\": it must have at most %d letters, digits, "
			"'.', '_', '-' and '+'",
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

int action_check(struct fleetctl *ctl, char **arguments)
{
	struct site_version *version = version_load(ctl, arguments[0]);
	int status = EXIT_FAILURE;

	if (version && sitecheck_run_copy(version, "version"))
		status = EXIT_SUCCESS;
	siteversion_free(version);
	if (status == EXIT_SUCCESS)
		printf("%s is valid on this host\n", arguments[0]);
	else
		complain("%s is not valid", arguments[0]);
	return status;
}

/* push */

static json_t *new_manifest(const struct site_version *version)
{
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
	return json_pack("{s:o}", "files", files);
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
			complain("etcd has %s already, with other contents. If that is of a push "
				 "that did not end: rdmabrokerctl fleet remove %s",
				 key, name);
		return false;
	}
	return true;
}

/* The manifest is written last, so an upload that stops halfway is no version. */
static bool upload(struct fleetctl *ctl, const char *name, const struct site_version *version)
{
	json_t *manifest = new_manifest(version);
	char *text = manifest ? json_dumps(manifest, JSON_COMPACT) : NULL, key[FLEETCTL_KEY_MAX];
	bool differs = false, good = text;

	json_decref(manifest);
	if (!text)
		complain("out of memory");
	else if (strlen(text) > MANIFEST_MAX) {
		complain("the version has too many files");
		good = false;
	}
	good = good && upload_files(ctl, name, version);
	fleetctl_key(ctl, key, "versions", name);
	if (good) {
		good = put_once(ctl, key, text, strlen(text), &differs);
		if (differs)
			complain(
				"etcd has version %s already, with other contents; a version cannot "
				"be changed, so give the new one another name",
				name);
	}
	free(text);
	return good;
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
	char names[256] = "";
	unsigned n = 0;

	if (!has_warn_rule(version))
		return;
	if (fleet_read(&fleet, ctl->etcd, ctl->settings.prefix) != 0)
		complain("it is not known which hosts are too old for warn rules: %s",
			 etcd_error(ctl->etcd));
	for (size_t i = 0; i < fleet.n_hosts; i++) {
		const json_t *daemon = json_object_get(fleet.hosts[i].state, "daemon");

		if (json_object_get(daemon, "warn_rules"))
			continue;
		if (n++ < 4)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%.63s",
				 n > 1 ? ", " : "", fleet.hosts[i].name);
	}
	fleet_done(&fleet);
	if (n > 0)
		complain(
			"the version has warn rules, which rdmabroker before 0.2.0 refuses; %u host%s "
			"not known to have a later one, and can stay with the version in force: "
			"%s%s",
			n, n == 1 ? " is" : "s are", names, n > 4 ? ", ..." : "");
}

int action_push(struct fleetctl *ctl, char **arguments)
{
	char name[SITE_NAME_MAX + 1];
	const char *dir = arguments[0];
	struct site_version *version;
	int status = EXIT_FAILURE;

	if (!siteversion_get_name(name, dir, ctl->name))
		return EXIT_USAGE;
	version = siteversion_read(dir);
	if (version && !sitecheck_run_copy(version, name))
		complain("version %s is not valid, nothing has changed", name);
	else if (version && fleetctl_connect(ctl) && upload(ctl, name, version))
		status = EXIT_SUCCESS;
	if (status == EXIT_SUCCESS)
		tell_who_refuses_warn(ctl, version);
	siteversion_free(version);
	if (status != EXIT_SUCCESS)
		return status;
	if (ctl->label)
		return rollout_use(ctl, name);
	printf("version %s is in etcd; \"rdmabrokerctl fleet use %s\" rolls it out\n", name, name);
	return EXIT_SUCCESS;
}

/* diff */

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

/* One argument is compared with the version that is rolled out. */
int action_diff(struct fleetctl *ctl, char **arguments)
{
	char work[PATH_MAX], dir[PATH_MAX + 256], sides[2][128] = {}, current[SITE_NAME_MAX + 1];
	const char *what[2] = { arguments[0], arguments[1] };
	int status = EXIT_FAILURE;
	bool good;

	if (!what[1]) {
		if (!find_current(ctl, current))
			return EXIT_FAILURE;
		what[0] = current;
		what[1] = arguments[0];
	}
	if (!siteversion_make_work(work))
		return EXIT_FAILURE;
	good = write_side(ctl, work, what[0], 'a', sides[0], sizeof(sides[0])) &&
	       write_side(ctl, work, what[1], 'b', sides[1], sizeof(sides[1]));
	if (good)
		status = (unsigned)run_diff(work, sides[0], sides[1]) <= 1 ? EXIT_SUCCESS :
									     EXIT_FAILURE;
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
	printf("version %s is removed from etcd; hosts that have it keep it\n", name);
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

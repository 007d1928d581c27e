/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdint.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <syslog.h>

#include "config.h"
#include "policy/source.h"
#include "proto/word.h"
#include "util/diag.h"
#include "util/owner.h"

/*
 * libinih reports no columns and only the first bad line. So read_line() passes one trimmed line at a time to
 * it, and keeps that line in LINE for the error messages.
 */
struct reading {
	struct config *config;
	struct diag *diag;
	struct source *source;

	struct source_line line;
	bool is_assignment; /* libinih should call handle() for LINE */
	bool is_section_known;
	bool has_section;
	bool has_failed;
	int error; /* a failure of ours: out of memory */
};

struct key {
	const char *section;
	const char *name;
	/* returns 0, -ENOMEM, or -EBADMSG: VALUE is not valid */
	int (*parse)(const struct key *key, const char *value, void *field);
	size_t offset;
	const char *def;
	unsigned long min, max;
	const char *takes; /* valid values, for the error message; NULL: a number from MIN to MAX */
};

static int parse_path(const struct key *key, const char *value, void *field);
static int parse_optional_path(const struct key *key, const char *value, void *field);
static int parse_number(const struct key *key, const char *value, void *field);
static int parse_tos(const struct key *key, const char *value, void *field);
static int parse_log_level(const struct key *key, const char *value, void *field);
static int parse_access(const struct key *key, const char *value, void *field);
static int parse_on_reload(const struct key *key, const char *value, void *field);
static int parse_yes(const struct key *key, const char *value, void *field);
static int parse_user(const struct key *key, const char *value, void *field);

#define FIELD(name) offsetof(struct config, name)
#define SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)
#define RESTRICTED_DIR_MAX (SOCKET_PATH_MAX - 49) /* a name and a file follow, see rpc/outlet.h */

/* clang-format off */
static const struct key keys[] = {
	{ "Daemon", "Socket", parse_path, FIELD(socket_path),
	  "/run/rdmabroker/rdmabroker.sock", 1, SOCKET_PATH_MAX, "an absolute path of at most 107 bytes" },
	{ "Daemon", "AdminSocket", parse_path, FIELD(admin_socket_path),
	  "/run/rdmabroker-admin/rdmabroker.sock", 1, SOCKET_PATH_MAX, "an absolute path of at most 107 bytes" },
	{ "Daemon", "PolicyDir", parse_path, FIELD(policy_dir),
	  "/etc/rdmabroker/policy.d", 1, PATH_MAX - 1, "an absolute path" },
	{ "Daemon", "SitePolicyDir", parse_path, FIELD(site_policy_dir),
	  "/var/lib/rdmabroker/site/current", 1, PATH_MAX - 1, "an absolute path" },
	{ "Daemon", "SiteAdminRules", parse_yes, FIELD(site_admin_rules),
	  "no", 0, 0, "yes or no" },
	{ "Daemon", "RestrictedDirectory", parse_path, FIELD(restricted_dir),
	  "/run/rdmabroker-restricted", 1, RESTRICTED_DIR_MAX, "an absolute path of at most 58 bytes" },
	{ "Daemon", "LogLevel", parse_log_level, FIELD(log_level),
	  "info", 0, 0, "error, warning, notice, info or debug" },
	{ "Daemon", "OnReload", parse_on_reload, FIELD(on_reload),
	  "keep", 0, 0, "keep or enforce" },
	{ "Devices", "Access", parse_access, FIELD(device_access),
	  "acl", 0, 0, "acl or open" },
	{ "Limits", "SubordinateUids", parse_optional_path, FIELD(subuid_path),
	  "/etc/subuid", 1, PATH_MAX - 1, "an absolute path or none" },
	{ "Limits", "Sessions", parse_number, FIELD(max_sessions),
	  "4096", 1, 1048576, NULL },
	{ "Limits", "SessionsPerUser", parse_number, FIELD(max_sessions_per_user),
	  "1024", 1, 1048576, NULL },
	{ "Limits", "IdsPerSession", parse_number, FIELD(max_ids_per_session),
	  "16384", 1, 1048576, NULL },
	{ "Limits", "IdsPerUser", parse_number, FIELD(max_ids_per_user),
	  "65536", 1, 16777216, NULL },
	{ "Limits", "ListenersPerUser", parse_number, FIELD(max_listeners_per_user),
	  "4096", 1, 1048576, NULL },
	{ "Limits", "DescriptorsPerUser", parse_number, FIELD(max_fds_per_user),
	  "8192", 4, 1048576, NULL },
	{ "Limits", "QueuedBytesPerUser", parse_number, FIELD(max_queued_bytes_per_user),
	  "16777216", 65536, 4294967295, NULL },
	{ "Limits", "QueuedBytesPerSession", parse_number, FIELD(max_queued_bytes),
	  "1048576", 65536, 1073741824, NULL },
	{ "Limits", "ResumeTimeoutSec", parse_number, FIELD(resume_timeout_s),
	  "30", 0, 3600, NULL },
	{ "Peers", "Helper", parse_user, FIELD(helper_uid),
	  "rdmabroker-peerd", 0, 0, "the name of a user" },
	{ "Defaults", "Backlog", parse_number, FIELD(backlog),
	  "1024", 1, 65535, NULL },
	{ "Defaults", "TOS", parse_tos, FIELD(tos),
	  "none", 0, 255, "a number from 0 to 255 or none" },
	{ "Defaults", "ResolveTimeoutMSec", parse_number, FIELD(resolve_timeout_ms),
	  "10000", 1, 600000, NULL },
};
/* clang-format on */

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static int parse_path(const struct key *key, const char *value, void *field)
{
	size_t len = strlen(value);
	char **path = field, *copy;

	if (value[0] != '/' || len < key->min || len > key->max)
		return -EBADMSG;

	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(*path);
	*path = copy;
	return 0;
}

static int parse_optional_path(const struct key *key, const char *value, void *field)
{
	char **path = field;

	if (strcmp(value, "none") != 0)
		return parse_path(key, value, field);
	free(*path);
	*path = NULL;
	return 0;
}

static int parse_number(const struct key *key, const char *value, void *field)
{
	unsigned long n;
	char *end;

	/* strtoul() would also accept blanks and signs. */
	if (value[0] < '0' || value[0] > '9')
		return -EBADMSG;
	errno = 0;
	n = strtoul(value, &end, 10);
	if (errno || *end || n < key->min || n > key->max)
		return -EBADMSG;

	*(unsigned *)field = n;
	return 0;
}

static int parse_tos(const struct key *key, const char *value, void *field)
{
	unsigned n;
	int r;

	if (!strcmp(value, "none")) {
		*(int *)field = -1;
		return 0;
	}
	r = parse_number(key, value, &n);
	if (r < 0)
		return r;
	*(int *)field = n;
	return 0;
}

static int parse_log_level(const struct key *key, const char *value, void *field)
{
	static const struct {
		const char *name;
		int level;
	} levels[] = {
		{ "error", LOG_ERR }, { "warning", LOG_WARNING }, { "notice", LOG_NOTICE },
		{ "info", LOG_INFO }, { "debug", LOG_DEBUG },
	};

	(void)key;
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (!strcmp(value, levels[i].name)) {
			*(int *)field = levels[i].level;
			return 0;
		}
	}
	return -EBADMSG;
}

static int parse_access(const struct key *key, const char *value, void *field)
{
	enum config_device_access *access = field;

	(void)key;
	if (!strcmp(value, "acl"))
		*access = CONFIG_DEVICE_ACCESS_ACL;
	else if (!strcmp(value, "open"))
		*access = CONFIG_DEVICE_ACCESS_OPEN;
	else
		return -EBADMSG;
	return 0;
}

static int parse_yes(const struct key *key, const char *value, void *field)
{
	bool yes = strcmp(value, "yes") == 0;

	(void)key;
	if (!yes && strcmp(value, "no") != 0)
		return -EBADMSG;
	*(bool *)field = yes;
	return 0;
}

/* A user that does not exist is no error: the package with the user may be installed later. */
static int parse_user(const struct key *key, const char *value, void *field)
{
	const struct passwd *entry;

	(void)key;
	if (!*value)
		return -EBADMSG;
	entry = getpwnam(value);
	*(uid_t *)field = entry ? entry->pw_uid : (uid_t)-1;
	return 0;
}

static int parse_on_reload(const struct key *key, const char *value, void *field)
{
	enum config_on_reload *on_reload = field;

	(void)key;
	if (!strcmp(value, "keep"))
		*on_reload = CONFIG_ON_RELOAD_KEEP;
	else if (!strcmp(value, "enforce"))
		*on_reload = CONFIG_ON_RELOAD_ENFORCE;
	else
		return -EBADMSG;
	return 0;
}

static int set_key(struct config *config, const struct key *key, const char *value)
{
	return key->parse(key, value, (char *)config + key->offset);
}

static void complain(struct reading *reading, size_t at, const char *what, const char *best)
{
	const struct source_line *line = &reading->line;

	diag_add(reading->diag, source_name(reading->source), line->number, at + 1, line->text,
		 line->len, "%s%s%s%s", what, best ? ", did you mean '" : "", best ? best : "",
		 best ? "'?" : "");
	reading->has_failed = true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Returns the position of the first non-blank from AT on, or the length of LINE. */
static size_t skip_blanks(const struct source_line *line, size_t at)
{
	while (at < line->len && is_blank(line->text[at]))
		at++;
	return at;
}

static void read_section(struct reading *reading, size_t from)
{
	const struct source_line *line = &reading->line;
	const char *name = line->text + from + 1;
	const char *end = memchr(name, ']', line->len - from - 1);
	struct word_guess guess = { .word = name };
	char message[96];

	reading->has_section = true;
	reading->is_section_known = false;

	if (!end) {
		complain(reading, line->len, "expected ']'", NULL);
		return;
	}
	if (skip_blanks(line, end + 1 - line->text) < line->len) {
		complain(reading, skip_blanks(line, end + 1 - line->text),
			 "nothing may follow a section's name", NULL);
		return;
	}

	guess.len = end - name;
	for (size_t i = 0; i < N_KEYS; i++) {
		word_guess(&guess, keys[i].section);
		if (guess.len == strlen(keys[i].section) &&
		    !memcmp(name, keys[i].section, guess.len))
			reading->is_section_known = true;
	}
	if (!reading->is_section_known) {
		snprintf(message, sizeof(message), "unknown section [%.*s]",
			 (int)(guess.len < 64 ? guess.len : 64), name);
		complain(reading, from + 1, message, guess.best);
	}
}

/*
 * libinih does not call handle() for a line that it cannot parse. Reports the previous line if handle() was
 * not called for it.
 */
static void check_handled(struct reading *reading)
{
	if (reading->is_assignment)
		complain(reading, skip_blanks(&reading->line, 0), "expected Key=Value", NULL);
	reading->is_assignment = false;
}

/*
 * Selects the part of the line that libinih gets: from *RET_FROM to before *RET_TO. False: libinih gets an
 * empty line instead.
 */
static bool select_text(struct reading *reading, size_t size, size_t *ret_from, size_t *ret_to)
{
	const struct source_line *line = &reading->line;
	size_t from, to = line->len;

	if (!source_check_line(reading->source, line, reading->diag)) {
		reading->has_failed = true;
		return false;
	}

	/* libinih would treat a line that begins with a blank as the continuation of a value. */
	from = skip_blanks(line, 0);
	while (to > from && is_blank(line->text[to - 1]))
		to--;
	if (from == to || line->text[from] == '#' || line->text[from] == ';')
		return false;
	if (to - from + 2 > size) {
		complain(reading, from + size - 2, "the line is too long", NULL);
		return false;
	}

	if (line->text[from] == '[')
		read_section(reading, from);
	else
		reading->is_assignment = true;
	*ret_from = from;
	*ret_to = to;
	return true;
}

/* Called by libinih in place of fgets(). */
static char *read_line(char *buffer, int size, void *userdata)
{
	struct reading *reading = userdata;
	size_t from = 0, to = 0;

	check_handled(reading);
	if (reading->error < 0 || !source_next(reading->source, &reading->line))
		return NULL;

	if (select_text(reading, size, &from, &to))
		memcpy(buffer, reading->line.text + from, to - from);
	strcpy(buffer + (to - from), "\n");
	return buffer;
}

static void complain_value(struct reading *reading, const struct key *key, size_t at)
{
	char message[240];

	if (key->takes)
		snprintf(message, sizeof(message), "%s= takes %s", key->name, key->takes);
	else
		snprintf(message, sizeof(message), "%s= takes a number from %lu to %lu", key->name,
			 key->min, key->max);
	complain(reading, at, message, NULL);
}

static void complain_key(struct reading *reading, const char *section, const char *name, size_t at)
{
	struct word_guess guess = { .word = name, .len = strlen(name) };
	const char *elsewhere = NULL;
	char message[240];

	for (size_t i = 0; i < N_KEYS; i++) {
		if (!strcmp(keys[i].section, section))
			word_guess(&guess, keys[i].name);
		else if (!strcmp(keys[i].name, name))
			elsewhere = keys[i].section;
	}

	if (elsewhere)
		snprintf(message, sizeof(message), "key '%.64s' belongs to section [%s]", name,
			 elsewhere);
	else
		snprintf(message, sizeof(message), "unknown key '%.64s' in section [%s]", name,
			 section);
	complain(reading, at, message, elsewhere ? NULL : guess.best);
}

/* Called by libinih for each key. Returns 1 (success), because failures are recorded in READING. */
static int handle(void *userdata, const char *section, const char *name, const char *value)
{
	struct reading *reading = userdata;
	const struct source_line *line = &reading->line;
	size_t key_at = skip_blanks(line, 0), value_at = key_at;
	int r;

	reading->is_assignment = false;
	if (!reading->has_section) {
		complain(reading, key_at, "a [Section] must come before the first key", NULL);
		return 1;
	}
	if (!reading->is_section_known)
		return 1;

	while (value_at < line->len && !strchr("=:", line->text[value_at]))
		value_at++;
	value_at = skip_blanks(line, value_at + 1);

	for (size_t i = 0; i < N_KEYS; i++) {
		if (strcmp(keys[i].section, section) || strcmp(keys[i].name, name))
			continue;
		r = set_key(reading->config, &keys[i], value);
		if (r == -EBADMSG)
			complain_value(reading, &keys[i], value_at);
		else if (r < 0)
			reading->error = r;
		return 1;
	}

	complain_key(reading, section, name, key_at);
	return 1;
}

/* -ENOENT: the file is missing. Unless OPTIONAL, DIAG gets a complaint. */
static int load_file(struct config *config, const char *path, bool optional, struct diag *diag)
{
	struct reading reading = { .config = config, .diag = diag };
	int r;

	r = source_new_file(&reading.source, path, optional, diag);
	if (r < 0)
		return r;

	r = ini_parse_stream(read_line, &reading, handle, &reading);
	if (r == -2)
		reading.error = -ENOMEM;
	else if (r != 0 && !reading.has_failed)
		/* Should not happen, because read_line() and handle() have reported each error. */
		complain(&reading, 0, "cannot be parsed", NULL);
	source_free(reading.source);

	if (reading.error < 0)
		return reading.error;
	return reading.has_failed ? -EBADMSG : 0;
}

static int load_dropins(struct config *config, const char *path, struct diag *diag)
{
	size_t size = strlen(path) + sizeof(".d");
	char *dir, **files = NULL;
	int r, first_error = 0;

	dir = malloc(size);
	if (!dir)
		return -ENOMEM;
	snprintf(dir, size, "%s.d", path);

	r = source_list_new(&files, dir, ".conf", /* optional= */ true, diag);
	if (r < 0) {
		first_error = r == -ENOENT ? 0 : r;
		goto out;
	}
	for (size_t i = 0; files[i]; i++) {
		r = load_file(config, files[i], /* optional= */ false, diag);
		if (r < 0 && !first_error)
			first_error = r;
		if (r == -ENOMEM)
			break;
	}
out:
	source_list_free(files);
	free(dir);
	return first_error;
}

void config_init(struct config *config)
{
	*config = (struct config){};
}

void config_done(struct config *config)
{
	free(config->socket_path);
	free(config->admin_socket_path);
	free(config->initial_socket);
	free(config->restricted_dir);
	free(config->site_policy_dir);
	free(config->policy_dir);
	free(config->subuid_path);
	owners_free(config->owners);
	config_init(config);
}

static int load_over(struct config *config, const char *path, bool optional, struct diag *diag)
{
	int first_error = load_file(config, path, optional, diag), r;

	if (first_error == -ENOENT && optional)
		first_error = 0;
	if (first_error == -ENOMEM)
		return first_error;
	r = load_dropins(config, path, diag);
	return first_error ?: r;
}

int config_load_over(struct config *config, const char *path, struct diag *diag)
{
	return load_over(config, path, /* optional= */ true, diag);
}

static int load(struct config *ret, const char *path, bool optional, struct diag *diag)
{
	struct config config;
	int r;

	config_init(&config);
	for (size_t i = 0; i < N_KEYS; i++) {
		r = set_key(&config, &keys[i], keys[i].def);
		if (r < 0) {
			config_done(&config);
			return r;
		}
	}

	r = load_over(&config, path, optional, diag);
	if (r < 0) {
		config_done(&config);
		return r;
	}

	*ret = config;
	return 0;
}

int config_load(struct config *ret, const char *path, struct diag *diag)
{
	return load(ret, path, /* optional= */ true, diag);
}

int config_load_named(struct config *ret, const char *path, struct diag *diag)
{
	return load(ret, path, /* optional= */ false, diag);
}
